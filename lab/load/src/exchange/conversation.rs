//! One connection's side of a conversation: every reply is checked against its request.
//!
//! Pure: requests are appended to a buffer ([`Outstanding`]), replies come in as slices, the time
//! is an argument. A reply is checked for its shape (does it answer the request?), for its key,
//! and with `verify` for every byte of its value. A value that arrives settles its key; keys
//! passed over before it, and those left at the end of a get, are misses. It never reads a socket
//! or a clock. Invariant: the counts do not depend on how the replies are cut.

use super::outstanding::{FollowUp, Outstanding};
use super::rules::Rules;
use crate::protocol::{Parser, Protocol, Token};
use crate::tally::{Kind, Tally};

/// A reply that does not answer its request: the connection cannot be used any longer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach(pub String);

/// A value of which a part may have arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Arriving {
    key: u64,
    value_bytes: u32,
    at: usize,
    wrong: bool,
}

/// What the next token of a reply has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A part of a reply is taken.
    Part,
    /// The oldest request is answered.
    Answered,
    /// More bytes are needed.
    Incomplete,
}

/// The conversation on one connection.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    outstanding: Outstanding,
    parser: Parser,
    /// The value that arrives, or the last one that did.
    arriving: Arriving,
}

impl Exchange {
    /// A conversation in `protocol` before its first request.
    pub fn new(protocol: Protocol) -> Self {
        Self { parser: Parser::new(protocol), ..Self::default() }
    }

    /// The number of requests that are not answered.
    #[inline]
    pub fn pending(&self) -> usize {
        self.outstanding.pending.len()
    }

    /// How many of those are measured.
    pub fn pending_measured(&self, rules: &Rules) -> u64 {
        let is_measured = |from_ns: u64| u64::from(from_ns >= rules.measure_from_ns);
        self.outstanding.pending.iter().map(|pending| is_measured(pending.from_ns)).sum()
    }

    /// The requests, to add to them.
    #[inline]
    pub fn outstanding(&mut self) -> &mut Outstanding {
        &mut self.outstanding
    }

    /// The length of the last value that arrived.
    pub fn value_bytes(&self) -> u32 {
        self.arriving.value_bytes
    }

    /// Takes whole tokens off `input` and returns how many bytes they were; the caller presents
    /// the rest again with more after it.
    ///
    /// # Errors
    /// When a reply does not answer its request.
    #[inline]
    pub fn receive(
        &mut self,
        rules: &Rules,
        now_ns: u64,
        input: &[u8],
        tally: &mut Tally,
    ) -> Result<usize, Breach> {
        let mut rest = input;
        while self.step(rules, now_ns, &mut rest, tally)? != Step::Incomplete {}
        Ok(input.len() - rest.len())
    }

    /// Takes the next token off `input`.
    ///
    /// # Errors
    /// When it does not belong to a reply to the oldest request.
    #[inline(always)]
    pub fn step(
        &mut self,
        rules: &Rules,
        now_ns: u64,
        input: &mut &[u8],
        tally: &mut Tally,
    ) -> Result<Step, Breach> {
        let token = self.parser.next(input);
        if matches!(token, Token::Incomplete) {
            return Ok(Step::Incomplete);
        }
        let Some(oldest) = self.outstanding.pending.front_mut() else {
            return Err(Breach(format!("a reply to no request: {}", show(token))));
        };
        let (is_get, is_delete) = (oldest.kind.is_get(), oldest.kind == Kind::Delete);
        let (is_store, is_text) = (!is_get && !is_delete, rules.protocol == Protocol::Text);
        let measured = u64::from(oldest.from_ns >= rules.measure_from_ns);
        // A batch continues, whatever its commands answer, until its end.
        let batch = oldest.keys > 1 && !is_text;
        let is_answered = match token {
            Token::Value { key, value_bytes } if is_get => {
                self.value_begins(rules, key, value_bytes, tally)?;
                false
            }
            Token::Data { bytes, last } if is_get => {
                self.value_continues(rules, bytes, last, tally);
                last && !is_text && !batch
            }
            Token::BatchEnd if batch => true,
            Token::End if is_get && !batch => true,
            Token::Stored if is_store && !batch => true,
            Token::Deleted if is_delete && !batch => true,
            Token::Done if !is_get && !batch => true,
            Token::NotFound if is_delete => {
                tally.requests.not_found += measured;
                !batch
            }
            Token::NotStored if is_store => {
                tally.requests.not_stored += measured;
                !batch
            }
            Token::Failed(line) => {
                oldest.failed = true;
                tally.sample(String::from_utf8_lossy(line));
                !batch
            }
            other => {
                let kind = oldest.kind;
                return Err(Breach(format!("no reply to a {kind:?}: {}", show(other))));
            }
        };
        if is_answered {
            self.complete(rules, now_ns, tally);
        }
        Ok(if is_answered { Step::Answered } else { Step::Part })
    }

