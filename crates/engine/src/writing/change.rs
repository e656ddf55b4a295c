//! What a change does to an item: lock the chain, find the item, decide, write.
//!
//! The conditions of an operation are decided here; [`Writer`] writes and emits. Where space is
//! short everything is given up, and the caller starts over with the lock released.

use super::number::{NUMBER_BYTES_MAX, decimal, number};
use super::op::{Action, Mode, Op, WriteResult, WriteStatus};
use super::writer::Writer;
use crate::effects::{EffectSink, Removal};
use crate::eviction::{NeedSpace, Work};
use crate::index::Chain;
use crate::item::{Attributes, Flags};
use crate::items::Current;
use crate::reading::{ItemView, fetched_now};

/// One attempt at an operation, with the chain of its key locked.
struct Attempt<'w, 'e, S> {
    writer: Writer<'w, 'e, S>,
    chain: Chain<'e>,
    op: &'w Op<'w>,
}

/// Makes one change.
pub(crate) fn write<S: EffectSink>(
    work: &mut Work<'_, S>,
    op: &Op<'_>,
) -> Result<WriteResult, NeedSpace> {
    let writer = Writer::new(work, &op.key);
    let chain = writer.lock()?;
    Attempt { writer, chain, op }.decide()
}

impl<'e, S: EffectSink> Attempt<'_, 'e, S> {
    /// Decides by the present item, or by its absence.
    fn decide(&mut self) -> Result<WriteResult, NeedSpace> {
        let Some(current) = self.writer.find_alive(&mut self.chain) else {
            return self.write_missing();
        };
        let mut stale = false;
        if let Some(compare) = self.op.compare {
            let token = current.item.cas(current.head);
            stale = self.op.older_as_stale && compare < token;
            if compare != token && !stale {
                return Ok(WriteResult::ended(WriteStatus::Exists));
            }
        }
        match self.op.action {
            Action::Store { mode, value, client_flags, expiry_s } => {
                let mut with = Attributes {
                    expiry_s,
                    client_flags,
                    client_cas: self.op.cas,
                    ..Attributes::default()
                };
                if self.op.compare.is_some() || mode == Mode::Replace {
                    // It may store only because there was an item: a flush of that ends it too.
                    with.base = current.item.version();
                }
                if stale {
                    with.expiry_s = current.item.expiry_s(current.head);
                    let kept = current.head.is(Flags::TOKEN_SENT);
                    with.flags = Flags::STALE.with_if(kept, Flags::TOKEN_SENT);
                }
                match mode {
                    Mode::Add => Ok(WriteResult::ended(WriteStatus::NotStored)),
                    Mode::Set | Mode::Replace => self.replace(current, &with, [value, &[]]),
                    Mode::Append { .. } => self.join(current, (value, true)),
                    Mode::Prepend { .. } => self.join(current, (value, false)),
                }
            }
            Action::Count { delta, down, expiry_s, .. } => {
                self.count_on(current, (delta, down, expiry_s))
            }
            Action::Touch { expiry_s } => {
                let current = self.writer.touch(&mut self.chain, current, expiry_s)?;
                self.chain.raise_freq(current.place);
                current.item.set_head(fetched_now(current.head, self.writer.work.now));
                Ok(self.done(&current))
            }
            Action::Delete => {
                self.writer.remove(&mut self.chain, &current, Removal::Deleted);
                self.chain.trim();
                Ok(WriteResult::ended(WriteStatus::Done))
            }
            Action::Invalidate { expiry_s } => {
                let mut with = current.item.attributes(current.head);
                with.expiry_s = expiry_s.unwrap_or(with.expiry_s);
                with.client_cas = self.op.cas;
                with.flags = with.flags.with(Flags::STALE).without(Flags::TOKEN_SENT);
                self.change_attributes(current, &with)
            }
            Action::Clear { client_flags, expiry_s, stale } => {
                let with = Attributes {
                    expiry_s: expiry_s.unwrap_or_else(|| current.item.expiry_s(current.head)),
                    client_flags,
                    client_cas: self.op.cas,
                    flags: Flags::default().with_if(stale, Flags::STALE),
                    base: current.item.version(),
                };
                self.replace(current, &with, [&[], &[]])
            }
        }
    }

    fn write_missing(&mut self) -> Result<WriteResult, NeedSpace> {
        let number;
        let mut digits = [0; NUMBER_BYTES_MAX];
        let (value, client_flags, expiry_s) = match self.op.action {
            Action::Store { mode: Mode::Set | Mode::Replace, .. } if self.op.compare.is_some() => {
                return Ok(WriteResult::ended(WriteStatus::NotFound));
            }
            Action::Store { mode, value, client_flags, expiry_s } => {
                number = 0;
                let create = match mode {
                    Mode::Set | Mode::Add => true,
                    Mode::Append { vivify } | Mode::Prepend { vivify } => vivify,
                    Mode::Replace => false,
                };
                if !create {
                    return Ok(WriteResult::ended(WriteStatus::NotStored));
                }
                (value, client_flags, expiry_s)
            }
            Action::Count { initial: Some((initial, expiry_s)), .. } => {
                number = initial;
                (decimal(initial, &mut digits), 0, expiry_s)
            }
            _ => return Ok(WriteResult::ended(WriteStatus::NotFound)),
        };
        if value.len() > self.writer.work.items.config().value_bytes_max {
            return Ok(WriteResult::ended(WriteStatus::TooLarge));
        }
        let with =
            Attributes { expiry_s, client_flags, client_cas: self.op.cas, ..Attributes::default() };
        let current = self.writer.put(&mut self.chain, None, &with, [value, &[]])?;
        Ok(WriteResult { number, ..self.done(&current) })
    }

    /// Stores a value over the present one.
    fn replace(
        &mut self,
        current: Current<'e>,
        with: &Attributes,
        value: [&[u8]; 2],
    ) -> Result<WriteResult, NeedSpace> {
        if value[0].len() + value[1].len() > self.writer.work.items.config().value_bytes_max {
            return Ok(WriteResult::ended(WriteStatus::TooLarge));
        }
        let current = self.writer.put(&mut self.chain, Some(current), with, value)?;
        Ok(self.done(&current))
    }

    /// Stores a value joined to the present one. The item keeps its expiry and client flags, but no
    /// mark. Where both together would be too long, nothing is stored.
    fn join(
        &mut self,
        current: Current<'e>,
        (value, after): (&[u8], bool),
    ) -> Result<WriteResult, NeedSpace> {
        let mut with =
            Attributes { client_cas: self.op.cas, ..current.item.attributes(current.head) };
        with.flags = Flags::default();
        let mut old = self.writer.work.pin.take_scratch();
        self.writer.work.items.append_whole(&current, &mut old);
        let joined = if after { [&old[..], value] } else { [value, &old] };
        let wrote = self.replace(current, &with, joined).map(|wrote| match wrote.status {
            WriteStatus::TooLarge => WriteResult::ended(WriteStatus::NotStored),
            _ => wrote,
        });
        self.writer.work.pin.keep_scratch(old);
        wrote
    }

    fn count_on(
        &mut self,
        current: Current<'e>,
        (delta, down, expiry_s): (u64, bool, Option<u32>),
    ) -> Result<WriteResult, NeedSpace> {
        let mut old = self.writer.work.pin.take_scratch();
        if current.head.value_bytes() <= NUMBER_BYTES_MAX && !current.head.is(Flags::LARGE) {
            current.item.append_value(current.head, &[], &mut old);
        }
        let before = number(&old);
        let old_bytes = old.len();
        self.writer.work.pin.keep_scratch(old);
        let Some(before) = before else { return Ok(WriteResult::ended(WriteStatus::NotNumber)) };
        let number = if down { before.saturating_sub(delta) } else { before.wrapping_add(delta) };
        let mut digits = [b' '; NUMBER_BYTES_MAX];
        let len = decimal(number, &mut digits).len();
        // As in memcached, a number that shrinks keeps its length and is padded with spaces.
        let value = &digits[..len.max(old_bytes)];
        let mut with = current.item.attributes(current.head);
        with.expiry_s = expiry_s.unwrap_or(with.expiry_s);
        with.client_cas = self.op.cas;
        if value.len() > old_bytes {
            // As in memcached, a number that grows is a new item, with no mark of the old one.
            with.flags = Flags::default();
        }
        let current = self.writer.put(&mut self.chain, Some(current), &with, [value, &[]])?;
        Ok(WriteResult { number, ..self.done(&current) })
    }

    fn change_attributes(
        &mut self,
        current: Current<'e>,
        with: &Attributes,
    ) -> Result<WriteResult, NeedSpace> {
        let current = self.writer.rewrite(&mut self.chain, current, with)?;
        let mut value = Vec::new();
        if S::ON {
            self.writer.work.items.append_whole(&current, &mut value);
        }
        self.writer.emit_put(&current, with, [&value, &[]]);
        Ok(self.done(&current))
    }

    fn done(&self, current: &Current<'_>) -> WriteResult {
        let found = self.op.report.then(|| ItemView::of(current, self.writer.work.now).found());
        WriteResult { status: WriteStatus::Done, found, number: 0 }
    }
}
