//! What the connections of a worker wait for: marks of logs, moments, and another try.
//!
//! ```text
//! gates      for each log a heap: the front of a connection's queue, by its position in the log
//! deadlines  a heap: when the wait of a connection's front ends
//! parked     a queue: connections whose request could not run, first in, first out
//! ```
//!
//! ```text
//! parked     [ oldest | tried in this pass ][ untried | youngest ]
//! a turn       ^ first, and while it runs,    ^ then these, as far as one turn goes
//!                the next oldest
//! ```
//!
//! So what becomes free goes to those that have waited longest, and no request that could run is
//! kept waiting by an older one that cannot. When none is untried, the next pass begins.
//!
//! A mark that passes frees the heads of one heap, so no other connection is asked. An entry is
//! stale when its connection is gone or waits for something else; it is skipped when it comes to
//! the head, and all stale ones are removed when they are more than half.
//!
//! While the worker sleeps, other threads see which logs its connections wait for, so that a mark
//! wakes only workers that it concerns. The worker [announces](Waits::announce) them, and asks the
//! gates after that: either it sees the mark, or the thread that has raised the mark sees the
//! announcement.
//!
//! Invariants: a connection has one entry for its present gate, at most one live deadline, and is
//! in `parked` at most once. Times are nanoseconds of the monotonic clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use session::LogId;

use super::key::Key;
use crate::shared::{PARKED_RETRY_NS, bit_of};

/// Parked requests that are tried in one turn, of a worker that has just served others and of one
/// that has not. One that lacks memory takes up to some 70 microseconds, so that the others wait a
/// millisecond at most for those of a busy worker.
const RETRIES_BUSY_MAX: usize = 16;
const RETRIES_IDLE_MAX: usize = 128;

/// Logs without a wait that are kept, so that their heaps are used again.
const LOGS_KEPT_MAX: usize = 64;

/// Entries that a heap may hold before stale ones are counted.
const ENTRIES_MIN: usize = 64;

/// Which log a connection waits for, and for which position in it.
pub(super) type Gate = (LogId, u64);

type Heap = BinaryHeap<Reverse<(u64, Key)>>;

/// The connections that wait for one log.
struct Log {
    id: LogId,
    waiting: Heap,
}

/// Connections whose request is parked: `tried` before `untried`, the oldest first.
#[derive(Default)]
struct Parked {
    tried: VecDeque<Key>,
    untried: VecDeque<Key>,
    /// Where a connection is put that is parked now.
    place: Place,
}

/// A place among the parked connections.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// The first of all: the oldest was tried, and parks again.
    Oldest,
    /// The last of those that were tried.
    Tried,
    /// The last of all: it was not parked before.
    #[default]
    Youngest,
}

impl Parked {
    fn len(&self) -> usize {
        self.tried.len() + self.untried.len()
    }
}

#[derive(Default)]
pub(super) struct Waits {
    /// In no order: a cell has few.
    logs: Vec<Log>,
    /// Entries of all logs.
    gates: usize,
    deadlines: Heap,
    parked: Parked,
    /// A gate was added, or a mark may have passed, since the gates were asked.
    stale: bool,
    /// The logs that other threads see now that connections wait for, one bit for each.
    announced: u64,
}

impl Waits {
    /// Whether a reply waits for a log.
    #[inline(always)]
    pub(super) fn has_gates(&self) -> bool {
        self.gates > 0
    }

    /// Whether a wait has a deadline, or a request is parked.
    #[inline(always)]
    pub(super) fn is_any(&self) -> bool {
        !self.deadlines.is_empty() || self.has_parked()
    }

    #[inline(always)]
    pub(super) fn has_parked(&self) -> bool {
        self.parked.len() > 0
    }

    /// Whether the gates must be asked before the worker sleeps.
    #[inline(always)]
    pub(super) fn must_ask(&self) -> bool {
        self.stale && self.has_gates()
    }

    /// A mark may have passed.
    pub(super) fn ask_again(&mut self) {
        self.stale = true;
    }

    /// How long nothing here is due.
    pub(super) fn wait_ns(&self, now_ns: u64) -> u64 {
        if self.has_parked() {
            return PARKED_RETRY_NS;
        }
        self.deadlines.peek().map_or(u64::MAX, |Reverse((at_ns, _))| at_ns.saturating_sub(now_ns))
    }

