//! Replies to meta commands: a code of two letters, then what the client asked for, in its order.
//!
//! ```text
//! command  nominal  left out by q   others           returns
//! mg       VA HD    (EN)            EN               c f h k l O s t; k O on EN
//! ms       HD       HD              NS EX NF         c k O s
//! md       HD       HD              NF EX            k O
//! ma       VA HD    VA HD           NF EX NS         c k O t; k O without a number
//! ```
//!
//! After a `VA` line the caller appends the value and [`super::LINE_END`].

use crate::key::KeyToken;
use crate::meta::{MetaFlags, MetaReturn};
use crate::number;
use crate::reply::classic::line;

/// How a meta command that changes something went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaStatus {
    /// `HD`: done.
    Done,
    /// `NS`: the condition of the mode did not hold.
    NotStored,
    /// `EX`: the item has another version than the one given.
    Exists,
    /// `NF`: no such item.
    NotFound,
}

impl MetaStatus {
    fn code(self) -> &'static [u8; 2] {
        match self {
            Self::Done => b"HD",
            Self::NotStored => b"NS",
            Self::Exists => b"EX",
            Self::NotFound => b"NF",
        }
    }
}

/// What `mg` can tell about an item, as it was before the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFacts {
    /// Length of the value.
    pub value_bytes: u64,
    /// Its version.
    pub cas: u64,
    /// The client's own flags.
    pub client_flags: u32,
    /// Seconds to live; for ever when absent.
    pub ttl_s: Option<u32>,
    /// Seconds since it was last read.
    pub idle_s: u32,
    /// Whether it was ever read.
    pub fetched: bool,
}

/// What `mg` tells unasked about the renewal of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// `Z`: another client was told to renew it.
    pub sent: bool,
    /// `X`: the value is stale.
    pub stale: bool,
    /// `W`: this client shall renew it.
    pub won: bool,
}

/// What `me` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemDebug {
    /// What `mg` could tell. The length is that of the value.
    pub facts: ItemFacts,
    /// The class of sizes it counts in.
    pub class: u32,
    /// Bytes it takes up in all.
    pub item_bytes: u64,
}

