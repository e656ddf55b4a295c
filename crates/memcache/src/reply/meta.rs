//! Replies to meta commands: a code of two letters, then the facts that the request's flags name,
//! in their order.
//!
//! ```text
//! command  nominal  left out by q   others           returns
//! mg       VA HD    (EN)            EN               c f h k l O s t; k O on EN
//! ms       HD       HD              NS EX NF         c k O s
//! md       HD       HD              NF EX            k O
//! ma       VA HD    VA HD           NF EX NS         c k O t; k O without a number
//! ```
//!
//! After a `VA` line the caller appends the value and `\r\n`. Sizes are bytes, times seconds.

use crate::key::KeyToken;
use crate::meta::{MetaArgs, MetaReturn};
use crate::reply::classic::line;
use crate::text::number;

/// The result of a meta command that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaStatus {
    /// `HD`: done.
    Done,
    /// `NS`: the condition of the mode did not hold.
    NotStored,
    /// `EX`: the item has another version than the request named.
    Exists,
    /// `NF`: there is no such item.
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

/// What `mg` can return about an item, as it was before the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFacts {
    /// Length of the value.
    pub value_bytes: u64,
    /// Its version.
    pub cas: u64,
    /// The client's own flags.
    pub client_flags: u32,
    /// Seconds to live; absent if it never expires.
    pub ttl_s: Option<u32>,
    /// Seconds since the last read.
    pub idle_s: u32,
    /// Whether it was read before.
    pub fetched: bool,
}

/// What `mg` returns about the renewal of an item, whether or not a flag names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// `Z`: another client has won the right to renew it.
    pub sent: bool,
    /// `X`: the value is stale.
    pub stale: bool,
    /// `W`: this client has won the right to renew it.
    pub won: bool,
}

/// What `me` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemDebug {
    /// What `mg` can return.
    pub facts: ItemFacts,
    /// The class of sizes that it belongs to.
    pub class: u32,
    /// Bytes of memory that it takes, with its header and its key.
    pub item_bytes: u64,
}

/// `mg` found an item. With `with_value` the code is `VA`, and the caller appends the value.
#[inline]
pub fn meta_hit(
    out: &mut Vec<u8>,
    args: &MetaArgs<'_>,
    item: &ItemFacts,
    marks: Marks,
    with_value: bool,
) {
    code(out, with_value.then_some(item.value_bytes));
    for fact in args.flags.returns() {
        match fact {
            MetaReturn::Cas => field(out, b'c', item.cas),
            MetaReturn::ClientFlags => field(out, b'f', u64::from(item.client_flags)),
            MetaReturn::Hit => field(out, b'h', u64::from(item.fetched)),
            MetaReturn::Key => key_field(out, args.key),
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

/// `mg` found nothing: `EN`, or no reply with `q`.
#[inline]
pub fn meta_miss(out: &mut Vec<u8>, args: &MetaArgs<'_>) {
    if !args.flags.quiet() {
        bare(out, b"EN", args);
    }
}

/// The result of `md`, or of `ma` if there is no number.
#[inline]
pub fn meta_status(out: &mut Vec<u8>, status: MetaStatus, args: &MetaArgs<'_>) {
    if status != MetaStatus::Done || !args.flags.quiet() {
        bare(out, status.code(), args);
    }
}

/// The result of `ms`. `cas` is the new version, or 0 if nothing was stored. `value_bytes` is the
/// length of the value that is stored now, or of the one that was sent if nothing was stored.
#[inline]
pub fn meta_stored(
    out: &mut Vec<u8>,
    status: MetaStatus,
    args: &MetaArgs<'_>,
    cas: u64,
    value_bytes: u64,
) {
    if status == MetaStatus::Done && args.flags.quiet() {
        return;
    }
    out.extend_from_slice(status.code());
    for fact in args.flags.returns() {
        match fact {
            MetaReturn::Cas => field(out, b'c', cas),
            MetaReturn::Key => key_field(out, args.key),
            MetaReturn::Opaque(word) => opaque(out, word),
            MetaReturn::Size => field(out, b's', value_bytes),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// `ma` succeeded: the whole reply, with the number if the client wants it. No reply with `q`.
pub fn meta_number(
    out: &mut Vec<u8>,
    args: &MetaArgs<'_>,
    number: u64,
    cas: u64,
    ttl_s: Option<u32>,
) {
    if args.flags.quiet() {
        return;
    }
    let mut digits = [0; number::DIGITS_MAX];
    let start = number::write_back(&mut digits, number::DIGITS_MAX, number);
    let digits = &digits[start..];
    code(out, args.flags.wants_value().then_some(digits.len() as u64));
    for fact in args.flags.returns() {
        match fact {
            MetaReturn::Cas => field(out, b'c', cas),
            MetaReturn::Key => key_field(out, args.key),
            MetaReturn::Opaque(word) => opaque(out, word),
            MetaReturn::Ttl => ttl_field(out, ttl_s),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if args.flags.wants_value() {
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

/// A reply without any fact about an item.
fn bare(out: &mut Vec<u8>, code: &[u8; 2], args: &MetaArgs<'_>) {
    out.extend_from_slice(code);
    for fact in args.flags.returns() {
        match fact {
            MetaReturn::Key => key_field(out, args.key),
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
