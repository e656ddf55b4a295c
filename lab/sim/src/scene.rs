//! True time, and what is to happen when. Events of one moment happen in the order in which they
//! were added.

use crate::dice::Dice;
use crate::trace::Trace;
use ring::{CellId, Command, Heartbeat, Outcome};
use std::collections::BTreeMap;

/// One life of a cell: the index of the cell, and its incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    pub(crate) cell: usize,
    pub(crate) number: u64,
}

/// A connection, by its number. None is used twice.
pub(crate) type PipeId = u64;

/// A call of the coordinator, by its number. None is used twice.
pub(crate) type CallId = u64;

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The worker with this number takes its next step.
    Worker(Life, usize),
    /// The keeper takes its next step.
    Keeper(Life),
    /// This thread of the tier takes its next step.
    Tier(Life, usize),
    /// The member looks at the time.
    Tick(Life),
    /// Something comes to the member.
    Member(Life, Box<ring::Event>),
    /// A heartbeat arrives at a cell.
    Beat(Life, usize, Box<Heartbeat>),
    /// The connections of a life of a cell were reset; another finds nobody there, or somebody.
    Redial(Life, Life),
    /// A chunk arrives that was sent by this side of a connection.
    Deliver(PipeId, usize),
    /// A connection to a cell is tried, until a time.
    Dial(Dial),
    /// A client does what comes next for it.
    Client(usize),
    /// A client's connection arrives at a cell.
    ClientDials(usize, usize),
    /// A command arrives at the coordinator.
    Propose(CallId, Box<Command>),
    /// A call of the coordinator ends, if it is still open.
    Answer(CallId, Outcome),
    /// The map of this version arrives at a cell.
    MapComes(usize, u64),
    /// The map of this version arrives at a cell, from another one.
    MapFetched(usize, u64),
    /// A cell says that it has started.
    Start(Life),
    /// The next fault begins.
    Fault,
    /// A fault comes because a step of an operation has begun.
    Interrupt,
    /// A fault ends, by its number.
    Mend(u64),
    /// An operator wants something of the ring.
    Order,
    /// A machine goes off.
    GoesOff(usize),
    /// A cell starts again.
    Restart(usize),
    /// All faults end.
    Calm,
    /// It is looked whether all is well.
    Look,
}

/// A connection that is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dial {
    pub(crate) from: Life,
    /// The worker that wants it.
    pub(crate) worker: usize,
    pub(crate) to: usize,
    pub(crate) purpose: u64,
    pub(crate) until_ns: u64,
}

/// The number of the cell with this index.
pub(crate) fn cell_id(cell: usize) -> CellId {
    CellId(cell as u32 + 1)
}

/// The index of the cell with this number.
pub(crate) fn index_of(cell: CellId) -> usize {
    cell.0 as usize - 1
}

/// What every part of a run works with.
pub(crate) struct Scene {
    pub(crate) now_ns: u64,
    pub(crate) dice: Dice,
    pub(crate) trace: Trace,
    events: BTreeMap<(u64, u64), Event>,
    added: u64,
    /// Events that have happened.
    pub(crate) steps: u64,
    /// When cells have taken the second of others.
    pub(crate) takes_ns: Vec<u64>,
}

impl Scene {
    pub(crate) fn new(dice: Dice, trace: Trace) -> Self {
        let events = BTreeMap::new();
        Self { now_ns: 0, dice, trace, events, added: 0, steps: 0, takes_ns: Vec::new() }
    }

    /// `event` happens at `at_ns`, or now if that is past.
    pub(crate) fn at(&mut self, at_ns: u64, event: Event) {
        self.events.insert((at_ns.max(self.now_ns), self.added), event);
        self.added += 1;
    }

    /// `event` happens after a delay.
    pub(crate) fn after(&mut self, delay_ns: u64, event: Event) {
        self.at(self.now_ns + delay_ns, event);
    }

    /// The next event, whose time is now then.
    pub(crate) fn take(&mut self) -> Option<Event> {
        let ((at_ns, _), event) = self.events.pop_first()?;
        self.now_ns = at_ns;
        self.steps += 1;
        Some(event)
    }

    pub(crate) fn note(&mut self, what: &str, numbers: &[u64]) {
        self.trace.note(self.now_ns, what, numbers);
    }

    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        self.trace.say(self.now_ns, line);
    }
}
