//! A stream over the wire: batches of requests, then the refills of what they missed.
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
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Trace;
use super::history::History;
use super::trace::{Step, is_get};
use crate::protocol::{Manner, Parser, Protocol, Token, compose_get, compose_set};
use crate::target::Talk;
use crate::workload::{Op, Request, Workload};
use crate::{Error, Target, server};

/// Requests of a batch, at most.
const BATCH_REQUESTS: usize = 128;
/// Bytes of the values of a batch, at most, unless it is a single one.
const BATCH_BYTES: usize = 48 << 10;
/// Bytes of one read.
const RECV_BYTES: usize = 64 << 10;
/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Signals that one read outlasts: whoever stops and continues the process interrupts it.
const INTERRUPTS_MAX: usize = 16;
/// How often the server is asked what it holds, while hits are counted.
const SAMPLES: u64 = 16;

/// What a replay found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Gets that were counted.
    pub gets: u64,
    /// Of these, how many hit.
    pub hits: u64,
    /// Sets that were not stored, refills included.
    pub refused: u64,
    /// Bytes of items that the server says it holds, overhead included: the mean of the samples.
    pub held_bytes: u64,
    /// Items held, likewise.
    pub held_items: u64,
    /// The most memory of the server that was ever resident; 0 when its process is not known.
    pub rss_bytes_max: u64,
    /// How long it took.
    pub elapsed_s: f64,
}

impl Outcome {
    /// Hits by gets.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }
}

/// Replays `trace` to the empty server at `target`; `server_pid` names its process, if known.
///
/// # Errors
/// When the server cannot be reached, falls silent, or says what the protocol does not know.
pub fn replay(trace: Trace, target: &Target, server_pid: Option<u32>) -> Result<Outcome, Error> {
    let mut client = Client::connect(target)?;
    let started = Instant::now();
    let form = trace.form().clone();
    let measured_from = trace.measured_from();
    let mut watch = Watch::new(&trace, target);
    let mut steps = trace.peekable();
    let (mut batch, mut at) = (Vec::with_capacity(BATCH_REQUESTS), 0_u64);
    while let Some(first) = steps.peek().copied() {
        wait_until(started + Duration::from_secs(u64::from(first.at_s)));
        batch.clear();
        let mut bytes = 0;
        while let Some(step) = steps.next_if(|step| fits(&batch, bytes, &first, step)) {
            bytes += step.request.value_bytes as usize;
            batch.push(step);
        }
        client.exchange(&batch, &form, at >= measured_from)?;
        at += batch.len() as u64;
        watch.look(at);
    }
    let mut outcome = client.outcome;
    (outcome.held_bytes, outcome.held_items) = watch.mean();
    outcome.rss_bytes_max = server_pid.and_then(server::rss_bytes_max).unwrap_or(0);
    outcome.elapsed_s = started.elapsed().as_secs_f64();
    Ok(outcome)
}

/// Whether `step` may join a `batch` of so many `bytes` that began with `first`.
pub(super) fn fits(batch: &[Step], bytes: usize, first: &Step, step: &Step) -> bool {
    let small = bytes + step.request.value_bytes as usize <= BATCH_BYTES;
    let in_time = step.at_s == first.at_s && batch.len() < BATCH_REQUESTS;
    batch.is_empty() || (small && in_time)
}

/// The pace of a stream whose items expire; it waits for a moment, not for an event.
fn wait_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

/// Asks the server what it holds, at even distances.
struct Watch<'t> {
    target: &'t Target,
    next: u64,
    every: u64,
    sums: (u64, u64),
    samples: u64,
}

impl<'t> Watch<'t> {
    fn new(trace: &Trace, target: &'t Target) -> Self {
        let next = trace.measured_from();
        let every = (trace.requests() - next).div_ceil(SAMPLES).max(1);
        Self { target, next, every, sums: (0, 0), samples: 0 }
    }

    fn look(&mut self, at: u64) {
        if at < self.next {
            return;
        }
        self.next += self.every;
        if let Some((bytes, items)) = server::held(self.target) {
            self.sums = (self.sums.0 + bytes, self.sums.1 + items);
            self.samples += 1;
        }
    }

    fn mean(&self) -> (u64, u64) {
        let samples = self.samples.max(1);
        (self.sums.0 / samples, self.sums.1 / samples)
    }
}

pub(super) struct Client {
    talk: Box<dyn Talk>,
    parser: Parser,
    input: Vec<u8>,
    output: Vec<u8>,
    pub outcome: Outcome,
    /// Hits over time, for who wants to see them.
    pub history: History,
}

/// What a reply said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Hit,
    Miss,
    Stored,
    Refused,
}

impl Client {
    pub fn connect(target: &Target) -> Result<Self, Error> {
        let talk = target
            .talk(PATIENCE)
            .map_err(|error| Error::io(format!("cannot connect to {target}"), error))?;
        Ok(Self {
            talk,
            parser: Parser::default(),
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
        let replies = self.round(&requests, form)?;
        let mut refilled = HashSet::new();
        let mut second = Vec::new();
        for (step, reply) in batch.iter().zip(&replies) {
            match reply {
                Reply::Miss if refilled.insert(step.request.key) => {
                    self.count(Reply::Miss, counted);
                    second.push(Request { op: Op::Set, ..step.request });
                }
                Reply::Miss => second.push(step.request),
                _ if is_get(step) => self.count(*reply, counted),
                _ => self.outcome.refused += u64::from(*reply == Reply::Refused),
            }
        }
        for (request, reply) in second.iter().zip(self.round(&second, form)?) {
            match request.op {
                Op::Get => self.count(reply, counted),
                _ => self.outcome.refused += u64::from(reply == Reply::Refused),
            }
        }
        Ok(())
    }

    /// Counts a get that nobody need send: its object is never stored.
    pub fn missed(&mut self, counted: bool) {
        self.count(Reply::Miss, counted);
    }

    fn count(&mut self, reply: Reply, counted: bool) {
        self.history.count(reply == Reply::Hit);
        self.outcome.gets += u64::from(counted);
        self.outcome.hits += u64::from(counted && reply == Reply::Hit);
    }

    /// Sends requests in one piece and reads as many replies.
    fn round(&mut self, requests: &[Request], form: &Workload) -> Result<Vec<Reply>, Error> {
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
        let mut replies = Vec::with_capacity(requests.len());
        let mut hit = false;
        while replies.len() < requests.len() {
            let read = self.receive()?;
            let mut left = &self.input[..];
            loop {
                let reply = match self.parser.next(&mut left) {
                    Token::Value { .. } => {
                        hit = true;
                        continue;
                    }
                    Token::Data { .. } => continue,
                    Token::Incomplete => break,
                    Token::End if std::mem::take(&mut hit) => Reply::Hit,
                    Token::End | Token::BatchEnd => Reply::Miss,
                    Token::Stored | Token::Deleted | Token::Done => Reply::Stored,
                    Token::NotStored | Token::NotFound | Token::Failed(_) => Reply::Refused,
                    Token::Malformed(line) => {
                        let line = String::from_utf8_lossy(line);
                        return Err(Error::Setting(format!("the server answered {line:?}")));
                    }
                };
                replies.push(reply);
            }
            let kept = left.len();
            self.input.drain(..self.input.len() - kept);
            if read == 0 {
                return Err(Error::Setting("the server closed the connection".to_string()));
            }
        }
        Ok(replies)
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