    /// The reply of `key` that leaves next waits for a gate. `places` is how many connections there
    /// are at most; `lives` says whether an entry is not stale.
    pub(super) fn add_gate(
        &mut self,
        key: Key,
        (id, seq): Gate,
        places: usize,
        lives: impl Fn(Key, Gate) -> bool,
    ) {
        // Its gate was asked just now: if that was after its log was announced, no mark is missed.
        self.stale |= self.announced & bit_of(id) == 0;
        self.gates += 1;
        let at = self.logs.iter().position(|log| log.id == id).unwrap_or_else(|| {
            self.logs.push(Log { id, waiting: Heap::new() });
            self.logs.len() - 1
        });
        let waiting = &mut self.logs[at].waiting;
        waiting.push(Reverse((seq, key)));
        if waiting.len() > (2 * places).max(ENTRIES_MIN) {
            let before = waiting.len();
            waiting.retain(|Reverse((seq, key))| lives(*key, (id, *seq)));
            self.gates -= before - waiting.len();
        }
    }

    /// The logs that connections wait for, one bit for each, for other threads to see. The gates
    /// are asked after that.
    pub(super) fn announce(&mut self) -> u64 {
        self.stale = false;
        if self.logs.len() > LOGS_KEPT_MAX {
            self.logs.retain(|log| !log.waiting.is_empty());
        }
        let waited_for = self.logs.iter().filter(|log| !log.waiting.is_empty());
        self.announced = waited_for.fold(0, |bits, log| bits | bit_of(log.id));
        self.announced
    }

    /// Whether logs were announced. They are not any more: the worker is awake.
    #[inline(always)]
    pub(super) fn withdraw(&mut self) -> bool {
        std::mem::take(&mut self.announced) != 0
    }

    /// How many logs there are. More may be added while they are gone through, and none removed.
    pub(super) fn logs(&self) -> usize {
        self.logs.len()
    }

    /// Takes the first connection that waits for log number `at`, if its gate has passed.
    pub(super) fn take_passed(
        &mut self,
        at: usize,
        passed: impl Fn(Gate) -> bool,
        lives: impl Fn(Key, Gate) -> bool,
    ) -> Option<Key> {
        let Log { id, waiting } = &mut self.logs[at];
        while let Some(Reverse((seq, key))) = waiting.peek().copied() {
            let gate = (*id, seq);
            let live = lives(key, gate);
            if live && !passed(gate) {
                return None;
            }
            waiting.pop();
            self.gates -= 1;
            if live {
                return Some(key);
            }
        }
        None
    }

    /// The wait of `key` ends at `at_ns`. `lives` says whether a connection is there.
    pub(super) fn add_deadline(
        &mut self,
        key: Key,
        at_ns: u64,
        places: usize,
        lives: impl Fn(Key) -> bool,
    ) {
        self.deadlines.push(Reverse((at_ns, key)));
        if self.deadlines.len() > (2 * places).max(ENTRIES_MIN) {
            self.deadlines.retain(|Reverse((_, key))| lives(*key));
        }
    }

