//! The thread that keeps a cell as the map of its ring wants it.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use control::{Plane, Seen};
use drivers::Clock;
use ring::{CellId, Change, Granted, Map, Memory, Outcome, Outlook, Range, RangeId, Stamp};
use service::{Flushing, Keeper, Rest, RingCell};
use session::WorkerId;

use super::pace::Pace;
use super::repeats::Repeats;
use crate::logging;

/// Between two steps of what takes long.
const STEP: Duration = Duration::from_micros(200);
/// The longest rest between two of these steps while a range lacks a copy.
const REST_SHORT: Duration = Duration::from_millis(1);
/// The longest rest, where nothing is left to do.
const REST: Duration = Duration::from_secs(1);

/// Messages that wait for the thread. What a cell is ready for is sent again if it found no place.
const MESSAGES_MAX: usize = 1024;

enum Message {
    Adopt(Arc<Map>, BTreeMap<RangeId, u64>),
    Ready(CellId, u64),
    Unseal(Stamp),
    End,
}

/// The thread, as the control plane reaches it.
pub(super) struct Keeping {
    messages: SyncSender<Message>,
    ring: Arc<RingCell>,
    ready: Arc<AtomicU64>,
    sent: Sent,
    clock: Clock,
    notes: Arc<Repeats>,
}

/// By cell, what it is ready for, as the thread has it.
#[derive(Default)]
struct Sent(Mutex<BTreeMap<CellId, u64>>);

impl Sent {
    /// Lets the thread know by `send` what `cell` is ready for, unless it does. What found no place
    /// is sent the next time.
    fn send(&self, cell: CellId, version: u64, send: impl FnOnce() -> bool) {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.get(&cell) != Some(&version) && send() {
            sent.insert(cell, version);
        }
    }
}

/// Ends the thread when dropped.
pub(super) struct KeepingThread(SyncSender<Message>, Option<JoinHandle<()>>);

impl Keeping {
    /// Starts the thread.
    ///
    /// # Errors
    /// That the system refuses one.
    pub(super) fn start(
        ring: Arc<RingCell>,
        map: Arc<Map>,
        (clock, notes): (Clock, Arc<Repeats>),
    ) -> io::Result<(Arc<Self>, KeepingThread)> {
        let (messages, received) = sync_channel(MESSAGES_MAX);
        let ready = Arc::new(AtomicU64::new(0));
        let keeper = Keeper::new(ring.clone(), map, clock.now());
        let (shared, of_thread) = (ready.clone(), clock.clone());
        let thread = thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || run(keeper, &received, &shared, &of_thread))?;
        let ends = KeepingThread(messages.clone(), Some(thread));
        let sent = Sent::default();
        Ok((Arc::new(Self { messages, ring, ready, sent, clock, notes }), ends))
    }
}

/// Logs a change of the map, a line for each sentence.
pub(super) fn log_change(change: &Change) {
    for line in &change.lines {
        tracing::info!("map {} ({}): {line}", change.version, change.cause);
    }
}

/// Ends the process, because the life of the cell is over.
pub(super) fn end(why: &str) -> ! {
    tracing::error!("{why}");
    logging::finish();
    std::process::exit(1);
}

fn run(mut keeper: Keeper, received: &Receiver<Message>, ready: &AtomicU64, clock: &Clock) {
    let (mut wait, mut pace) = (REST, Pace::default());
    loop {
        match received.recv_timeout(wait) {
            Ok(Message::Adopt(map, holds)) => {
                keeper.adopt(map, holds, clock.now());
            }
            Ok(Message::Ready(cell, version)) => keeper.hear_ready(cell, version),
            Ok(Message::Unseal(at)) => keeper.unseal(at, clock.now()),
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = clock.now();
        let is_busy = keeper.tend(now);
        ready.store(keeper.ready_version(), Ordering::Release);
        let wake_ns = keeper.wakes_at_ns(now).saturating_sub(now.mono_ns);
        if keeper.rest() == Rest::None {
            pace.stops();
        }
        let mut paced = || pace.rest(now.mono_ns, clock.now().mono_ns);
        wait = match (is_busy, keeper.rest()) {
            (true, Rest::None) => STEP,
            (true, Rest::Short) => paced().min(REST_SHORT),
            (true, Rest::Long) => paced(),
            (false, _) => REST.min(Duration::from_nanos(wake_ns)),
        };
        keeper.sleeps(clock.now(), wait.as_nanos() as u64);
    }
}

impl Plane for Keeping {
    fn adopt(&self, map: Arc<Map>, holds: BTreeMap<RangeId, u64>) {
        // An error means that the cell ends.
        let _ = self.messages.send(Message::Adopt(map, holds));
    }

    fn extend(&self, range: RangeId, epoch: u32, until_ns: u64) {
        self.ring.extend(range, epoch, until_ns);
    }

    fn granted(&self, primary: CellId, granted: Granted) {
        self.ring.granted(primary, granted);
    }

    fn serves(&self, range: &Range) -> bool {
        self.ring.may_answer(range, self.clock.now())
    }

    fn unseal(&self, at: Stamp) {
        // An error means that the cell ends.
        let _ = self.messages.send(Message::Unseal(at));
    }

    /// Each heartbeat says it: the thread is woken only by what is new.
    fn hear_ready(&self, cell: CellId, version: u64) {
        let send = || self.messages.try_send(Message::Ready(cell, version)).is_ok();
        self.sent.send(cell, version, send);
    }

    fn ready_version(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    fn memory(&self) -> Memory {
        self.ring.memory()
    }

    fn record(&self, change: Change, is_old: bool) {
        log_change(&change);
        let at_s = if is_old { 0 } else { self.clock.now().expiry_s };
        self.ring.record(change, at_s);
    }

    fn flushed(&self, flush: Seen, outcome: Outcome) {
        if let Seen::Flushes { worker, id, due_s, at_s } = flush {
            let worker = WorkerId(worker);
            self.ring.flushed(Flushing { worker, id, due_s, at_s }, outcome);
        }
    }

    fn see(&self, outlook: Outlook) {
        self.ring.see(outlook);
    }

    fn note(&self, text: String) {
        self.notes.warn(&text);
    }

    /// At once: a drain would answer clients meanwhile.
    fn end(&self, why: String) {
        end(&why);
    }
}

impl Drop for KeepingThread {
    fn drop(&mut self) {
        let _ = self.0.send(Message::End);
        if let Some(thread) = self.1.take() {
            // A panic in it was printed already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_woken_by_what_is_new_and_by_what_found_no_place() {
        let sent = Sent::default();
        let wakes = |cell, version, finds_place| {
            let mut is_sent = false;
            sent.send(CellId(cell), version, || {
                is_sent = true;
                finds_place
            });
            is_sent
        };
        assert!(wakes(1, 0, true) && !wakes(1, 0, true), "it is said in each heartbeat");
        assert!(wakes(2, 0, true) && wakes(1, 7, false) && wakes(1, 7, true));
        assert!(!wakes(1, 7, true) && wakes(1, 0, true), "it has started again");
    }
}
