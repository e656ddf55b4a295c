//! One round of gets and sets: each reply held against the request that it must answer.
//!
//! Pure: replies come in as slices, cut anywhere. A reply of another kind than its request, a
//! value of another key, or one reply too many is a breach: nothing behind it can be trusted. An
//! error line answers its request, and counts as its failure.
//!
//! ```text
//! get   VALUE (its key, at most the longest length) / data / END   hit
//!       END                                                        miss
//! set   STORED | NOT_STORED                                        stored, refused
//! any   error line                                                 failed, refused
//! ```
//!
//! A hit has the length with which its key was stored, which need not be that of the request:
//! traces change the lengths of objects. So a length within the limit is counted, not judged;
//! whether length and bytes belong to each other and to the key, `verify` tells. Bound: what
//! [`Round::take`] does not take is at most a line or the end of a value.

use super::Outcome;
use crate::exchange::{Breach, show};
use crate::protocol::{Parser, Token};
use crate::workload::{Op, Request, VALUE_BYTES_MAX, Workload};

/// What values are held against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks {
    /// The longest value that is ever stored.
    pub value_bytes_max: u32,
    /// Compare every byte.
    pub verify: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Self { value_bytes_max: VALUE_BYTES_MAX, verify: false }
    }
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A get found its value.
    Hit,
    /// A get found nothing.
    Miss,
    /// A set was carried out.
    Stored,
    /// A set was not.
    Refused,
    /// A get was answered by an error line.
    Failed,
}

/// The value that arrives for a get.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    value_bytes: u32,
    at: usize,
    wrong: bool,
}

/// Requests that were sent together, and their answers as far as they have come.
pub(crate) struct Round<'r> {
    form: &'r Workload,
    checks: Checks,
    requests: &'r [Request],
    parser: Parser,
    /// The value of the get that is being answered.
    value: Option<Arriving>,
    /// Oldest first, one for each request.
    pub answers: Vec<Answer>,
}

impl<'r> Round<'r> {
    pub fn new(form: &'r Workload, checks: Checks, requests: &'r [Request]) -> Self {
        let answers = Vec::with_capacity(requests.len());
        Self { form, checks, requests, parser: Parser::default(), value: None, answers }
    }

    /// Whether everything is answered.
    pub fn is_over(&self) -> bool {
        self.answers.len() == self.requests.len()
    }

    /// Takes whole tokens off `input` and returns how many bytes they were; the rest is to be
    /// presented again with more behind it.
    ///
    /// # Errors
    /// When a reply is none to its request.
    pub fn take(&mut self, input: &[u8], outcome: &mut Outcome) -> Result<usize, Breach> {
        let mut left = input;
        while let Some(request) = self.requests.get(self.answers.len()).copied() {
            let is_get = request.op == Op::Get;
            let answer = match self.parser.next(&mut left) {
                Token::Incomplete => return Ok(input.len() - left.len()),
                Token::Value { key, value_bytes } if is_get && self.value.is_none() => {
                    self.value_begins(request, key, value_bytes, outcome)?;
                    continue;
                }
                Token::Data { bytes, last } if is_get => {
                    self.value_goes_on(request.key, bytes, last, outcome);
                    continue;
                }
                Token::End if is_get && self.value.is_some() => Answer::Hit,
                Token::End if is_get => Answer::Miss,
                Token::Stored if !is_get => Answer::Stored,
                Token::NotStored if !is_get => {
                    outcome.refused += 1;
                    outcome.complain("NOT_STORED".to_string());
                    Answer::Refused
                }
                Token::Failed(line) => {
                    outcome.complain(String::from_utf8_lossy(line).into_owned());
                    let count =
                        if is_get { &mut outcome.failed_gets } else { &mut outcome.refused };
                    *count += 1;
                    if is_get { Answer::Failed } else { Answer::Refused }
                }
                other => {
                    let (kind, name) = (if is_get { "get" } else { "set" }, self.name(request.key));
                    return Err(Breach(format!("no reply to a {kind} of {name}: {}", show(other))));
                }
            };
            self.value = None;
            self.answers.push(answer);
        }
        if left.is_empty() {
            return Ok(input.len());
        }
        Err(Breach("the server said more than it was asked".to_string()))
    }

    fn value_begins(
        &mut self,
        request: Request,
        named: &[u8],
        value_bytes: u32,
        outcome: &mut Outcome,
    ) -> Result<(), Breach> {
        if !self.form.keys.is(request.key, named) {
            let (named, name) = (String::from_utf8_lossy(named), self.name(request.key));
            return Err(Breach(format!("a value of key {named:?} for a get of {name}")));
        }
        outcome.other_lengths += u64::from(value_bytes != request.value_bytes);
        let wrong = value_bytes > self.checks.value_bytes_max;
        self.value = Some(Arriving { value_bytes, at: 0, wrong });
        Ok(())
    }

