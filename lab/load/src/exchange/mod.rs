//! One connection's side of the conversation: what was asked and what is still owed.
//!
//! Pure: requests go out by appending to a buffer, replies come in as slices, the time is an
//! argument. Every reply is checked for shape (is it a reply to what was asked?), for its key,
//! and with `verify` for every byte of its value.
//!
//! ```text
//! pending   Get(2 keys) | Set | Get(1 key) ...      oldest first; replies come in this order
//! asked     k7 k9       |     | k3                  keys of the gets, in the same order
//! ```
//!
//! A value that arrives settles its key; keys passed over before it, and those left at the end
//! of a get, are misses. A miss may ask for a refill, the read of a read-modify-write asks for its
//! write: both wait as follow-ups until there is room. Bounds: pending by the pipeline depth,
//! asked and follow-ups by depth times keys per get.

mod ask;

use std::collections::VecDeque;

use crate::protocol::{Parser, Protocol, Token};
use crate::tally::{Kind, Tally};
use crate::workload::{Multiget, Workload};

/// What holds for every connection of a run.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub protocol: Protocol,
    /// Compare length and bytes of every value.
    pub verify: bool,
    /// Follow each miss with a set of its key.
    pub refill: bool,
    /// Keys of one get.
    pub multiget: Multiget,
    /// Keys of one set or delete; more than one go quietly, as a batch.
    pub multiset: u32,
    /// Requests that start earlier are not measured.
    pub measure_from_ns: u64,
    /// Replies that arrive later are not part of the rate.
    pub measure_until_ns: u64,
}

impl Rules {
    #[inline]
    pub fn in_window(&self, now_ns: u64) -> bool {
        (self.measure_from_ns..self.measure_until_ns).contains(&now_ns)
    }
}

/// The reply does not fit what was asked: the connection cannot be used any longer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach(pub String);

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    from_ns: u64,
    kind: Kind,
    /// Keys of a batch; 0 for a set or delete of one.
    keys: u32,
    /// Keys asked for that are not settled.
    left: u32,
    failed: bool,
}

/// A set that something before it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FollowUp {
    key: u32,
    kind: Kind,
    /// When the latency of a read-modify-write began; a refill's begins with its sending.
    from_ns: u64,
}

/// The value that is arriving.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    key: u64,
    value_bytes: u32,
    at: usize,
    wrong: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pending: VecDeque<Pending>,
    asked: VecDeque<u32>,
    /// Keys of the reads of read-modify-writes, in the order of the reads.
    modifying: VecDeque<u32>,
    follow_ups: VecDeque<FollowUp>,
    parser: Parser,
    arriving: Option<Arriving>,
}

impl Exchange {
    /// A conversation in `protocol` in which nothing was said yet.
    pub fn new(protocol: Protocol) -> Self {
        Self { parser: Parser::new(protocol), ..Self::default() }
    }

    /// Requests that are not answered.
    #[inline]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a set waits that an earlier reply asked for.
    #[inline]
    pub fn wants_follow_up(&self) -> bool {
        !self.follow_ups.is_empty()
    }

    /// How many of the pending requests are measured.
    pub fn pending_measured(&self, rules: &Rules) -> u64 {
        let measured = |pending: &&Pending| pending.from_ns >= rules.measure_from_ns;
        self.pending.iter().filter(measured).count() as u64
    }

    /// Takes whole tokens off `input` and returns how many bytes they were; the rest is to be
    /// presented again with more behind it.
    ///
    /// # Errors
    /// When a reply is none to what was asked.
    #[inline]
    pub fn receive(
        &mut self,
        rules: &Rules,
        workload: &Workload,
        now_ns: u64,
        input: &[u8],
        tally: &mut Tally,
    ) -> Result<usize, Breach> {
        let mut rest = input;
        loop {
            let token = self.parser.next(&mut rest);
            if matches!(token, Token::Incomplete) {
                return Ok(input.len() - rest.len());
            }
            let Some(oldest) = self.pending.front_mut() else {
                return Err(Breach(format!("a reply that nothing asked for: {}", show(token))));
            };
            let is_get = oldest.kind.is_get();
            let is_delete = oldest.kind == Kind::Delete;
            // A batch goes on, whatever its commands answer, until its end.
            let batch = oldest.keys > 1 && rules.protocol != Protocol::Text;
            match token {
                Token::Value { key, value_bytes } if is_get => {
                    self.value_begins(rules, workload, key, value_bytes, tally)?;
                }
                Token::Data { bytes, last } if is_get => {
                    self.value_goes_on(rules, workload, bytes, last, tally);
                    if last && rules.protocol != Protocol::Text && !batch {
                        self.complete(rules, now_ns, tally);
                    }
                }
                Token::End if is_get && !batch => self.complete(rules, now_ns, tally),
                Token::BatchEnd if batch => self.complete(rules, now_ns, tally),
                Token::Stored if !is_get && !is_delete && !batch => {
                    self.complete(rules, now_ns, tally);
                }
                Token::Deleted if is_delete && !batch => self.complete(rules, now_ns, tally),
                Token::Done if !is_get && !batch => self.complete(rules, now_ns, tally),
                Token::NotFound if is_delete => {
                    tally.not_found += u64::from(oldest.from_ns >= rules.measure_from_ns);
                    if !batch {
                        self.complete(rules, now_ns, tally);
                    }
                }
                Token::NotStored if !is_get && !is_delete => {
                    tally.not_stored += u64::from(oldest.from_ns >= rules.measure_from_ns);
                    if !batch {
                        self.complete(rules, now_ns, tally);
                    }
                }
                Token::Failed(line) => {
                    oldest.failed = true;
                    tally.sample(String::from_utf8_lossy(line));
                    if !batch {
                        self.complete(rules, now_ns, tally);
                    }
                }
                other => {
                    let kind = oldest.kind;
                    return Err(Breach(format!("no reply to a {kind:?}: {}", show(other))));
                }
            }
        }
    }

