//! What other cells send to this one: heartbeats, calls of the coordinator, and cells that want to
//! join.
//!
//! A connection is accepted, and heartbeats are taken, in the thread of the member. With its first
//! call it goes to the thread of the coordinator, so that a call wakes no other.

use crate::hub::Hub;
use crate::messages::{JOIN, Join, Joined, QUORUM};
use crate::wire::{Message, Reader, Who, Wire};
use peer::{Frame, Identity, Nonce};
use quorum::{Coordinator, Outcome, Quorum};
use ring::{CellId, Command, Event, Incarnation, Verdict};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::sleep;

/// Connections of other cells that are served at once.
const CONNECTIONS_MAX: usize = 4096;
/// Calls of one connection that are carried out or wait for their answer to be sent. No more is
/// received meanwhile.
const CALLS_MAX: usize = 256;
/// After a connection that could not be accepted: there are no descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// What serves the calls of other cells.
pub(crate) struct Calls {
    pub(crate) who: Who,
    pub(crate) nonce: Arc<dyn Fn() -> Nonce + Send + Sync>,
    /// To the member.
    pub(crate) events: mpsc::Sender<Event>,
    /// Once it has started.
    pub(crate) quorum: OnceLock<Arc<Quorum<Hub>>>,
    /// Of the thread that the coordinator runs in.
    pub(crate) runtime: Handle,
    pub(crate) note: Arc<dyn Fn(String) + Send + Sync>,
}

struct Call {
    id: u64,
    kind: u8,
    body: Vec<u8>,
}

struct Answer {
    id: u64,
    /// Whether the call succeeds, and what is answered. `None`: it fails, and says no more.
    answer: Option<(bool, Vec<u8>)>,
}

impl Calls {
    /// Serves all that connect.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Err(_) => sleep(PAUSE).await,
                Ok((socket, _)) => {
                    let calls = self.clone();
                    tokio::spawn(calls.serve_one(socket, place));
                }
            }
        }
    }

    async fn serve_one(self: Arc<Self>, socket: TcpStream, place: OwnedSemaphorePermit) {
        let from = socket.peer_addr();
        let mut wire = match Wire::accept(socket, &self.who, (self.nonce)()).await {
            Ok(wire) => wire,
            Err(error) => {
                if let Ok(from) = from
                    && error.kind() == std::io::ErrorKind::Other
                {
                    (self.note)(format!("a connection of {} was refused: {error}", from.ip()));
                }
                return;
            }
        };
        let peer = wire.session.peer;
        let Some(first) = self.hears(&mut wire.reader, peer).await else { return };
        let Ok(wire) = wire.detach() else { return };
        let runtime = self.runtime.clone();
        runtime.spawn(async move {
            if let Ok(wire) = wire.attach() {
                self.answers(wire, first).await;
            }
            drop(place);
        });
    }

    /// Takes heartbeats, until a call comes. `None`: the connection is over.
    async fn hears(&self, reader: &mut Reader, peer: Identity) -> Option<Call> {
        while let Ok(message) = reader.next().await {
            match message {
                Message::Heartbeat(heartbeat) if peer.ring != 0 => {
                    let from = CellId(peer.cell);
                    let incarnation = Incarnation(peer.incarnation);
                    // One that finds the member too far behind is of no use.
                    let _ = self.events.try_send(Event::Heard { from, incarnation, heartbeat });
                }
                Message::Call { id, kind, body } if kind == JOIN || peer.ring != 0 => {
                    return Some(Call { id, kind, body });
                }
                _ => return None,
            }
        }
        None
    }

    /// Answers `first` and the calls after it, in the thread of the coordinator.
    async fn answers(self: Arc<Self>, wire: Wire, first: Call) {
        let Wire { session, mut reader, mut writer } = wire;
        let (answers, mut to_send) = mpsc::channel::<(Answer, OwnedSemaphorePermit)>(CALLS_MAX);
        let places = Arc::new(Semaphore::new(CALLS_MAX));
        let sends = async {
            while let Some((Answer { id, answer }, _place)) = to_send.recv().await {
                let (ok, body) = answer.unwrap_or_default();
                if writer.send(&Frame::Answer { id, ok, body: &body }).await.is_err() {
                    return;
                }
            }
        };
        let receives = async {
            let mut next = Some(first);
            while let Some(Call { id, kind, body }) = next {
                let (calls, answers) = (self.clone(), answers.clone());
                let Ok(place) = places.clone().acquire_owned().await else { return };
                tokio::spawn(async move {
                    let answer = calls.answer(CellId(session.peer.cell), kind, &body).await;
                    let _ = answers.send((Answer { id, answer }, place)).await;
                });
                next = self.hears(&mut reader, session.peer).await;
            }
        };
        tokio::select! {
            () = sends => {}
            () = receives => {}
        }
    }

    async fn answer(&self, from: CellId, kind: u8, body: &[u8]) -> Option<(bool, Vec<u8>)> {
        let quorum = self.quorum.get()?;
        match kind {
            QUORUM => Some((true, quorum.handle(from, body).await)),
            JOIN => join(quorum, body).await,
            _ => None,
        }
    }
}

/// Takes a cell into the ring, or says why the map refuses that. `None`: not now.
async fn join(quorum: &Quorum<Hub>, body: &[u8]) -> Option<(bool, Vec<u8>)> {
    let Join { token, started, is_witness } = serde_json::from_slice(body).ok()?;
    let joining = match is_witness {
        true => Command::JoinWitness { token, started },
        false => Command::Join { token, started },
    };
    let (version, cell) = match quorum.propose(joining).await {
        Outcome::Verdict(Verdict::Applied { version, cell: Some(cell) }) => (version, cell),
        Outcome::Verdict(Verdict::Refused(refusal)) => {
            return Some((false, serde_json::to_vec(&refusal).ok()?));
        }
        _ => return None,
    };
    let mut maps = quorum.watch();
    let map = maps.wait_for(|map| map.version >= version).await.ok()?;
    let joined = Joined { cell, map: (**map).clone() };
    drop(map);
    Some((true, serde_json::to_vec(&joined).ok()?))
}
