//! A new cell asks those of a ring to take it.

use crate::config::{ControlConfig, ControlError};
use crate::messages::{JOIN, Join, Joined};
use crate::threads::Thread;
use crate::wire::{Message, Who, Wire};
use peer::{Frame, Identity, Purpose, Target};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long a cell tries to be taken into a ring.
const JOINING: Duration = Duration::from_secs(60);
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a seed may take to answer.
const ANSWERING: Duration = Duration::from_secs(4);

/// Asks the seeds, one after the other, to be taken into their ring.
pub(crate) fn join_any(
    config: &ControlConfig,
    join: Join,
    thread: &Thread,
) -> Result<Joined, ControlError> {
    let identity = Identity { ring: 0, cell: 0, incarnation: join.started.incarnation.0 };
    let who = Who::new(&config.secret, identity);
    let (seeds, nonce) = (config.seeds.clone(), config.nonce.clone());
    let joined = thread.run(async move {
        let start = Instant::now();
        let mut reason = String::new();
        while start.elapsed() < JOINING {
            for seed in &seeds {
                match join_at(*seed, &who, (nonce)(), join).await {
                    Ok(joined) => return Ok(joined),
                    Err(why) => reason = format!("{seed}: {why}"),
                }
            }
            sleep(AGAIN).await;
        }
        Err(reason)
    })?;
    joined.map_err(|reason| ControlError::NotJoined { seeds: config.seeds.clone(), reason })
}

async fn join_at(
    seed: SocketAddr,
    who: &Who,
    nonce: peer::Nonce,
    join: Join,
) -> Result<Joined, String> {
    let target = Target { cell: 0, purpose: Purpose::Control };
    let wire = Wire::connect(seed, who, target, nonce).await;
    let mut wire = wire.map_err(|error| error.to_string())?;
    let body = serde_json::to_vec(&join).map_err(|error| error.to_string())?;
    let call = Frame::Call { id: 1, kind: JOIN, body: &body };
    wire.writer.send(&call).await.map_err(|error| error.to_string())?;
    match timeout(ANSWERING, wire.reader.next()).await {
        Ok(Ok(Message::Answer { ok: true, body, .. })) => {
            serde_json::from_slice(&body).map_err(|error| error.to_string())
        }
        Ok(Ok(_)) => Err("it cannot now".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}
