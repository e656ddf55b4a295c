//! What a change does to an item: lock the chain, find the item, decide, write.
//!
//! The conditions of an operation are decided here; [`Writer`] writes and emits. Where space is
//! short everything is given up, and the caller starts over with the lock released.

use super::ahead::Ahead;
use super::join::{Joined, Kept, is_written_ahead, join, ordered};
use super::long::{is_long, look, write_if_long};
use super::number::{NUMBER_BYTES_MAX, decimal, number};
use super::op::{Action, Mode, Op, WriteResult, WriteStatus};
use super::writer::Writer;
use crate::eviction::{Eviction, Failed, Stopped, Work, with_space};
use crate::index::Chain;
use crate::item::{Attributes, Flags};
use crate::items::Current;
use crate::obstacle::Obstacle;
use crate::reading::{ItemView, fetched_now};
use crate::segments::renew;
use base::{EffectSink, Removal, Space, Value};

/// One attempt at an operation, with the chain of its key locked.
struct Attempt<'w, 'e, 'k, S> {
    writer: Writer<'w, 'e, S>,
    chain: Chain<'e>,
    op: &'w Op<'w>,
    ahead: &'w mut Ahead,
    kept: &'w mut Kept<'k>,
}

/// Makes one change, and the space for it. `ahead` has what is written of a long value: that is
/// kept from one attempt to the next.
pub(crate) fn write<S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    op: &Op<'_>,
    ahead: &mut Ahead,
) -> Result<WriteResult, Failed> {
    let mut kept = Kept::new(work.items);
    with_space(eviction, work, |work| attempt(work, op, ahead, &mut kept))
}

fn attempt<S: EffectSink>(
    work: &mut Work<'_, S>,
    op: &Op<'_>,
    ahead: &mut Ahead,
    kept: &mut Kept<'_>,
) -> Result<WriteResult, Stopped> {
    if S::ON {
        reserve(work, op)?;
    }
    let wrote = write_ahead(work, op, ahead).and_then(|()| {
        let writer = Writer::new(work, &op.key);
        let chain = writer.lock()?;
        Attempt { writer, chain, op, ahead, kept }.decide()
    });
    ahead.end_attempt(work, wrote)
}

/// Reserves what the effects of `op` take at most, as far as that is known without the lock.
fn reserve<S: EffectSink>(work: &mut Work<'_, S>, op: &Op<'_>) -> Result<(), Stopped> {
    let mut known = None;
    let value_bytes = match op.action {
        Action::Store { mode: Mode::Set | Mode::Add | Mode::Replace, value, .. } => {
            known = Some(Value::Parts([value, &[]]));
            value.len()
        }
        Action::Count { .. } => NUMBER_BYTES_MAX,
        Action::Delete | Action::Clear { .. } => 0,
        Action::Store { value, .. } => value.len() + look(work, &op.key)?.value_bytes,
        Action::Touch { .. } | Action::Invalidate { .. } => look(work, &op.key)?.value_bytes,
    };
    let key_bytes = op.key.bytes.len();
    let space = Space::Change { key_bytes, value_bytes, value: known };
    Ok(work.sink.reserve(op.key.id.slice, space)?)
}

/// Writes the value of `op` before the chain is locked, if it is long and the operation will
/// probably store it.
fn write_ahead<S: EffectSink>(
    work: &mut Work<'_, S>,
    op: &Op<'_>,
    ahead: &mut Ahead,
) -> Result<(), Stopped> {
    let Action::Store { mode, value, client_flags, expiry_s } = op.action else { return Ok(()) };
    let geometry = work.items.segments().geometry();
    let joins = matches!(mode, Mode::Append { .. } | Mode::Prepend { .. });
    let is_written = match joins {
        // In one piece it could be taken for the joined value.
        true => value.len() > geometry.inline_value_bytes_max,
        false => is_long(geometry, value.len()),
    };
    if !is_written || value.len() > work.items.config().value_bytes_max {
        return Ok(());
    }
    let alive = look(work, &op.key)?.alive;
    let stores = match mode {
        Mode::Add => !alive,
        Mode::Replace => alive,
        // What was begun is completed: an attempt joins all of it or nothing.
        Mode::Append { .. } | Mode::Prepend { .. } if alive || ahead.has_begun() => {
            ahead.has_begun() || is_written_ahead(work.items, value.len())
        }
        Mode::Append { vivify } | Mode::Prepend { vivify } => vivify,
        Mode::Set => alive || op.compare.is_none(),
    };
    if !stores {
        return Ok(());
    }
    let with = Attributes { expiry_s, client_flags, client_cas: op.cas, ..Attributes::default() };
    write_if_long(ahead, work, &op.key, &with, [value, &[]])
}