    /// Takes a connection whose deadline, as it was added, is due.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<Key> {
        let Reverse((at_ns, key)) = self.deadlines.peek().copied()?;
        if at_ns > now_ns {
            return None;
        }
        self.deadlines.pop();
        Some(key)
    }

    /// The request of `key` is parked.
    pub(super) fn park(&mut self, key: Key, places: usize, lives: impl Fn(Key) -> bool) {
        let Parked { tried, untried, place } = &mut self.parked;
        match place {
            Place::Oldest => tried.push_front(key),
            Place::Tried => tried.push_back(key),
            Place::Youngest => untried.push_back(key),
        }
        if self.parked.len() > (2 * places).max(ENTRIES_MIN) {
            self.parked.tried.retain(|key| lives(*key));
            self.parked.untried.retain(|key| lives(*key));
        }
    }

    /// Begins a turn of parked requests; returns how many it tries at most. `idle`: the worker has
    /// nothing else to do. [`Waits::end_retries`] ends the turn.
    pub(super) fn begin_retries(&mut self, idle: bool) -> usize {
        let Parked { tried, untried, .. } = &mut self.parked;
        if untried.is_empty() {
            std::mem::swap(tried, untried);
        }
        self.parked.len().min(if idle { RETRIES_IDLE_MAX } else { RETRIES_BUSY_MAX })
    }

    /// Takes the connection whose request was parked first, or else the first that is untried.
    pub(super) fn take_parked(&mut self, oldest: bool) -> Option<Key> {
        let Parked { tried, untried, place } = &mut self.parked;
        *place = if oldest { Place::Oldest } else { Place::Tried };
        let was_tried = if oldest { tried.pop_front() } else { None };
        was_tried.or_else(|| untried.pop_front())
    }

    /// Connections that are parked from now on are the youngest.
    pub(super) fn end_retries(&mut self) {
        self.parked.place = Place::Youngest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LogId = LogId(1);
    const B: LogId = LogId(66);

    #[test]
    fn a_mark_frees_the_heads_of_its_log_in_the_order_of_positions() {
        let mut waits = Waits::default();
        for (key, gate) in [(1, (A, 30)), (2, (B, 1)), (3, (A, 10)), (4, (A, 20)), (5, (A, 5))] {
            waits.add_gate(key, gate, 10, |_, _| true);
        }
        assert!(waits.must_ask());
        assert_eq!(waits.announce(), 1 << 1 | 1 << 2);
        assert!(!waits.must_ask() && waits.withdraw() && !waits.withdraw());
        let asked = std::cell::Cell::new(0);
        let mut freed = Vec::new();
        for at in 0..waits.logs() {
            let passed = |gate: Gate| {
                asked.set(asked.get() + 1);
                gate.0 == A && gate.1 <= 20
            };
            while let Some(key) = waits.take_passed(at, passed, |key, _| key != 5) {
                freed.push(key);
            }
        }
        assert_eq!((freed, asked.get()), (vec![3, 4], 4), "only heads are asked");
        assert!(waits.has_gates());
        assert_eq!(waits.take_passed(0, |_| true, |_, _| true), Some(1));
        assert_eq!(waits.take_passed(1, |_| true, |_, _| false), None);
        assert!(!waits.has_gates());
        assert_eq!(waits.announce(), 0);
    }

    #[test]
    fn stale_entries_are_bounded_by_connections() {
        let mut waits = Waits::default();
        for at in 0..100_000 {
            let lives = move |key: Key| key + 100 > at;
            waits.add_gate(at, (A, at), 100, move |key, _| lives(key));
            waits.add_deadline(at, at, 100, lives);
            waits.park(at, 100, lives);
            assert!(waits.gates <= 201 && waits.deadlines.len() <= 201);
            assert!(waits.parked.len() <= 201);
        }
        for log in 0..1000 {
            waits.add_gate(log, (LogId(log as u32), 1), 100, |_, _| true);
            waits.take_passed(waits.logs() - 1, |_| true, |_, _| true);
            waits.announce();
            assert!(waits.logs() <= LOGS_KEPT_MAX + 1);
        }
    }

    #[test]
    fn the_earliest_deadline_is_due_first_whenever_it_was_added() {
        let mut waits = Waits::default();
        for (key, at_ns) in [(1, 300), (2, 100), (3, 200)] {
            waits.add_deadline(key, at_ns, 10, |_| true);
        }
        assert_eq!(waits.wait_ns(40), 60);
        assert_eq!(waits.take_due(99), None);
        let due = [100, 250, 250, 300].map(|now_ns| waits.take_due(now_ns));
        assert_eq!(due, [Some(2), Some(3), None, Some(1)]);
        assert_eq!(waits.wait_ns(0), u64::MAX);
        waits.park(7, 10, |_| true);
        assert_eq!(waits.wait_ns(0), PARKED_RETRY_NS);
    }

    /// One turn, in which the requests of `runs` can run and the others park again; returns those
    /// that were tried.
    fn turn(waits: &mut Waits, idle: bool, runs: impl Fn(Key) -> bool) -> Vec<Key> {
        let (mut tried, mut oldest) = (Vec::new(), true);
        for _ in 0..waits.begin_retries(idle) {
            let Some(key) = waits.take_parked(oldest) else { break };
            tried.push(key);
            if !runs(key) {
                waits.park(key, 1000, |_| true);
                oldest = false;
            }
        }
        waits.end_retries();
        tried
    }

    #[test]
    fn the_oldest_parked_is_tried_first_in_each_turn_and_every_other_in_its_turn() {
        let mut waits = Waits::default();
        (1..=40).for_each(|key| waits.park(key, 1000, |_| true));
        let none = |_| false;
        assert_eq!(turn(&mut waits, false, none), (1..=16).collect::<Vec<_>>());
        let second: Vec<_> = std::iter::once(1).chain(17..=31).collect();
        assert_eq!(turn(&mut waits, false, none), second);
        // What becomes free goes to the oldest, also in the middle of a pass.
        assert_eq!(turn(&mut waits, false, |_| true), (1..=16).collect::<Vec<_>>());
        // One that can run is not kept waiting by older ones.
        let third = turn(&mut waits, false, |key| key == 40);
        assert_eq!(third, std::iter::once(17).chain(32..=40).collect::<Vec<_>>());
        waits.park(50, 1000, |_| true);
        let all: Vec<_> = std::iter::once(17).chain([50]).collect();
        assert_eq!(turn(&mut waits, true, none), all);
        assert_eq!(turn(&mut waits, true, none), (17..=39).chain([50]).collect::<Vec<_>>());
    }
}