    /// Finds the key that the value is for; keys passed over are misses.
    #[inline]
    fn value_begins(
        &mut self,
        rules: &Rules,
        named: &[u8],
        value_bytes: u32,
        tally: &mut Tally,
    ) -> Result<(), Breach> {
        let Outstanding { pending, asked, follow_ups, .. } = &mut self.outstanding;
        let oldest = pending.front_mut().expect("invariant: the caller saw a pending get");
        let measured = u64::from(oldest.from_ns >= rules.measure_from_ns);
        let unnamed = named.is_empty() && rules.protocol != Protocol::Text && oldest.keys == 1;
        while oldest.left > 0 {
            oldest.left -= 1;
            let key = asked.pop_front().expect("invariant: every key that is left was asked for");
            if unnamed || rules.workload.keys.is(key, named) {
                tally.totals.hits += measured;
                let wrong = rules.is_wrong_length(key, value_bytes);
                self.arriving = Arriving { key, value_bytes, at: 0, wrong };
                return Ok(());
            }
            tally.totals.misses += measured;
            if rules.refill {
                follow_ups.push_back(FollowUp { key, kind: Kind::Refill, from_ns: 0 });
            }
        }
        let named = String::from_utf8_lossy(named);
        Err(Breach(format!("a value of key {named:?}, which this get did not request")))
    }

    #[inline]
    fn value_continues(&mut self, rules: &Rules, bytes: &[u8], last: bool, tally: &mut Tally) {
        let Arriving { key, value_bytes, at, wrong } = &mut self.arriving;
        if rules.verify {
            *wrong = *wrong || !rules.workload.values.matches(*key, *value_bytes, *at, bytes);
            *at += bytes.len();
        }
        if last && *wrong {
            // A wrong value counts even during the warm-up.
            tally.totals.wrong_values += 1;
            let mut name = Vec::new();
            rules.workload.keys.write(*key, &mut name);
            let name = String::from_utf8_lossy(&name);
            let expected = match rules.value_bytes_max {
                None => format!("{} expected", rules.workload.value_bytes(*key)),
                Some(max) => format!("at most {max} expected"),
            };
            tally.sample(format!(
                "wrong value for key {name}: {value_bytes} bytes received, {expected}"
            ));
        }
    }

    #[inline]
    fn complete(&mut self, rules: &Rules, now_ns: u64, tally: &mut Tally) {
        let Outstanding { pending, asked, modifying, follow_ups } = &mut self.outstanding;
        let done = pending.pop_front().expect("invariant: the caller saw a pending request");
        let measured = done.from_ns >= rules.measure_from_ns;
        for _ in 0..done.left {
            let key = asked.pop_front().expect("invariant: every key that is left was asked for");
            if !done.failed {
                tally.totals.misses += u64::from(measured);
                // The write of a read-modify-write stores what its read missed.
                if rules.refill && done.kind == Kind::Get {
                    follow_ups.push_back(FollowUp { key, kind: Kind::Refill, from_ns: 0 });
                }
            }
        }
        if done.kind == Kind::Read {
            let key = modifying.pop_front().expect("invariant: every such read noted its key");
            if !done.failed {
                let (kind, from_ns) = (Kind::Modify, done.from_ns);
                follow_ups.push_back(FollowUp { key, kind, from_ns });
            }
        }
        if rules.in_window(now_ns) {
            tally.totals.answered += 1;
            tally.totals.keys_answered += u64::from(done.keys.max(1));
        }
        if done.failed {
            tally.requests.errors += u64::from(measured);
        } else if measured {
            let latency_ns = now_ns.saturating_sub(done.from_ns);
            tally.complete(done.kind, latency_ns);
            if let Some(by_time) = &mut tally.by_time {
                by_time.answered(now_ns - rules.measure_from_ns, latency_ns);
            }
        }
    }
}

/// A token as a complaint shows it.
fn show(token: Token<'_>) -> String {
    const SHOWN_BYTES_MAX: usize = 80;
    match token {
        Token::Failed(line) | Token::Malformed(line) => {
            let line = &line[..line.len().min(SHOWN_BYTES_MAX)];
            format!("{:?}", String::from_utf8_lossy(line))
        }
        Token::Value { key, .. } => format!("a value of {:?}", String::from_utf8_lossy(key)),
        Token::Data { .. } => "bytes of a value".to_string(),
        Token::End => "the end of a get".to_string(),
        Token::BatchEnd => "the end of a batch".to_string(),
        Token::Stored => "\"stored\"".to_string(),
        Token::NotStored => "\"not stored\"".to_string(),
        Token::Deleted => "\"deleted\"".to_string(),
        Token::Done => "\"done\"".to_string(),
        Token::NotFound => "\"not found\"".to_string(),
        Token::Incomplete => "nothing".to_string(),
    }
}

#[cfg(test)]
#[path = "exchange_test.rs"]
mod tests;