impl<'e, S: EffectSink> Attempt<'_, 'e, '_, S> {
    /// Decides by the present item, or by its absence.
    fn decide(&mut self) -> Result<WriteResult, Stopped> {
        let Some(current) = self.writer.find_alive(&mut self.chain)? else {
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
                    Mode::Append { .. } | Mode::Prepend { .. } => {
                        let joined = self.join(current, value);
                        self.keep_unless_stored(&current, joined)
                    }
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
                self.writer.remove(&mut self.chain, &current, Removal::Deleted)?;
                self.chain.trim();
                Ok(WriteResult::ended(WriteStatus::Done))
            }
            Action::Invalidate { expiry_s } => {
                let mut with = current.item.attributes(current.head);
                with.expiry_s = expiry_s.unwrap_or(with.expiry_s);
                with.client_cas = self.op.cas;
                with.flags = with.flags.with(Flags::STALE).without(Flags::TOKEN_SENT);
                let current = self.writer.change_attributes(&mut self.chain, current, &with)?;
                Ok(self.done(&current))
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

    fn write_missing(&mut self) -> Result<WriteResult, Stopped> {
        if !self.op.stores_anyway() && !self.writer.is_absent() {
            if self.op.unseen && matches!(self.op.action, Action::Delete) {
                self.writer.remove_unseen()?;
                return Ok(WriteResult::ended(WriteStatus::Done));
            }
            return Ok(WriteResult::ended(WriteStatus::Later(Obstacle::Elsewhere)));
        }
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
        let current = self.put(None, &with, [value, &[]])?;
        Ok(WriteResult { number, ..self.done(&current) })
    }

    /// Stores a value over the present one.
    fn replace(
        &mut self,
        current: Current<'e>,
        with: &Attributes,
        value: [&[u8]; 2],
    ) -> Result<WriteResult, Stopped> {
        if value[0].len() + value[1].len() > self.writer.work.items.config().value_bytes_max {
            return Ok(WriteResult::ended(WriteStatus::TooLarge));
        }
        let current = self.put(Some(current), with, value)?;
        Ok(self.done(&current))
    }

    /// Stores a value joined to the present one. The item keeps its expiry and client flags, but no
    /// mark. Where both together would be too long, nothing is stored.
    fn join(&mut self, current: Current<'e>, value: &[u8]) -> Result<WriteResult, Stopped> {
        let items = self.writer.work.items;
        let mut with =
            Attributes { client_cas: self.op.cas, ..current.item.attributes(current.head) };
        with.flags = Flags::default();
        let before = matches!(self.op.action, Action::Store { mode: Mode::Prepend { .. }, .. });
        let old_bytes = ItemView::of(&current, self.writer.work.now).value_bytes();
        let total = old_bytes + self.ahead.bytes().unwrap_or(value.len());
        if total > items.config().value_bytes_max {
            return Ok(WriteResult::ended(WriteStatus::NotStored));
        }
        let inline_bytes_max = items.segments().geometry().inline_value_bytes_max;
        if total <= inline_bytes_max {
            let mut old = self.writer.work.scratch(old_bytes)?;
            items.append_whole(current.item, current.head, &mut old.bytes);
            let wrote = self.replace(current, &with, ordered(&old.bytes, value, before));
            self.writer.work.keep(old);
            return wrote;
        }
        let joins = (value, total, before);
        let joined = join(self.ahead, &mut self.writer, &current, joins, with.expiry_s)?;
        let Some(Joined { table, stay, replaced }) = joined else {
            return Ok(WriteResult::ended(WriteStatus::NoSpace));
        };
        let current = self.writer.put_table(&mut self.chain, current, &with, &table)?;
        self.ahead.set_published();
        renew(items.segments(), &stay);
        if let Some(addr) = replaced {
            items.release_chunk(self.writer.work.pin, addr);
        }
        Ok(self.done(&current))
    }

    /// Keeps the item that a value is joined to, where space is to be made for that.
    fn keep_unless_stored(
        &mut self,
        current: &Current<'e>,
        joined: Result<WriteResult, Stopped>,
    ) -> Result<WriteResult, Stopped> {
        let makes_space =
            matches!(joined, Err(Stopped::NeedSpace { .. } | Stopped::NeedBuffer { .. }));
        if makes_space && !self.kept.keep(current) {
            return Ok(WriteResult::ended(WriteStatus::Later(Obstacle::Memory)));
        }
        joined
    }

    fn count_on(
        &mut self,
        current: Current<'e>,
        (delta, down, expiry_s): (u64, bool, Option<u32>),
    ) -> Result<WriteResult, Stopped> {
        let mut old = self.writer.work.pin.take_scratch();
        if current.head.value_bytes() <= NUMBER_BYTES_MAX && !current.head.is(Flags::LARGE) {
            current.item.append_value(current.head, &[], &mut old.bytes);
        }
        let before = number(&old.bytes);
        let old_bytes = old.bytes.len();
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
        let current = self.put(Some(current), &with, [value, &[]])?;
        Ok(WriteResult { number, ..self.done(&current) })
    }

    fn put(
        &mut self,
        current: Option<Current<'e>>,
        with: &Attributes,
        value: [&[u8]; 2],
    ) -> Result<Current<'e>, Stopped> {
        self.writer.put(&mut self.chain, current, with, value, self.ahead)
    }

    fn done(&self, current: &Current<'_>) -> WriteResult {
        let found = self.op.report.then(|| ItemView::of(current, self.writer.work.now).found());
        WriteResult { status: WriteStatus::Done, found, number: 0 }
    }
}
