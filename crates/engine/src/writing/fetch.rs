//! A read that changes the item: touch it, create it on a miss, win the token to refresh it.
//!
//! It works under the lock of the chain like any write, and so sees the item whole at once. The
//! value is copied out before the lock is released.

use super::writer::Writer;
use crate::effects::EffectSink;
use crate::eviction::{NeedSpace, Work};
use crate::item::{Attributes, Flags};
use crate::keys::Key;
use crate::reading::{FetchOptions, ItemView, Read, ReadSink, copy_value, fetched_now};

/// Reads the item of `key`, and changes it as `options` says.
pub(crate) fn fetch<S: EffectSink, R: ReadSink>(
    work: &mut Work<'_, S>,
    key: &Key<'_>,
    options: &FetchOptions,
    out: &mut R,
) -> Result<Read, NeedSpace> {
    let now = work.now;
    let writer = &mut Writer::new(work, key);
    let mut chain = writer.lock()?;
    let Some(mut current) = writer.find_alive(&mut chain) else {
        let Some(expiry_s) = options.vivify else { return Ok(Read::Miss) };
        let with = Attributes {
            expiry_s,
            client_cas: options.vivify_cas,
            flags: Flags::TOKEN_SENT.with(Flags::FETCHED),
            ..Attributes::default()
        };
        let current = writer.put(&mut chain, None, &with, [&[], &[]])?;
        let head = current.head.with_flags(current.head.flags().without(with.flags));
        if let Some(target) = out.open(&ItemView::of(&current, now).with(head, true)) {
            target.extend_from_slice(R::AFTER);
        }
        return Ok(Read::Hit);
    };
    let had_s = current.item.expiry_s(current.head);
    if let Some(expiry_s) = options.touch {
        current = writer.touch(&mut chain, current, expiry_s)?;
    }
    let view = ItemView::of(&current, now);
    let found = view.found();
    let due = had_s != 0 && options.recache_before_s.is_some_and(|limit_s| had_s < limit_s);
    let won = (found.stale || due) && !found.token_sent;
    let head = current.head;
    let flags = head.flags().with_if(won, Flags::TOKEN_SENT);
    let head = if options.quiet {
        head.with_flags(flags)
    } else {
        chain.raise_freq(current.place);
        fetched_now(head.with_flags(flags), now)
    };
    current.item.set_head(head);
    let whole = copy_value(writer.work.items, &view.with(current.head, won), out);
    assert!(whole, "chunks of a locked item are in place");
    Ok(Read::Hit)
}