/// `mg` found an item. `with_value` makes it `VA`; the value is for the caller to append.
#[inline]
pub fn meta_hit(
    out: &mut Vec<u8>,
    key: KeyToken<'_>,
    flags: &MetaFlags<'_>,
    item: &ItemFacts,
    marks: Marks,
    with_value: bool,
) {
    code(out, with_value.then_some(item.value_bytes));
    for wish in flags.returns() {
        match wish {
            MetaReturn::Cas => field(out, b'c', item.cas),
            MetaReturn::ClientFlags => field(out, b'f', u64::from(item.client_flags)),
            MetaReturn::Hit => field(out, b'h', u64::from(item.fetched)),
            MetaReturn::Key => key_field(out, key),
            MetaReturn::LastAccess => field(out, b'l', u64::from(item.idle_s)),
            MetaReturn::Opaque(word) => opaque(out, word),
            MetaReturn::Size => field(out, b's', item.value_bytes),
            MetaReturn::Ttl => ttl_field(out, item.ttl_s),
        }
    }
    for (given, mark) in [(marks.sent, b" Z"), (marks.stale, b" X"), (marks.won, b" W")] {
        if given {
            out.extend_from_slice(mark);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// `mg` found nothing: `EN`, or silence when quiet.
#[inline]
pub fn meta_miss(out: &mut Vec<u8>, key: KeyToken<'_>, flags: &MetaFlags<'_>) {
    if !flags.quiet() {
        bare(out, b"EN", key, flags);
    }
}

/// How `md` went, or `ma` when there is no number to tell.
#[inline]
pub fn meta_status(
    out: &mut Vec<u8>,
    status: MetaStatus,
    key: KeyToken<'_>,
    flags: &MetaFlags<'_>,
) {
    if status != MetaStatus::Done || !flags.quiet() {
        bare(out, status.code(), key, flags);
    }
}

/// How `ms` went. `cas` is the new version, 0 unless stored; `value_bytes` the length stored, or
/// sent if it was not.
#[inline]
pub fn meta_stored(
    out: &mut Vec<u8>,
    status: MetaStatus,
    key: KeyToken<'_>,
    flags: &MetaFlags<'_>,
    cas: u64,
    value_bytes: u64,
) {
    if status == MetaStatus::Done && flags.quiet() {
        return;
    }
    out.extend_from_slice(status.code());
    for wish in flags.returns() {
        match wish {
            MetaReturn::Cas => field(out, b'c', cas),
            MetaReturn::Key => key_field(out, key),
            MetaReturn::Opaque(word) => opaque(out, word),
            MetaReturn::Size => field(out, b's', value_bytes),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// `ma` counted: the whole reply, the number included when it is wanted. Silence when quiet.
pub fn meta_number(
    out: &mut Vec<u8>,
    key: KeyToken<'_>,
    flags: &MetaFlags<'_>,
    number: u64,
    cas: u64,
    ttl_s: Option<u32>,
) {
    if flags.quiet() {
        return;
    }
    let mut digits = [0; number::DIGITS_MAX];
    let start = number::write_back(&mut digits, number::DIGITS_MAX, number);
    let digits = &digits[start..];
    code(out, flags.wants_value().then_some(digits.len() as u64));
    for wish in flags.returns() {
        match wish {
            MetaReturn::Cas => field(out, b'c', cas),
            MetaReturn::Key => key_field(out, key),
            MetaReturn::Opaque(word) => opaque(out, word),
            MetaReturn::Ttl => ttl_field(out, ttl_s),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if flags.wants_value() {
        out.extend_from_slice(digits);
        out.extend_from_slice(b"\r\n");
    }
}

/// `me` found an item.
pub fn meta_debug(out: &mut Vec<u8>, key: KeyToken<'_>, item: &ItemDebug) {
    let ItemFacts { cas, ttl_s, idle_s, fetched, .. } = item.facts;
    let ttl_s = ttl_s.map_or(-1, i64::from);
    let fetched = if fetched { "yes" } else { "no" };
    let ItemDebug { class, item_bytes, .. } = item;
    out.extend_from_slice(b"ME ");
    out.extend_from_slice(key.token());
    line(
        out,
        format_args!(
            " exp={ttl_s} la={idle_s} cas={cas} fetch={fetched} cls={class} size={item_bytes}"
        ),
    );
}

/// A reply that returns nothing about an item.
fn bare(out: &mut Vec<u8>, code: &[u8; 2], key: KeyToken<'_>, flags: &MetaFlags<'_>) {
    out.extend_from_slice(code);
    for wish in flags.returns() {
        match wish {
            MetaReturn::Key => key_field(out, key),
            MetaReturn::Opaque(word) => opaque(out, word),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn code(out: &mut Vec<u8>, value_bytes: Option<u64>) {
    match value_bytes {
        Some(bytes) => {
            out.extend_from_slice(b"VA ");
            number::push(out, bytes);
        }
        None => out.extend_from_slice(b"HD"),
    }
}

#[inline]
fn field(out: &mut Vec<u8>, letter: u8, number: u64) {
    out.extend_from_slice(&[b' ', letter]);
    number::push(out, number);
}

fn ttl_field(out: &mut Vec<u8>, ttl_s: Option<u32>) {
    match ttl_s {
        Some(ttl_s) => field(out, b't', u64::from(ttl_s)),
        None => out.extend_from_slice(b" t-1"),
    }
}

fn opaque(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

fn key_field(out: &mut Vec<u8>, key: KeyToken<'_>) {
    out.extend_from_slice(b" k");
    out.extend_from_slice(key.token());
    if key.is_binary() {
        out.extend_from_slice(b" b");
    }
}
