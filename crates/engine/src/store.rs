//! The way of a write: lock the chain, find the item, decide, write, publish, pay.
//!
//! What is decided here is written and published by `place`. When ground is short the lock is
//! dropped, room is made, and the write starts over.

use crate::effect::{EffectSink, Gone};
use crate::engine::{Current, Engine};
use crate::get::fetched_now;
use crate::head::Flags;
use crate::index::Chain;
use crate::item::Attributes;
use crate::local::Local;
use crate::overwrite::Put;
use crate::place::{IN_PLACE_BYTES_MAX, put_change};
use crate::write::{Action, Mode, Op, Outcome, Wrote};
use crate::writer::{NeedSpace, Writer};
use base::Now;

/// Digits of the largest number.
const NUMBER_BYTES_MAX: usize = 20;

impl Engine {
    /// Makes one change. The local is pinned; the pin may move on.
    pub fn write<S: EffectSink>(
        &self,
        local: &mut Local,
        op: &Op<'_>,
        now: Now,
        sink: &mut S,
    ) -> Wrote {
        if !S::ON
            && let Some(put) = Put::of(op)
            && self.overwrite(local, &op.key, put, now).is_some()
        {
            return Wrote::ended(Outcome::Done);
        }
        self.write_with_room(local, op, now, sink)
    }

    #[inline(never)]
    pub(crate) fn write_with_room<S: EffectSink>(
        &self,
        local: &mut Local,
        op: &Op<'_>,
        now: Now,
        sink: &mut S,
    ) -> Wrote {
        let wrote = self.with_room(local, now, sink, |engine, local, sink| {
            Writer { engine, local, key: &op.key, now, sink }.write(op)
        });
        self.index.adjust(&self.epochs, op.key.id.slice);
        self.pay(local, now, sink);
        wrote.unwrap_or(Wrote::ended(Outcome::NoSpace))
    }
}

