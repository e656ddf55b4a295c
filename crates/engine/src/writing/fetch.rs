//! A read that changes the item: touch it, create it on a miss, win the token to refresh it.
//!
//! It changes the item under the lock of the chain like any write. A short value is copied out
//! before the lock is released, a long one after that: it is not overwritten in place, and its
//! memory is not used again before the batch ends. So an item is changed once, and what is read is
//! the value at that moment.

use super::ahead::Ahead;
use super::in_place;
use super::long::look;
use super::writer::Writer;
use crate::eviction::{Stopped, Work};
use crate::index::Chain;
use crate::item::{Attributes, Flags, Head};
use crate::items::Current;
use crate::keys::Key;
use crate::obstacle::Obstacle;
use crate::reading::{
    FetchOptions, HeldValue, ItemView, Later, NotHeld, Read, ReadSink, fetched_now, is_held,
};
use base::{EffectSink, Space};

/// Reads the item of `key`, and changes it as `options` says.
pub(crate) fn fetch<S: EffectSink, R: ReadSink>(
    work: &mut Work<'_, S>,
    key: &Key<'_>,
    options: &FetchOptions,
    out: &mut R,
) -> Result<Read, Stopped> {
    let now = work.now;
    if S::ON {
        let value_bytes = look(work, key)?.value_bytes;
        let space = Space::Change { key_bytes: key.bytes.len(), value_bytes, value: None };
        work.sink.reserve(key.id.slice, space)?;
    }
    let writer = &mut Writer::new(work, key);
    let mut chain = writer.lock()?;
    let Some(current) = writer.find_alive(&mut chain)? else {
        return create(writer, &mut chain, options, out);
    };
    let view = ItemView::of(&current, now);
    let found = view.found();
    let due = found.expiry_s != 0 && options.recache_before_s.is_some_and(|s| found.expiry_s < s);
    let wins = (found.stale || due) && !found.token_sent && !options.leaves_token;
    let items = writer.work.items;
    let mut held = None;
    if is_held::<R>(items, found.value_bytes) {
        // Before anything is changed: a token is not given twice.
        held = match HeldValue::of(items, &current) {
            Ok(value) => Some(value),
            Err(NotHeld::NoBuffer(bytes)) => return Err(Stopped::NeedBuffer { bytes }),
            Err(NotHeld::TooMuch) => return Ok(Read::Later(Obstacle::Memory)),
        };
    }
    let changed = change(writer, &mut chain, current, options.touch, wins);
    if changed.is_err()
        && let Some(held) = held.take()
    {
        held.release(items);
    }
    let current = changed?;
    let head = if options.quiet {
        current.head
    } else {
        chain.raise_freq(current.place);
        fetched_now(current.head, now)
    };
    current.item.set_head(head);
    let view = ItemView::of(&current, now).with(current.head, wins);
    if let Some(held) = held {
        match out.open(&view) {
            Some(_) => out.hold(held),
            None => held.release(items),
        }
        return Ok(Read::Hit);
    }
    let Some(target) = out.open(&view) else { return Ok(Read::Hit) };
    let value = Later::of(&current);
    if in_place::is_never_over(current.head) {
        drop(chain);
        value.append_to(items, R::AFTER, target);
    } else {
        value.append_to(items, R::AFTER, target);
        drop(chain);
    }
    Ok(Read::Hit)
}

/// Touches an item that was read, and gives this reader the token if it `wins`.
fn change<'e, S: EffectSink>(
    writer: &mut Writer<'_, 'e, S>,
    chain: &mut Chain<'_>,
    current: Current<'e>,
    touch: Option<u32>,
    wins: bool,
) -> Result<Current<'e>, Stopped> {
    if S::ON && wins {
        let Current { item, head, .. } = current;
        let mut with = item.attributes(head);
        with.client_cas = Some(item.cas(head));
        with.expiry_s = touch.unwrap_or(with.expiry_s);
        with.flags = with.flags.with(Flags::TOKEN_SENT);
        return writer.change_attributes(chain, current, &with);
    }
    let mut current = match touch {
        Some(expiry_s) => writer.touch(chain, current, expiry_s)?,
        None => current,
    };
    if wins {
        current.head = with_token(current.head);
    }
    Ok(current)
}

fn with_token(head: Head) -> Head {
    head.with_flags(head.flags().with(Flags::TOKEN_SENT))
}

/// Creates an item on a miss, if that is wanted, and gives this reader the token to refresh it.
fn create<S: EffectSink, R: ReadSink>(
    writer: &mut Writer<'_, '_, S>,
    chain: &mut Chain<'_>,
    options: &FetchOptions,
    out: &mut R,
) -> Result<Read, Stopped> {
    if !writer.is_absent() {
        return Ok(Read::Later(Obstacle::Elsewhere));
    }
    let Some(expiry_s) = options.vivify else { return Ok(Read::Miss) };
    let with = Attributes {
        expiry_s,
        client_cas: options.vivify_cas,
        flags: Flags::TOKEN_SENT.with(Flags::FETCHED).with(Flags::VIVIFIED),
        ..Attributes::default()
    };
    let current = writer.put(chain, None, &with, [&[], &[]], &mut Ahead::default())?;
    let before = Flags::TOKEN_SENT.with(Flags::FETCHED);
    let head = current.head.with_flags(current.head.flags().without(before));
    if let Some(target) = out.open(&ItemView::of(&current, writer.work.now).with(head, true)) {
        target.extend_from_slice(R::AFTER);
    }
    Ok(Read::Hit)
}
