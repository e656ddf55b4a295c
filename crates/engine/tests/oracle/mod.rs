//! What an engine must do, by a plain description of each command: the item before, and the item
//! after.

mod walk;

pub use walk::{remove_all, walk};

use crate::commands::{Answer, Command, Seen, What, shown};
use base::{Now, Version};
use engine::{Found, Mode, Read, WriteStatus};
use std::fmt;

/// An item as a client may know it.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub value: Vec<u8>,
    pub stale: bool,
    pub vivified: bool,
    pub token_sent: bool,
    pub client_flags: u32,
    /// The token, where it is not the counter of the version.
    pub token: Option<u64>,
    pub expiry_s: u32,
    /// Zero until it is learnt.
    pub version: Version,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, client_flags, expiry_s, token, version, .. } = self;
        let marks = [self.stale, self.token_sent, self.vivified];
        write!(f, "{}, flags {client_flags}, until {expiry_s}, ", shown(value))?;
        write!(f, "token {token:?}, {version:?}, marks {marks:?}")
    }
}

impl Entry {
    fn new(value: &[u8], client_flags: u32, expiry_s: u32, token: Option<u64>) -> Self {
        let (value, version) = (value.to_vec(), Version::ZERO);
        let (stale, token_sent, vivified) = (false, false, false);
        Self { value, client_flags, expiry_s, token, stale, token_sent, vivified, version }
    }

    /// The token to compare with.
    pub fn cas(&self) -> u64 {
        self.token.unwrap_or(self.version.raw())
    }

    pub fn is_dead(&self, now: Now) -> bool {
        self.expiry_s != 0 && self.expiry_s <= now.expiry_s
    }

    /// Whether `found` describes it. A read that won the token may show that it was given out.
    pub fn is(&self, found: &Found) -> bool {
        self.value.len() == found.value_bytes
            && self.client_flags == found.client_flags
            && self.expiry_s == found.expiry_s
            && self.stale == found.stale
            && (self.token_sent == found.token_sent || found.won)
            && (self.token.or((self.version != Version::ZERO).then(|| self.version.raw())))
                .is_none_or(|cas| cas == found.cas)
    }
}

/// What must come of a command.
#[derive(Clone, Debug)]
pub struct Expected {
    status: Status,
    number: u64,
    /// Whether a read wins the token.
    won: bool,
    pub after: Option<Entry>,
    /// Whether the item was written, so that its version may have changed.
    pub is_changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Read(bool),
    Wrote(WriteStatus),
}

impl Expected {
    /// Nothing changes.
    fn unchanged(status: WriteStatus, before: Option<&Entry>) -> Self {
        Self::of(Status::Wrote(status), before.cloned(), false)
    }

    fn done(after: Entry) -> Self {
        Self::of(Status::Wrote(WriteStatus::Done), Some(after), true)
    }

    fn of(status: Status, after: Option<Entry>, is_changed: bool) -> Self {
        Self { status, number: 0, won: false, after, is_changed }
    }

    /// Whether the command ended so. A report and what a read found are compared too.
    pub fn is(&self, answer: &Answer) -> bool {
        let shows = |found: &Found| self.after.as_ref().is_some_and(|entry| entry.is(found));
        match (self.status, answer) {
            (Status::Read(true), Answer::Read(Read::Hit, seen)) => {
                let value = self.after.as_ref().map(|entry| &entry.value);
                value == Some(&seen.value) && shows(&seen.found) && seen.found.won == self.won
            }
            (Status::Read(false), Answer::Read(Read::Miss, _)) => true,
            (Status::Wrote(status), Answer::Wrote(wrote)) => {
                status == wrote.status
                    && self.number == wrote.number
                    && wrote.found.as_ref().is_none_or(shows)
            }
            _ => false,
        }
    }
}