    /// Finds the key that the value is for; those passed over were not there.
    #[inline]
    fn value_begins(
        &mut self,
        rules: &Rules,
        workload: &Workload,
        named: &[u8],
        value_bytes: u32,
        tally: &mut Tally,
    ) -> Result<(), Breach> {
        let oldest = self.pending.front_mut().expect("the caller saw a pending get");
        let measured = u64::from(oldest.from_ns >= rules.measure_from_ns);
        let unnamed = named.is_empty() && rules.protocol != Protocol::Text && oldest.keys == 1;
        while oldest.left > 0 {
            oldest.left -= 1;
            let key = self.asked.pop_front().expect("every key that is left was asked for");
            if unnamed || workload.keys.is(u64::from(key), named) {
                tally.hits += measured;
                let wrong = rules.verify && workload.value_bytes(u64::from(key)) != value_bytes;
                self.arriving = Some(Arriving { key: u64::from(key), value_bytes, at: 0, wrong });
                return Ok(());
            }
            tally.misses += measured;
            if rules.refill {
                self.follow_ups.push_back(FollowUp { key, kind: Kind::Refill, from_ns: 0 });
            }
        }
        let named = String::from_utf8_lossy(named);
        Err(Breach(format!("a value of key {named:?}, which was not asked for here")))
    }

    #[inline]
    fn value_goes_on(
        &mut self,
        rules: &Rules,
        workload: &Workload,
        bytes: &[u8],
        last: bool,
        tally: &mut Tally,
    ) {
        let arriving = self.arriving.as_mut().expect("data follows the line that announced it");
        if rules.verify {
            let Arriving { key, value_bytes, at, wrong } = *arriving;
            arriving.wrong = wrong || !workload.values.matches(key, value_bytes, at, bytes);
            arriving.at += bytes.len();
        }
        if last {
            // A wrong value is never excused, not even during the warm-up.
            if arriving.wrong {
                tally.wrong_values += 1;
                let mut name = Vec::new();
                workload.keys.write(arriving.key, &mut name);
                let name = String::from_utf8_lossy(&name).into_owned();
                tally.sample(format!(
                    "wrong value for key {name}: {} bytes received, {} expected",
                    arriving.value_bytes,
                    workload.value_bytes(arriving.key)
                ));
            }
            self.arriving = None;
        }
    }

    #[inline]
    fn complete(&mut self, rules: &Rules, now_ns: u64, tally: &mut Tally) {
        let done = self.pending.pop_front().expect("the caller saw a pending request");
        let measured = done.from_ns >= rules.measure_from_ns;
        for _ in 0..done.left {
            let key = self.asked.pop_front().expect("every key that is left was asked for");
            if !done.failed {
                tally.misses += u64::from(measured);
                // The write of a read-modify-write stores what its read missed.
                if rules.refill && done.kind == Kind::Get {
                    self.follow_ups.push_back(FollowUp { key, kind: Kind::Refill, from_ns: 0 });
                }
            }
        }
        if done.kind == Kind::Read {
            let key = self.modifying.pop_front().expect("every such read has noted its key");
            if !done.failed {
                let (kind, from_ns) = (Kind::Modify, done.from_ns);
                self.follow_ups.push_back(FollowUp { key, kind, from_ns });
            }
        }
        if rules.in_window(now_ns) {
            tally.answered += 1;
            tally.keys_answered += u64::from(done.keys.max(1));
        }
        if done.failed {
            tally.errors += u64::from(measured);
        } else if measured {
            tally.complete(done.kind, now_ns.saturating_sub(done.from_ns));
        }
    }
}

/// A token as a complaint shows it.
pub(crate) fn show(token: Token<'_>) -> String {
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
