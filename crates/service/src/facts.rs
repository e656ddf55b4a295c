//! What replies return about an item: the engine's facts in the protocol's terms.
//!
//! The engine knows a second of expiry; the protocol returns seconds to live. There are no size
//! classes here, so every item is of class 1, as in a memcached that has one class.

use base::Now;
use engine::Found;
use memcache::reply::{ItemDebug, ItemFacts};

/// The only class of sizes.
pub(crate) const CLASS: u32 = 1;

/// What `mg` returns about an item.
pub(crate) fn facts(found: &Found, now: Now) -> ItemFacts {
    ItemFacts {
        value_bytes: found.value_bytes as u64,
        cas: found.cas,
        client_flags: found.client_flags,
        ttl_s: ttl_s(found, now),
        idle_s: found.idle_s,
        fetched: found.fetched,
    }
}

/// Seconds that an item has to live. `None` if it never expires.
pub(crate) fn ttl_s(found: &Found, now: Now) -> Option<u32> {
    (found.expiry_s != 0).then(|| found.expiry_s.saturating_sub(now.expiry_s))
}

/// What `me` and dumps return about an item.
pub(crate) fn debug(found: &Found, now: Now) -> ItemDebug {
    ItemDebug { facts: facts(found, now), class: CLASS, item_bytes: found.size_bytes as u64 }
}