/// What `command` must do to the item `before`, where values have `value_bytes_max` bytes at most.
pub fn expect(
    command: &Command,
    before: Option<&Entry>,
    now: Now,
    value_bytes_max: usize,
) -> Expected {
    let before = before.filter(|entry| !entry.is_dead(now));
    let Some(old) = before else { return expect_missing(command, value_bytes_max) };
    let mut stale = false;
    if let Some(compare) = command.compare {
        stale = command.older_as_stale && compare < old.cas();
        if compare != old.cas() && !stale {
            return Expected::unchanged(WriteStatus::Exists, before);
        }
    }
    let changed = Entry { token: command.cas, version: Version::ZERO, ..old.clone() };
    let touched = |expiry_s| {
        let token = Some(old.cas());
        Entry { expiry_s, token, version: Version::ZERO, ..old.clone() }
    };
    match command.what {
        What::Get => Expected::of(Status::Read(true), before.cloned(), false),
        What::Fetch(options) => {
            let due = old.expiry_s != 0
                && options.recache_before_s.is_some_and(|second| old.expiry_s < second);
            let won = (old.stale || due) && !old.token_sent && !options.leaves_token;
            if !won && options.touch.is_none() {
                return Expected::of(Status::Read(true), before.cloned(), false);
            }
            let mut after = touched(options.touch.unwrap_or(old.expiry_s));
            after.token_sent |= won;
            Expected { won, ..Expected::of(Status::Read(true), Some(after), true) }
        }
        What::Set(client_flags, expiry_s)
        | What::Store(Mode::Set, client_flags, expiry_s)
        | What::Store(Mode::Replace, client_flags, expiry_s) => {
            if command.value.len() > value_bytes_max {
                return Expected::unchanged(WriteStatus::TooLarge, before);
            }
            let mut new = Entry::new(&command.value, client_flags, expiry_s, command.cas);
            if stale {
                (new.expiry_s, new.stale, new.token_sent) = (old.expiry_s, true, old.token_sent);
            }
            Expected::done(new)
        }
        What::Store(Mode::Add, ..) => Expected::unchanged(WriteStatus::NotStored, before),
        What::Store(mode @ (Mode::Append { .. } | Mode::Prepend { .. }), ..) => {
            let is_before = matches!(mode, Mode::Prepend { .. });
            let (first, second) =
                if is_before { (&command.value, &old.value) } else { (&old.value, &command.value) };
            let joined = [&first[..], second].concat();
            if joined.len() > value_bytes_max {
                return Expected::unchanged(WriteStatus::NotStored, before);
            }
            let Entry { client_flags, expiry_s, .. } = *old;
            Expected::done(Entry::new(&joined, client_flags, expiry_s, command.cas))
        }
        What::Count { .. } => count(command, old, changed),
        What::Touch(expiry_s) => Expected::done(touched(expiry_s)),
        What::Delete => Expected { after: None, ..Expected::done(changed) },
        What::Invalidate(expiry_s) => {
            let expiry_s = expiry_s.unwrap_or(old.expiry_s);
            Expected::done(Entry { expiry_s, stale: true, token_sent: false, ..changed })
        }
        What::Clear { client_flags, expiry_s, stale } => {
            let expiry_s = expiry_s.unwrap_or(old.expiry_s);
            Expected::done(Entry { stale, ..Entry::new(&[], client_flags, expiry_s, command.cas) })
        }
    }
}

fn expect_missing(command: &Command, value_bytes_max: usize) -> Expected {
    let store = |value: &[u8], client_flags, expiry_s| {
        if value.len() > value_bytes_max {
            return Expected::unchanged(WriteStatus::TooLarge, None);
        }
        Expected::done(Entry::new(value, client_flags, expiry_s, command.cas))
    };
    match command.what {
        What::Get => Expected::of(Status::Read(false), None, false),
        What::Fetch(options) => {
            let Some(expiry_s) = options.vivify else {
                return Expected::of(Status::Read(false), None, false);
            };
            let new = Entry::new(&[], 0, expiry_s, options.vivify_cas);
            let new = Entry { token_sent: true, vivified: true, ..new };
            Expected { won: true, ..Expected::of(Status::Read(true), Some(new), true) }
        }
        What::Set(client_flags, expiry_s) => store(&command.value, client_flags, expiry_s),
        What::Store(Mode::Set | Mode::Replace, ..) if command.compare.is_some() => {
            Expected::unchanged(WriteStatus::NotFound, None)
        }
        What::Store(mode, client_flags, expiry_s) => match mode {
            Mode::Replace | Mode::Append { vivify: false } | Mode::Prepend { vivify: false } => {
                Expected::unchanged(WriteStatus::NotStored, None)
            }
            _ => store(&command.value, client_flags, expiry_s),
        },
        What::Count { initial: Some((number, expiry_s)), .. } => {
            Expected { number, ..store(number.to_string().as_bytes(), 0, expiry_s) }
        }
        _ => Expected::unchanged(WriteStatus::NotFound, None),
    }
}

fn count(command: &Command, old: &Entry, changed: Entry) -> Expected {
    let What::Count { delta, down, expiry_s, .. } = command.what else { panic!("a count") };
    let text = old.value.trim_ascii_end();
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let is_short = old.value.len() <= 20;
    let text = std::str::from_utf8(text).ok().filter(|_| is_number && is_short);
    let Some(before) = text.and_then(|text| text.parse::<u64>().ok()) else {
        return Expected::unchanged(WriteStatus::NotNumber, Some(old));
    };
    let number = if down { before.saturating_sub(delta) } else { before.wrapping_add(delta) };
    let value = format!("{number:<width$}", width = old.value.len()).into_bytes();
    let has_grown = value.len() > old.value.len();
    let expiry_s = expiry_s.unwrap_or(old.expiry_s);
    let stale = changed.stale && !has_grown;
    let token_sent = changed.token_sent && !has_grown;
    let after = Entry { value, expiry_s, stale, token_sent, ..changed };
    Expected { number, ..Expected::done(after) }
}

impl Entry {
    /// The item with the version that a read has seen; `None` if the read shows another item.
    pub fn learnt(&self, seen: &Seen) -> Option<Self> {
        let is_version = self.version == Version::ZERO || self.version == seen.version;
        let learnt = Self { version: seen.version, ..self.clone() };
        let is_same = is_version && learnt.is(&seen.found) && learnt.value == seen.value;
        is_same.then_some(learnt)
    }
}
