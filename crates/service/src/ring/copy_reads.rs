//! Which reads of clients copies may answer.

use memcache::{MetaFlags, Request};
use ring::LEASE_NS;
use std::fmt;

/// The oldest that an answer of a copy may be: no primary grants a copy more time.
pub const AGE_MS_MAX: u16 = (LEASE_NS / 1_000_000) as u16;

/// Which reads of the clients of a cell copies may answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReads {
    /// How old such an answer may be, at most [`AGE_MS_MAX`]. 0: copies answer only what names an
    /// age of its own.
    pub age_ms: u16,
    /// Only keys that begin with one of these, unless there is none.
    pub prefixes: Vec<Box<[u8]>>,
    /// Only clients of these listeners, by their numbers; `None`: of all.
    pub listeners: Option<Vec<usize>>,
}

impl CopyReads {
    /// Whether copies may answer clients of `listener`.
    pub(crate) fn serve(&self, listener: usize) -> bool {
        let is_one = |listeners: &Vec<usize>| listeners.contains(&listener);
        self.age_ms > 0 && self.listeners.as_ref().is_none_or(is_one)
    }

    /// How old the answer to a read of `key` may be, which chooses nothing; 0: a copy may not
    /// answer.
    pub(crate) fn age_of(&self, key: &[u8]) -> u16 {
        let is_covered = || self.prefixes.iter().any(|prefix| key.starts_with(prefix));
        if self.prefixes.is_empty() || is_covered() { self.age_ms } else { 0 }
    }
}

/// What the flag `L` of a meta request chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// Nothing, or it is meant for somebody else, such as a proxy.
    Nothing,
    /// The primary answers.
    Primary,
    /// A copy may answer, which is at most as old as that, or else as [`CopyReads`] says.
    Copy(Option<u16>),
}

/// A flag `L` that is meant for the ring, and names no age that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownAge;

impl fmt::Display for UnknownAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flag L is primary, copy, or copy and 1 to {AGE_MS_MAX} milliseconds in a ring")
    }
}

/// What `request` chooses.
pub(crate) fn chosen(request: &Request<'_>) -> Result<Chosen, UnknownAge> {
    let Request::MetaGet(args) = request else { return Ok(Chosen::Nothing) };
    match args.flags.word_for_reads() {
        Some(b"primary") => Ok(Chosen::Primary),
        Some(b"copy") => Ok(Chosen::Copy(None)),
        Some(word) => match word.strip_prefix(b"copy") {
            Some(age) => Ok(Chosen::Copy(Some(age_in(age)?))),
            None => Ok(Chosen::Nothing),
        },
        None => Ok(Chosen::Nothing),
    }
}

fn age_in(word: &[u8]) -> Result<u16, UnknownAge> {
    let digits = std::str::from_utf8(word).ok().filter(|_| word.iter().all(u8::is_ascii_digit));
    let age = digits.and_then(|age| age.parse().ok());
    age.filter(|age| (1..=AGE_MS_MAX).contains(age)).ok_or(UnknownAge)
}

/// Whether a copy can answer `request` as its primary would: it changes nothing, and returns
/// nothing of how the item was used.
pub(crate) fn is_for_copies(request: &Request<'_>) -> bool {
    let is_known = |flags: &MetaFlags<'_>| {
        let changes =
            flags.ttl().is_some() || flags.vivify().is_some() || flags.recache().is_some();
        !changes && !flags.is_about_use()
    };
    match request {
        Request::Get { .. } => true,
        Request::MetaGet(args) => is_known(&args.flags),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memcache::{Limits, Parsed};

    fn parsed(text: &str, look: impl FnOnce(&Request<'_>)) {
        let Parsed::Request { request, .. } = memcache::parse(text.as_bytes(), &Limits::default())
        else {
            panic!("{text:?} is no request");
        };
        look(&request);
    }

    #[test]
    fn a_request_chooses_who_may_answer() {
        let cases = [
            ("get k\r\n", Ok(Chosen::Nothing)),
            ("mg k v\r\n", Ok(Chosen::Nothing)),
            ("mg k v Lprimary\r\n", Ok(Chosen::Primary)),
            ("mg k v Lcopy\r\n", Ok(Chosen::Copy(None))),
            ("mg k v Lcopy1\r\n", Ok(Chosen::Copy(Some(1)))),
            ("mg k v Lcopy250\r\n", Ok(Chosen::Copy(Some(250)))),
            ("mg k v Lcopy0\r\n", Err(UnknownAge)),
            ("mg k v Lcopy251\r\n", Err(UnknownAge)),
            ("mg k v Lcopy+5\r\n", Err(UnknownAge)),
            ("mg k v Lcopyx\r\n", Err(UnknownAge)),
            ("mg k v Lcopies\r\n", Ok(Chosen::Nothing)),
            ("mg k v Lpool7\r\n", Ok(Chosen::Nothing)),
            ("ms k 1 Lcopy0\r\n1\r\n", Ok(Chosen::Nothing)),
        ];
        for (text, expected) in cases {
            parsed(text, |request| assert_eq!(chosen(request), expected, "{text:?}"));
        }
    }

    #[test]
    fn a_copy_answers_what_it_knows_as_well_as_the_primary() {
        let cases = [
            ("get k\r\n", true),
            ("gets k\r\n", true),
            ("gat 0 k\r\n", false),
            ("mg k s v t f c k q O7\r\n", true),
            ("mg k v h\r\n", false),
            ("mg k v l\r\n", false),
            ("mg k v u\r\n", false),
            ("mg k v T0\r\n", false),
            ("mg k v N30\r\n", false),
            ("mg k v R30\r\n", false),
            ("me k\r\n", false),
            ("delete k\r\n", false),
        ];
        for (text, expected) in cases {
            parsed(text, |request| assert_eq!(is_for_copies(request), expected, "{text:?}"));
        }
    }

    #[test]
    fn only_the_keys_and_clients_that_are_named_are_answered_by_copies() {
        let all = CopyReads { age_ms: 200, ..CopyReads::default() };
        assert_eq!((all.age_of(b"any"), all.serve(0), all.serve(7)), (200, true, true));
        let prefixes = vec![b"page:".as_slice().into(), b"user:".as_slice().into()];
        let some = CopyReads { prefixes, listeners: Some(vec![1]), ..all.clone() };
        assert_eq!((some.age_of(b"user:1"), some.age_of(b"session:1")), (200, 0));
        assert_eq!((some.serve(0), some.serve(1)), (false, true));
        let none = CopyReads { age_ms: 0, ..all };
        assert_eq!((none.age_of(b"any"), none.serve(0)), (0, false));
    }
}
