//! The connections to all other cells: one to each for heartbeats, and one for calls. Where one
//! breaks, it is opened again.
//!
//! A heartbeat that cannot be sent at once is dropped: a later one says more. A call that cannot be
//! sent fails at once.

use crate::wire::{Message, Who, Wire};
use peer::{Frame, Nonce, Purpose, Target};
use quorum::{Transport, Unreachable};
use ring::{CellId, Heartbeat, Map};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

/// Messages to one cell that wait to be sent.
const QUEUE_MAX: usize = 256;
/// Between two attempts to connect, while a broken connection is new.
const AGAIN_SOON: Duration = Duration::from_millis(5);
/// After that.
const AGAIN: Duration = Duration::from_millis(50);
/// The same, once it is broken for [`LONG`]: a dead cell stays in the map for ever.
const AGAIN_LATER: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_secs(5);
/// A connection that is reset and cannot be opened for so long is broken.
const BROKEN: Duration = Duration::from_millis(20);

enum ToSend {
    Beat(Heartbeat),
    Call { kind: u8, body: Vec<u8>, answer: oneshot::Sender<Result<Vec<u8>, Unreachable>> },
}

/// What is reported of connections.
pub(crate) trait Reports: Send + Sync + 'static {
    /// The connection to `cell` was reset, and nobody listens there.
    fn broken(&self, cell: CellId);
}

/// All connections, each kind in the thread that uses it.
pub(crate) struct Hubs {
    pub(crate) beats: Hub,
    pub(crate) calls: Hub,
}

impl Hubs {
    /// Those of a cell, which listens at `own`: for heartbeats in the first runtime, for calls in
    /// the second.
    pub(crate) fn new(
        (who, own): (&Who, SocketAddr),
        nonce: &Arc<dyn Fn() -> Nonce + Send + Sync>,
        reports: Box<dyn Reports>,
        [of_beats, of_calls]: [Handle; 2],
    ) -> Self {
        let beats = Hub::new((who.clone(), own), nonce.clone(), Some(reports), of_beats);
        let calls = Hub::new((who.clone(), own), nonce.clone(), None, of_calls);
        Self { beats, calls }
    }

    /// Connects to the cells of `map`, where they are reached now.
    pub(crate) fn adopt(&self, map: &Map) {
        self.beats.adopt(map);
        self.calls.adopt(map);
    }
}

/// The connections of one kind to all other cells.
#[derive(Clone)]
pub(crate) struct Hub(Arc<Shared>);

struct Shared {
    who: Who,
    /// Where this cell listens.
    own: SocketAddr,
    nonce: Arc<dyn Fn() -> Nonce + Send + Sync>,
    /// Of two kinds of connections to a cell, one says that they break.
    reports: Option<Box<dyn Reports>>,
    /// Of the thread that has the connections.
    runtime: Handle,
    cells: Mutex<BTreeMap<CellId, (SocketAddr, mpsc::Sender<ToSend>)>>,
}

impl Hub {
    fn new(
        (who, own): (Who, SocketAddr),
        nonce: Arc<dyn Fn() -> Nonce + Send + Sync>,
        reports: Option<Box<dyn Reports>>,
        runtime: Handle,
    ) -> Self {
        let cells = Mutex::default();
        Self(Arc::new(Shared { who, own, nonce, reports, runtime, cells }))
    }

    /// Connects to the cells of `map`, where they are reached now.
    pub(crate) fn adopt(&self, map: &Map) {
        let me = self.0.who.local.identity.cell;
        let mut cells = self.0.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.retain(|id, _| !map.has_removed(*id));
        for (id, cell) in map.cells.iter().filter(|(id, _)| id.0 != me) {
            let address = cell.started.addresses.control;
            if address == self.0.own {
                // This cell is where that one was. The map may not have that yet.
                cells.remove(id);
                continue;
            }
            if cells.get(id).is_some_and(|(known, _)| *known == address) {
                continue;
            }
            let (sender, queue) = mpsc::channel(QUEUE_MAX);
            // The task of an earlier address ends: nothing can be sent to it any more.
            cells.insert(*id, (address, sender));
            let keeps = Keeps { hub: self.0.clone(), cell: *id, address };
            self.0.runtime.spawn(keeps.run(queue));
        }
    }

    /// The cells that can be called.
    pub(crate) fn known(&self) -> Vec<CellId> {
        let cells = self.0.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.keys().copied().collect()
    }

    /// Where a cell is called.
    pub(crate) fn address(&self, cell: CellId) -> Option<SocketAddr> {
        let cells = self.0.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.get(&cell).map(|(address, _)| *address)
    }

    /// Sends a heartbeat.
    pub(crate) fn beat(&self, to: CellId, heartbeat: Heartbeat) {
        if let Some(sender) = self.sender(to) {
            let _ = sender.try_send(ToSend::Beat(heartbeat));
        }
    }

