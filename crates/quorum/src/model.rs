//! A coordinator in memory, for tests: one map, one order, and faults on demand.
//!
//! It is linearizable: a proposal is applied at one moment between its call and its return, or
//! later if the fault says so. It owns no task, thread, clock or source of randomness: a proposal
//! that is delayed waits until the test lets it go.

use crate::coordinator::{Coordinator, Outcome, Unavailable};
use ring::{Command, Map, Verdict};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;

/// Most commands that are delayed at once; one more is lost.
pub const DELAYED_MAX: usize = 1024;

/// What happens to the proposals from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// They get their verdict.
    #[default]
    None,
    /// They are not applied, and the proposer knows it. Reads fail too.
    Unavailable,
    /// They are applied, and the proposer does not know it.
    UnknownApplied,
    /// They are never applied, and the proposer does not know it.
    UnknownLost,
    /// They are applied by [`Model::apply_delayed`], and the proposer does not know it.
    Delayed,
}

/// The coordinator. A clone is the same one, as another cell sees it.
#[derive(Clone, Debug)]
pub struct Model(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    map: Map,
    sender: watch::Sender<Arc<Map>>,
    fault: Fault,
    delayed: VecDeque<Command>,
}

impl Model {
    /// A coordinator of `map`.
    #[must_use]
    pub fn new(map: Map) -> Self {
        let sender = watch::Sender::new(Arc::new(map.clone()));
        Self(Arc::new(Mutex::new(State {
            map,
            sender,
            fault: Fault::None,
            delayed: VecDeque::new(),
        })))
    }

    /// What happens from now on.
    pub fn set_fault(&self, fault: Fault) {
        self.state().fault = fault;
    }

    /// Applies the oldest command that is delayed. `None` if there is none.
    pub fn apply_delayed(&self) -> Option<Verdict> {
        let mut state = self.state();
        let command = state.delayed.pop_front()?;
        Some(state.apply(&command))
    }

    /// What [`Coordinator::propose`] does, for a caller without a runtime.
    pub fn propose_now(&self, command: Command) -> Outcome {
        let mut state = self.state();
        match state.fault {
            Fault::None => return Outcome::Verdict(state.apply(&command)),
            Fault::Unavailable => return Outcome::Unavailable(Unavailable::NoLeader),
            Fault::UnknownApplied => drop(state.apply(&command)),
            Fault::UnknownLost => {}
            Fault::Delayed if state.delayed.len() < DELAYED_MAX => state.delayed.push_back(command),
            Fault::Delayed => {}
        }
        Outcome::Unknown
    }

    /// What [`Coordinator::read`] does, likewise.
    pub fn read_now(&self) -> Result<Arc<Map>, Unavailable> {
        let state = self.state();
        match state.fault {
            Fault::Unavailable => Err(Unavailable::NoLeader),
            _ => Ok(state.sender.borrow().clone()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

impl State {
    fn apply(&mut self, command: &Command) -> Verdict {
        let verdict = self.map.apply(command);
        if matches!(verdict, Verdict::Applied { .. }) {
            self.sender.send_replace(Arc::new(self.map.clone()));
        }
        verdict
    }
}

impl Coordinator for Model {
    async fn propose(&self, command: Command) -> Outcome {
        self.propose_now(command)
    }

    async fn read(&self) -> Result<Arc<Map>, Unavailable> {
        self.read_now()
    }

    fn watch(&self) -> watch::Receiver<Arc<Map>> {
        self.state().sender.subscribe()
    }
}
