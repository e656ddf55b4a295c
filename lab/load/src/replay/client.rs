//! The client of a replay: one connection, a batch of requests at a time.
//!
//! ```text
//! batch:   get a  get b  set c  get a  get d        in one piece, in order
//! refill:  set b  set d  get d                      what missed; later gets of the key again
//! ```
//!
//! A get that missed has changed nothing, so the later gets of its key are sent again after the
//! refill, and count by that answer. Invariant: every key sees its operations in order, as from a
//! client that waits, with far fewer round trips. Bounds: a batch is small enough for the buffers
//! of the socket, so neither side waits for the other to read.

use std::collections::HashSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use super::history::History;
use super::outcome::Outcome;
use super::round::{Answer, Checks, Round};
use super::trace::{Step, is_get};
use crate::exchange::Breach;
use crate::workload::{Op, Request, Workload};
use measure::target::Talk;
use measure::{Error, Target};

/// The most requests of a batch.
const BATCH_REQUESTS: usize = 128;
/// The most bytes of values of a batch, unless it is a single request.
const BATCH_BYTES: usize = 48 << 10;
/// Bytes of one read.
const RECV_BYTES: usize = 64 << 10;
/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Signals that one read outlasts: to stop and continue the process interrupts it.
const INTERRUPTS_MAX: usize = 16;

/// Whether `step` may join a `batch` whose values have `bytes`.
pub(super) fn fits(batch: &[Step], bytes: usize, step: &Step) -> bool {
    let Some(first) = batch.first() else { return true };
    let small = bytes + step.request.value_bytes as usize <= BATCH_BYTES;
    small && step.at_s == first.at_s && batch.len() < BATCH_REQUESTS
}

/// A connection with what it has found.
pub(super) struct Client {
    talk: Box<dyn Talk>,
    round: Round,
    input: Vec<u8>,
    output: Vec<u8>,
    pub outcome: Outcome,
    /// Hits over time.
    pub history: History,
}

impl Client {
    pub fn connect(target: &Target, form: &Arc<Workload>, checks: Checks) -> Result<Self, Error> {
        let talk = target
            .talk(PATIENCE)
            .map_err(|error| Error::io(format!("cannot connect to {target}"), error))?;
        Ok(Self {
            talk,
            round: Round::new(form, checks),
            input: Vec::new(),
            output: Vec::new(),
            outcome: Outcome::default(),
            history: History::default(),
        })
    }

    /// A batch and its refills.
    pub fn exchange(&mut self, batch: &[Step], counted: bool) -> Result<(), Error> {
        let requests: Vec<Request> = batch.iter().map(|step| step.request).collect();
        let (mut refilled, mut second) = (HashSet::new(), Vec::new());
        for (step, answer) in batch.iter().zip(self.answers(&requests)?) {
            match answer {
                Answer::Miss if !refilled.insert(step.request.key) => second.push(step.request),
                Answer::Miss => {
                    self.count(Answer::Miss, counted);
                    second.push(Request { op: Op::Set, ..step.request });
                }
                _ if is_get(step) => self.count(answer, counted),
                _ => {}
            }
        }
        for (request, answer) in second.iter().zip(self.answers(&second)?) {
            if request.op == Op::Get {
                self.count(answer, counted);
            }
        }
        Ok(())
    }

    /// Counts a get that is not sent, because its object is never stored.
    pub fn missed(&mut self, counted: bool) {
        self.count(Answer::Miss, counted);
    }

    /// Counts a get, unless it failed: the outcome has counted that already.
    fn count(&mut self, answer: Answer, counted: bool) {
        if answer == Answer::Failed {
            return;
        }
        self.history.count(answer == Answer::Hit);
        self.outcome.gets += u64::from(counted);
        self.outcome.hits += u64::from(counted && answer == Answer::Hit);
    }

    /// Sends requests in one piece and reads their replies.
    fn answers(&mut self, requests: &[Request]) -> Result<Vec<Answer>, Error> {
        self.output.clear();
        self.round.begin(requests, &mut self.output);
        self.talk.write_all(&self.output).map_err(|error| Error::io("cannot send", error))?;
        while !self.round.is_over() {
            if self.receive()? == 0 {
                return Err(Error::Setting("the server closed the connection".to_string()));
            }
            let taken = self.round.take(&self.input, &mut self.outcome);
            let taken = taken.map_err(|Breach(what)| Error::Setting(what))?;
            self.input.drain(..taken);
        }
        Ok(self.round.answers().to_vec())
    }

    /// Reads once, after what is left of an unfinished reply.
    fn receive(&mut self) -> Result<usize, Error> {
        let start = self.input.len();
        self.input.resize(start + RECV_BYTES, 0);
        let mut read = self.talk.read(&mut self.input[start..]);
        for _ in 0..INTERRUPTS_MAX {
            let Err(error) = &read else { break };
            if error.kind() != ErrorKind::Interrupted {
                break;
            }
            read = self.talk.read(&mut self.input[start..]);
        }
        self.input.truncate(start + *read.as_ref().unwrap_or(&0));
        read.map_err(|error| Error::io("no reply", error))
    }
}