    fn value_goes_on(&mut self, key: u64, bytes: &[u8], last: bool, outcome: &mut Outcome) {
        let value = self.value.as_mut().expect("invariant: data follows its announcement");
        if self.checks.verify && !value.wrong {
            value.wrong = !self.form.values.matches(key, value.value_bytes, value.at, bytes);
            value.at += bytes.len();
        }
        if last && value.wrong {
            let value_bytes = value.value_bytes;
            outcome.wrong_values += 1;
            let name = self.name(key);
            outcome.complain(format!("wrong value of {value_bytes} bytes for key {name}"));
        }
    }

    fn name(&self, key: u64) -> String {
        let mut name = Vec::new();
        self.form.keys.write(key, &mut name);
        String::from_utf8_lossy(&name).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKS: Checks = Checks { value_bytes_max: 9, verify: true };

    fn form() -> Workload {
        Workload::of_trace("k", CHECKS.value_bytes_max, 1).unwrap()
    }

    /// The reply of a hit, its key padded as keys are.
    fn hit(key: u64, value_bytes: u32) -> Vec<u8> {
        let mut reply = format!("VALUE k{key:020} 0 {value_bytes}\r\n").into_bytes();
        form().values.write(key, value_bytes, &mut reply);
        [&reply, &b"\r\nEND\r\n"[..]].concat()
    }

    /// Two gets and a set of keys 1, 2 and 3 and a length of 5, answered by `reply`.
    fn answered(
        checks: Checks,
        reply: &[u8],
        step: usize,
    ) -> (Result<Vec<Answer>, String>, Outcome) {
        let form = form();
        let request = |op, key| Request { op, key, value_bytes: 5, ttl_s: 0 };
        let requests = [request(Op::Get, 1), request(Op::Get, 2), request(Op::Set, 3)];
        let mut round = Round::new(&form, checks, &requests);
        let (mut outcome, mut from, mut to) = (Outcome::default(), 0, 0);
        while to < reply.len() {
            to = (to + step).min(reply.len());
            match round.take(&reply[from..to], &mut outcome) {
                Ok(taken) => from += taken,
                Err(Breach(what)) => return (Err(what), outcome),
            }
        }
        (Ok(round.answers), outcome)
    }

    #[test]
    fn every_reply_answers_its_request() {
        use Answer::{Failed, Hit, Miss, Refused, Stored};
        let changed = {
            let mut reply = hit(2, 5);
            let last = reply.len() - b"\r\nEND\r\n".len() - 1;
            reply[last] ^= 1;
            reply
        };
        let too_long = b"VALUE k00000000000000000002 0 10\r\n0123456789\r\nEND\r\n".to_vec();
        // Failed gets, refused sets, wrong values, other lengths.
        for (second, set, answers, counts) in [
            (hit(2, 5), "STORED", [Miss, Hit, Stored], [0, 0, 0, 0]),
            (b"END\r\n".to_vec(), "NOT_STORED", [Miss, Miss, Refused], [0, 1, 0, 0]),
            (b"ERROR\r\n".to_vec(), "SERVER_ERROR x", [Miss, Failed, Refused], [1, 1, 0, 0]),
            (hit(2, 9), "STORED", [Miss, Hit, Stored], [0, 0, 0, 1]),
            (changed, "STORED", [Miss, Hit, Stored], [0, 0, 1, 0]),
            (too_long, "STORED", [Miss, Hit, Stored], [0, 0, 1, 1]),
        ] {
            let reply = [b"END\r\n", &second[..], set.as_bytes(), b"\r\n"].concat();
            for step in [1, 2, 7, reply.len()] {
                let (found, outcome) = answered(CHECKS, &reply, step);
                assert_eq!(found, Ok(answers.to_vec()), "{set} by {step}");
                let Outcome { failed_gets, refused, wrong_values, other_lengths, .. } = outcome;
                assert_eq!([failed_gets, refused, wrong_values, other_lengths], counts);
                assert_eq!(outcome.is_clean(), outcome.faults().is_empty());
            }
        }
    }

    #[test]
    fn bytes_are_compared_when_asked() {
        let reply = b"END\r\nVALUE k00000000000000000002 0 5\r\nwrong\r\nEND\r\nSTORED\r\n";
        let wrong = |verify| answered(Checks { verify, ..CHECKS }, reply, 3).1.wrong_values;
        assert_eq!((wrong(true), wrong(false)), (1, 0));
    }

    #[test]
    fn what_answers_something_else_is_a_breach() {
        let twice = [hit(1, 5).strip_suffix(b"END\r\n").unwrap(), &hit(1, 5)].concat();
        for (reply, word) in [
            (hit(2, 5), "a value of key \"k00000000000000000002\" for a get"),
            (twice, "no reply to a get"),
            (b"STORED\r\n".to_vec(), "no reply to a get of k00000000000000000001: \"stored\""),
            (b"HELLO\r\n".to_vec(), "\"HELLO\""),
            (b"END\r\nEND\r\nEND\r\n".to_vec(), "no reply to a set of k00000000000000000003"),
            (b"END\r\nEND\r\nSTORED\r\nEND\r\n".to_vec(), "more than it was asked"),
        ] {
            let error = answered(CHECKS, &reply, reply.len()).0.unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