impl<'e, S: EffectSink> Writer<'_, 'e, S> {
    fn write(&mut self, op: &Op<'_>) -> Result<Wrote, NeedSpace> {
        let mut chain = self.lock()?;
        let Some(current) = self.find_alive(&mut chain) else {
            return self.write_missing(chain, op);
        };
        let mut stale = false;
        if let Some(compare) = op.compare {
            let token = current.item.cas(current.head);
            stale = op.older_as_stale && compare < token;
            if compare != token && !stale {
                return Ok(Wrote::ended(Outcome::Exists));
            }
        }
        match op.action {
            Action::Store { mode, value, client_flags, expiry_s } => {
                let mut with = Attributes {
                    expiry_s,
                    client_flags,
                    client_cas: op.cas,
                    ..Attributes::default()
                };
                if stale {
                    with.expiry_s = current.item.expiry_s(current.head);
                    let kept = current.head.is(Flags::TOKEN_SENT);
                    with.flags = Flags::STALE.with_if(kept, Flags::TOKEN_SENT);
                }
                match mode {
                    Mode::Add => Ok(Wrote::ended(Outcome::NotStored)),
                    Mode::Set | Mode::Replace => {
                        self.replace(chain, op, current, &with, [value, &[]])
                    }
                    Mode::Append { .. } => self.join(chain, op, current, (value, true)),
                    Mode::Prepend { .. } => self.join(chain, op, current, (value, false)),
                }
            }
            Action::Count { delta, down, expiry_s, .. } => {
                self.count_on(chain, op, current, (delta, down, expiry_s))
            }
            Action::Touch { expiry_s } => {
                let current = self.touch(&mut chain, current, expiry_s)?;
                chain.raise_freq(current.place);
                current.item.set_head(fetched_now(current.head, self.now));
                Ok(self.done(&current, op.report))
            }
            Action::Delete => {
                self.remove(&mut chain, &current, Gone::Deleted);
                chain.trim();
                Ok(Wrote::ended(Outcome::Done))
            }
            Action::Invalidate { expiry_s } => {
                let mut with = current.item.attributes(current.head);
                with.expiry_s = expiry_s.unwrap_or(with.expiry_s);
                with.client_cas = op.cas;
                with.flags = with.flags.with(Flags::STALE).without(Flags::TOKEN_SENT);
                self.change_attributes(chain, op, current, &with)
            }
            Action::Clear { client_flags, expiry_s, stale } => {
                let with = Attributes {
                    expiry_s: expiry_s.unwrap_or_else(|| current.item.expiry_s(current.head)),
                    client_flags,
                    client_cas: op.cas,
                    flags: Flags::default().with_if(stale, Flags::STALE),
                    base: current.item.version(),
                };
                self.replace(chain, op, current, &with, [&[], &[]])
            }
        }
    }

    fn write_missing(&mut self, mut chain: Chain<'_>, op: &Op<'_>) -> Result<Wrote, NeedSpace> {
        let number;
        let mut digits = [0; NUMBER_BYTES_MAX];
        let (value, client_flags, expiry_s) = match op.action {
            Action::Store { mode: Mode::Set | Mode::Replace, .. } if op.compare.is_some() => {
                return Ok(Wrote::ended(Outcome::NotFound));
            }
            Action::Store { mode, value, client_flags, expiry_s } => {
                number = 0;
                let create = match mode {
                    Mode::Set | Mode::Add => true,
                    Mode::Append { vivify } | Mode::Prepend { vivify } => vivify,
                    Mode::Replace => false,
                };
                if !create {
                    return Ok(Wrote::ended(Outcome::NotStored));
                }
                (value, client_flags, expiry_s)
            }
            Action::Count { initial: Some((initial, expiry_s)), .. } => {
                number = initial;
                (decimal(initial, &mut digits), 0, expiry_s)
            }
            _ => return Ok(Wrote::ended(Outcome::NotFound)),
        };
        if value.len() > self.engine.config.value_bytes_max {
            return Ok(Wrote::ended(Outcome::TooLarge));
        }
        let with =
            Attributes { expiry_s, client_flags, client_cas: op.cas, ..Attributes::default() };
        let current = self.put(&mut chain, None, &with, [value, &[]])?;
        Ok(Wrote { number, ..self.done(&current, op.report) })
    }

    /// Stores a value over the one that is there.
    fn replace(
        &mut self,
        mut chain: Chain<'_>,
        op: &Op<'_>,
        current: Current<'e>,
        with: &Attributes,
        value: [&[u8]; 2],
    ) -> Result<Wrote, NeedSpace> {
        if value[0].len() + value[1].len() > self.engine.config.value_bytes_max {
            return Ok(Wrote::ended(Outcome::TooLarge));
        }
        let current = self.put(&mut chain, Some(current), with, value)?;
        Ok(self.done(&current, op.report))
    }

    /// Stores a value joined to the one that is there, which keeps its expiry and client flags but
    /// no mark. What would be too long together is not stored.
    fn join(
        &mut self,
        chain: Chain<'_>,
        op: &Op<'_>,
        current: Current<'e>,
        (value, behind): (&[u8], bool),
    ) -> Result<Wrote, NeedSpace> {
        let mut with = Attributes { client_cas: op.cas, ..current.item.attributes(current.head) };
        with.flags = Flags::default();
        let mut old = std::mem::take(&mut self.local.scratch);
        old.clear();
        self.engine.append_whole(&current, &mut old);
        let joined = if behind { [&old[..], value] } else { [value, &old] };
        let wrote =
            self.replace(chain, op, current, &with, joined).map(|wrote| match wrote.outcome {
                Outcome::TooLarge => Wrote::ended(Outcome::NotStored),
                _ => wrote,
            });
        if old.capacity() <= IN_PLACE_BYTES_MAX {
            self.local.scratch = old;
        }
        wrote
    }

    fn count_on(
        &mut self,
        mut chain: Chain<'_>,
        op: &Op<'_>,
        current: Current<'e>,
        (delta, down, expiry_s): (u64, bool, Option<u32>),
    ) -> Result<Wrote, NeedSpace> {
        let mut old = std::mem::take(&mut self.local.scratch);
        old.clear();
        if current.head.value_bytes() <= NUMBER_BYTES_MAX && !current.head.is(Flags::LARGE) {
            current.item.append_value(current.head, &[], &mut old);
        }
        let before = number(&old);
        let old_bytes = old.len();
        self.local.scratch = old;
        let Some(before) = before else { return Ok(Wrote::ended(Outcome::NotNumber)) };
        let number = if down { before.saturating_sub(delta) } else { before.wrapping_add(delta) };
        let mut digits = [b' '; NUMBER_BYTES_MAX];
        let len = decimal(number, &mut digits).len();
        // As in memcached, a number that shrinks keeps its length and is padded with spaces.
        let value = &digits[..len.max(old_bytes)];
        let mut with = current.item.attributes(current.head);
        with.expiry_s = expiry_s.unwrap_or(with.expiry_s);
        with.client_cas = op.cas;
        if value.len() > old_bytes {
            // As in memcached, a number that grows is a new item, with no mark of the old one.
            with.flags = Flags::default();
        }
        let current = self.put(&mut chain, Some(current), &with, [value, &[]])?;
        Ok(Wrote { number, ..self.done(&current, op.report) })
    }

    fn change_attributes(
        &mut self,
        mut chain: Chain<'_>,
        op: &Op<'_>,
        current: Current<'e>,
        with: &Attributes,
    ) -> Result<Wrote, NeedSpace> {
        let current = self.rewrite(&mut chain, current, with)?;
        let mut value = Vec::new();
        if S::ON {
            self.engine.append_whole(&current, &mut value);
        }
        let version = self.tell(put_change(&value, with));
        self.stamp(current.item, version, with.base);
        Ok(self.done(&current, op.report))
    }

    fn done(&self, current: &Current<'_>, report: bool) -> Wrote {
        let found = report.then(|| {
            let value_bytes = self.engine.whole_value_bytes(current.item, current.head);
            current.found(value_bytes, self.now)
        });
        Wrote { outcome: Outcome::Done, found, number: 0 }
    }
}

/// The number that `digits` spell, which may be padded with spaces at the end.
fn number(digits: &[u8]) -> Option<u64> {
    let digits = digits.trim_ascii_end();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Writes `number` in decimal to the front of `digits`.
fn decimal(mut number: u64, digits: &mut [u8; NUMBER_BYTES_MAX]) -> &[u8] {
    let len = number.checked_ilog10().unwrap_or(0) as usize + 1;
    for digit in digits[..len].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    &digits[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written_as_memcached_does() {
        for (text, expected) in [
            (&b"0"[..], Some(0)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"7  ", Some(7)),
            (b"", None),
            (b"-1", None),
            (b"1a", None),
        ] {
            assert_eq!(number(text), expected, "{}", String::from_utf8_lossy(text));
        }
        for value in [0, 9, 10, 12_345, u64::MAX] {
            let mut digits = [0; NUMBER_BYTES_MAX];
            assert_eq!(decimal(value, &mut digits), value.to_string().as_bytes());
        }
    }
}
