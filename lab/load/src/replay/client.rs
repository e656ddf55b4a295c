//! The client of a replay: one connection, a batch of requests at a time.
//!
//! ```text
//! batch:   get a  get b  set c  get a  get d        in one piece, in order
//! refill:  set b  set d  get d                      what missed; a key's later gets again
//! ```
//!
//! A get that missed has changed nothing, so the later gets of its key are asked again behind the
//! refill and count by that answer: every key sees its operations in order, as from a client that
//! waits, at a fraction of the round trips. A batch is small enough that requests and replies fit
//! the buffers of the socket: neither side ever waits for the other to read.

use std::collections::HashSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::time::Duration;

use super::Outcome;
use super::history::History;
use super::round::{Answer, Checks, Round};
use super::trace::{Step, is_get};
use crate::exchange::Breach;
use crate::protocol::{Manner, Protocol, compose_get, compose_set};
use crate::workload::{Op, Request, Workload};
use measure::target::Talk;
use measure::{Error, Target};

/// Requests of a batch, at most.
pub(super) const BATCH_REQUESTS: usize = 128;
/// Bytes of the values of a batch, at most, unless it is a single one.
const BATCH_BYTES: usize = 48 << 10;
/// Bytes of one read.
const RECV_BYTES: usize = 64 << 10;
/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Signals that one read outlasts: whoever stops and continues the process interrupts it.
const INTERRUPTS_MAX: usize = 16;

/// Whether `step` may join a `batch` of so many `bytes` that began with `first`.
pub(super) fn fits(batch: &[Step], bytes: usize, first: &Step, step: &Step) -> bool {
    let small = bytes + step.request.value_bytes as usize <= BATCH_BYTES;
    let in_time = step.at_s == first.at_s && batch.len() < BATCH_REQUESTS;
    batch.is_empty() || (small && in_time)
}

pub(super) struct Client {
    talk: Box<dyn Talk>,
    checks: Checks,
    input: Vec<u8>,
    output: Vec<u8>,
    pub outcome: Outcome,
    /// Hits over time, for who wants to see them.
    pub history: History,
}

impl Client {
    pub fn connect(target: &Target, checks: Checks) -> Result<Self, Error> {
        let talk = target
            .talk(PATIENCE)
            .map_err(|error| Error::io(format!("cannot connect to {target}"), error))?;
        Ok(Self {
            talk,
            checks,
            input: Vec::new(),
            output: Vec::new(),
            outcome: Outcome::default(),
            history: History::default(),
        })
    }

    /// A batch and its refills.
    pub fn exchange(
        &mut self,
        batch: &[Step],
        form: &Workload,
        counted: bool,
    ) -> Result<(), Error> {
        let requests: Vec<Request> = batch.iter().map(|step| step.request).collect();
        let answers = self.round(&requests, form)?;
        let mut refilled = HashSet::new();
        let mut second = Vec::new();
        for (step, answer) in batch.iter().zip(answers) {
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
        for (request, answer) in second.iter().zip(self.round(&second, form)?) {
            if request.op == Op::Get {
                self.count(answer, counted);
            }
        }
        Ok(())
    }

    /// Counts a get that nobody need send: its object is never stored.
    pub fn missed(&mut self, counted: bool) {
        self.count(Answer::Miss, counted);
    }

    /// Counts a get, unless it failed: that stands in the outcome already.
    fn count(&mut self, answer: Answer, counted: bool) {
        if answer == Answer::Failed {
            return;
        }
        self.history.count(answer == Answer::Hit);
        self.outcome.gets += u64::from(counted);
        self.outcome.hits += u64::from(counted && answer == Answer::Hit);
    }

    /// Sends requests in one piece and reads as many replies.
    fn round(&mut self, requests: &[Request], form: &Workload) -> Result<Vec<Answer>, Error> {
        self.output.clear();
        for request in requests {
            match request.op {
                Op::Get => {
                    let key = std::iter::once(request.key);
                    compose_get(Protocol::Text, form, key, &mut self.output);
                }
                Op::Set => {
                    let alone = Manner::Alone;
                    compose_set(Protocol::Text, form, *request, alone, &mut self.output);
                }
                Op::Delete | Op::Modify => unreachable!("invariant: a trace reads and stores"),
            }
        }
        self.talk.write_all(&self.output).map_err(|error| Error::io("cannot send", error))?;
        let mut round = Round::new(form, self.checks, requests);
        while !round.is_over() {
            if self.receive()? == 0 {
                return Err(Error::Setting("the server closed the connection".to_string()));
            }
            let taken = round.take(&self.input, &mut self.outcome);
            let taken = taken.map_err(|Breach(what)| Error::Setting(what))?;
            self.input.drain(..taken);
        }
        Ok(round.answers)
    }

    /// Reads once, behind what is left of an unfinished reply.
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