    /// Calls `to`, and waits for the answer. The caller has a deadline.
    pub(crate) async fn call_kind(
        &self,
        to: CellId,
        kind: u8,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Unreachable> {
        let sender = self.sender(to).ok_or(Unreachable::NotSent)?;
        let (answer, answered) = oneshot::channel();
        let call = ToSend::Call { kind, body, answer };
        sender.try_send(call).map_err(|_| Unreachable::NotSent)?;
        answered.await.unwrap_or(Err(Unreachable::NoAnswer))
    }

    fn sender(&self, to: CellId) -> Option<mpsc::Sender<ToSend>> {
        let cells = self.0.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.get(&to).map(|(_, sender)| sender.clone())
    }
}

impl Transport for Hub {
    async fn call(&self, to: CellId, body: Vec<u8>) -> Result<Vec<u8>, Unreachable> {
        self.call_kind(to, crate::messages::QUORUM, body).await
    }
}

/// Keeps the connection to one cell.
struct Keeps {
    hub: Arc<Shared>,
    cell: CellId,
    address: SocketAddr,
}

impl Keeps {
    async fn run(self, mut queue: mpsc::Receiver<ToSend>) {
        let mut lost_at: Option<Instant> = None;
        let mut is_reported = true;
        let began_at = Instant::now();
        loop {
            let target = Target { cell: self.cell.0, purpose: Purpose::Control };
            let nonce = (self.hub.nonce)();
            match Wire::connect(self.address, &self.hub.who, target, nonce).await {
                Ok(wire) => {
                    if Self::pump(wire, &mut queue).await.is_none() {
                        return;
                    }
                    (lost_at, is_reported) = (Some(Instant::now()), false);
                }
                Err(error) => {
                    let is_refused = matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
                    );
                    let is_long = lost_at.is_some_and(|at| at.elapsed() >= BROKEN);
                    if is_refused && is_long && !is_reported {
                        is_reported = true;
                        self.hub.reports.iter().for_each(|to| to.broken(self.cell));
                    }
                }
            }
            let pause = sleep(match lost_at {
                Some(at) if at.elapsed() < 2 * BROKEN => AGAIN_SOON,
                at if at.unwrap_or(began_at).elapsed() < LONG => AGAIN,
                _ => AGAIN_LATER,
            });
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    sent = queue.recv() => match sent {
                        None => return,
                        Some(ToSend::Beat(_)) => {}
                        Some(ToSend::Call { answer, .. }) => {
                            let _ = answer.send(Err(Unreachable::NotSent));
                        }
                    },
                }
            }
        }
    }

    /// Sends and receives until the connection breaks. `None` if nobody sends any more.
    async fn pump(wire: Wire, queue: &mut mpsc::Receiver<ToSend>) -> Option<()> {
        let Wire { mut reader, mut writer, .. } = wire;
        let mut waiting: HashMap<u64, oneshot::Sender<_>> = HashMap::new();
        let mut next_id = 0;
        let mut closing = Some(());
        loop {
            tokio::select! {
                sent = queue.recv() => {
                    let Some(sent) = sent else {
                        closing = None;
                        break;
                    };
                    let done = match sent {
                        ToSend::Beat(beat) => writer.beat(&beat).await,
                        ToSend::Call { kind, body, answer } => {
                            next_id += 1;
                            waiting.retain(|_, waits| !waits.is_closed());
                            waiting.insert(next_id, answer);
                            writer.send(&Frame::Call { id: next_id, kind, body: &body }).await
                        }
                    };
                    if done.is_err() {
                        break;
                    }
                }
                message = reader.next() => match message {
                    Ok(Message::Answer { id, ok, body }) => {
                        if let Some(answer) = waiting.remove(&id) {
                            let body = if ok { Ok(body) } else { Err(Unreachable::NoAnswer) };
                            let _ = answer.send(body);
                        }
                    }
                    Ok(_) => {}
                    Err(_) => break,
                },
            }
        }
        for (_, answer) in waiting {
            let _ = answer.send(Err(Unreachable::NoAnswer));
        }
        closing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peer::{Identity, Secret};
    use ring::{Addresses, Command, Incarnation, Started};

    #[test]
    fn a_cell_calls_all_that_are_elsewhere_and_never_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let mut map = Map::new(7, 3, 2);
        for port in 1..=3 {
            let addresses = Addresses { control: at(port), links: at(port), clients: at(port) };
            let started = Started::new(Incarnation(1), addresses);
            map.apply(&Command::Join { token: u64::from(port), started });
        }
        let secret = Secret::new(&[9; 32]).expect("long enough");
        let who = Who::new(&secret, Identity { ring: 7, cell: 1, incarnation: 2 });
        let calls = |own: u16| {
            let nonce = Arc::new(|| [5; _]);
            let hub = Hub::new((who.clone(), at(own)), nonce, None, runtime.handle().clone());
            hub.adopt(&map);
            [1, 2, 3].map(|cell| hub.address(CellId(cell)))
        };
        assert_eq!(calls(1), [None, Some(at(2)), Some(at(3))]);
        assert_eq!(calls(2), [None, None, Some(at(3))], "it is where a cell was that is lost");
        // The map has an earlier address of it, which another cell may have taken.
        assert_eq!(calls(4), [None, Some(at(2)), Some(at(3))]);
        map.cells.get_mut(&CellId(2)).expect("it has joined").started.addresses.control = at(1);
        let nonce = Arc::new(|| [5; _]);
        let hub = Hub::new((who.clone(), at(4)), nonce, None, runtime.handle().clone());
        hub.adopt(&map);
        assert_eq!(hub.address(CellId(2)), Some(at(1)));
    }
}
