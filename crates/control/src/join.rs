//! A new cell asks those of a ring to take it.

use crate::config::{ControlConfig, ControlError};
use crate::messages::{JOIN, Join, Joined};
use crate::threads::Thread;
use crate::wire::{Message, Who, Wire};
use peer::{Frame, Identity, Purpose, Target};
use ring::Refusal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Takes what an operator should know.
pub(crate) type Note = Arc<dyn Fn(String) + Send + Sync>;

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
    (thread, note): (&Thread, &Note),
) -> Result<Joined, ControlError> {
    let identity = Identity { ring: 0, cell: 0, incarnation: join.started.incarnation.0 };
    let who = Who::new(&config.secret, identity);
    let (seeds, nonce, ends) = (config.seeds.clone(), config.nonce.clone(), config.ends.clone());
    let note = note.clone();
    thread.run(async move {
        let (start, mut reason, mut is_noted) = (Instant::now(), String::new(), false);
        while start.elapsed() < JOINING {
            for seed in &seeds {
                let joined = tokio::select! {
                    joined = join_at(*seed, &who, (nonce)(), join) => joined,
                    () = until(&ends) => return Err(ControlError::Ended { reason }),
                };
                match joined {
                    Ok(Ok(joined)) => return Ok(joined),
                    Ok(Err(refusal)) if refusal.is_for_good() => {
                        return Err(ControlError::Refused(refusal));
                    }
                    Ok(Err(refusal)) => reason = format!("{seed}: {refusal}"),
                    Err(why) => reason = format!("{seed}: {why}"),
                }
            }
            if !is_noted {
                let seconds = JOINING.as_secs();
                note(format!("no ring takes this cell yet: {reason}; it asks for {seconds} s"));
                is_noted = true;
            }
            sleep(AGAIN).await;
        }
        Err(ControlError::NotJoined { seeds, reason })
    })?
}

/// Refuses a directory whose cell is in `ring`, where the first seed that answers is in another: it
/// would serve that ring at the addresses of this one. Where none answers, nothing is known.
pub(crate) fn check_ring(
    config: &ControlConfig,
    ring: u64,
    thread: &Thread,
) -> Result<(), ControlError> {
    // As a cell that is in no ring: such a one is answered by all.
    let who = Who::new(&config.secret, Identity { ring: 0, cell: 0, incarnation: 0 });
    let others = config.seeds.iter().filter(|seed| **seed != config.addresses.control);
    let seeds: Vec<_> = others.map(|seed| (*seed, (config.nonce)())).collect();
    let found = thread.run(async move {
        let mut asked = JoinSet::new();
        for (seed, nonce) in seeds {
            let (who, target) = (who.clone(), Target { cell: 0, purpose: Purpose::Control });
            asked.spawn(async move {
                let wire = Wire::connect(seed, &who, target, nonce).await.ok()?;
                Some((seed, wire.session.peer.ring))
            });
        }
        while let Some(answer) = asked.join_next().await {
            if let Ok(Some(found)) = answer {
                return Some(found);
            }
        }
        None
    })?;
    match found {
        Some((seed, other)) if other != ring => {
            let directory = config.directory.clone();
            Err(ControlError::OtherRing { directory, ring, seed, other })
        }
        _ => Ok(()),
    }
}

/// Waits until that is set.
async fn until(ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        sleep(AGAIN).await;
    }
}

/// Asks one seed. What the map refuses is no error.
async fn join_at(
    seed: SocketAddr,
    who: &Who,
    nonce: peer::Nonce,
    join: Join,
) -> Result<Result<Joined, Refusal>, String> {
    let target = Target { cell: 0, purpose: Purpose::Control };
    let wire = Wire::connect(seed, who, target, nonce).await;
    let mut wire = wire.map_err(|error| error.to_string())?;
    let body = serde_json::to_vec(&join).map_err(|error| error.to_string())?;
    let call = Frame::Call { id: 1, kind: JOIN, body: &body };
    wire.writer.send(&call).await.map_err(|error| error.to_string())?;
    match timeout(ANSWERING, wire.reader.next()).await {
        Ok(Ok(Message::Answer { ok: true, body, .. })) => {
            serde_json::from_slice(&body).map(Ok).map_err(|error| error.to_string())
        }
        Ok(Ok(Message::Answer { body, .. })) => {
            serde_json::from_slice(&body).map(Err).map_err(|_| "it cannot now".to_owned())
        }
        Ok(Ok(_)) => Err("it cannot now".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}
