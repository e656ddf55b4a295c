//! One round of gets and sets over an exchange: each request with its answer.
//!
//! Pure: replies come in as slices, cut anywhere. The exchange checks every reply against its
//! request; a round adds what a replay needs to know of each. An error line answers its request,
//! and counts as its failure. One reply too many is a breach: no later reply can be trusted.
//!
//! ```text
//! get   VALUE (its key, at most the longest length) / data / END   hit
//!       END                                                        miss
//! set   STORED | NOT_STORED                                        stored, refused
//! any   error line                                                 failed, refused
//! ```
//!
//! A hit has the length with which its key was stored, which may differ from that of the request:
//! traces change the lengths of objects. So a length within the limit is counted and no error.
//! `verify` checks that length and bytes belong to each other and to the key. Bound: what
//! [`Round::take`] leaves is at most a line or the end of a value.

use std::mem::take;
use std::sync::Arc;

use super::outcome::Outcome;
use crate::exchange::{Breach, Exchange, Rules, Step};
use crate::protocol::Protocol;
use crate::tally::Tally;
use crate::workload::{Op, Request, VALUE_BYTES_MAX, Workload};

/// What values are checked against.
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

/// Requests that are sent together, and their answers so far.
pub(crate) struct Round {
    rules: Rules,
    exchange: Exchange,
    /// What the exchange counted since the last answer.
    tally: Tally,
    requests: Vec<Request>,
    /// Oldest first, one for each request.
    answers: Vec<Answer>,
}

impl Round {
    /// A round over a connection without requests.
    pub fn new(form: &Arc<Workload>, checks: Checks) -> Self {
        let rules = Rules {
            value_bytes_max: Some(checks.value_bytes_max),
            ..Rules::plain(Protocol::Text, form, checks.verify)
        };
        let (requests, answers) = (Vec::new(), Vec::new());
        let exchange = Exchange::new(Protocol::Text);
        Self { rules, exchange, tally: Tally::default(), requests, answers }
    }

    /// Begins the next round: composes `requests` into `out`.
    pub fn begin(&mut self, requests: &[Request], out: &mut Vec<u8>) {
        self.answers.clear();
        self.requests.clear();
        self.requests.extend_from_slice(requests);
        for request in requests {
            self.exchange.outstanding().put(&self.rules, *request, out);
        }
    }

    /// Whether everything is answered.
    pub fn is_over(&self) -> bool {
        self.answers.len() == self.requests.len()
    }

    /// The answers so far, oldest first.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// Takes whole tokens off `input` and returns how many bytes they were; the caller presents the
    /// rest again with more after it.
    ///
    /// # Errors
    /// When a reply does not answer its request.
    pub fn take(&mut self, input: &[u8], outcome: &mut Outcome) -> Result<usize, Breach> {
        let mut left = input;
        while let Some(request) = self.requests.get(self.answers.len()).copied() {
            match self.exchange.step(&self.rules, 0, &mut left, &mut self.tally)? {
                Step::Incomplete => return Ok(input.len() - left.len()),
                Step::Part => {}
                Step::Answered => {
                    let answer = self.answer(request, outcome);
                    self.answers.push(answer);
                }
            }
        }
        if left.is_empty() {
            return Ok(input.len());
        }
        Err(Breach("the server sent more than was requested".to_string()))
    }

    /// The answer to `request`, from what the exchange counted of it.
    fn answer(&mut self, request: Request, outcome: &mut Outcome) -> Answer {
        let Tally { requests, totals, samples, .. } = &mut self.tally;
        let (failed, declined) =
            (take(&mut requests.errors) > 0, take(&mut requests.not_stored) > 0);
        let hit = take(&mut totals.hits) > 0;
        outcome.wrong_values += take(&mut totals.wrong_values);
        samples.drain(..).for_each(|complaint| outcome.complain(complaint));
        if request.op == Op::Get {
            outcome.failed_gets += u64::from(failed);
            outcome.other_lengths +=
                u64::from(hit && self.exchange.value_bytes() != request.value_bytes);
            return match (failed, hit) {
                (true, _) => Answer::Failed,
                (false, true) => Answer::Hit,
                (false, false) => Answer::Miss,
            };
        }
        if declined {
            outcome.complain("NOT_STORED".to_string());
        }
        outcome.refused += u64::from(failed || declined);
        if failed || declined { Answer::Refused } else { Answer::Stored }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKS: Checks = Checks { value_bytes_max: 9, verify: true };

    fn form() -> Arc<Workload> {
        Arc::new(Workload::of_trace("k", CHECKS.value_bytes_max, 1).unwrap())
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
        let mut round = Round::new(&form, checks);
        round.begin(&requests, &mut Vec::new());
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
            (hit(2, 5), "a value of key \"k00000000000000000002\", which this get did"),
            (twice, "a value of key \"k00000000000000000001\", which this get did"),
            (b"STORED\r\n".to_vec(), "no reply to a Get: \"stored\""),
            (b"HELLO\r\n".to_vec(), "\"HELLO\""),
            (b"END\r\nEND\r\nEND\r\n".to_vec(), "no reply to a Set: the end of a get"),
            (b"END\r\nEND\r\nSTORED\r\nEND\r\n".to_vec(), "more than was requested"),
        ] {
            let error = answered(CHECKS, &reply, reply.len()).0.unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
