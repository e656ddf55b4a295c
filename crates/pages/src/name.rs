//! The names of objects. None is used twice: each has the epoch of its writer, and a number. Each
//! run of slices has epochs of its own, so two runs may have the same `EPOCH.NUMBER`.
//!
//! ```text
//! format                      what this bucket is
//! epoch/RUN/EPOCH             who writes a run of slices now: the highest; run 40: the notes
//! map/RUN/EPOCH.NUMBER        which pages a run of slices has: the highest of each run counts
//! page/RUN/EPOCH.NUMBER       records of keys that follow each other
//! value/KEY/EPOCH.NUMBER      one long record
//! note/NAME/EPOCH.NUMBER      a note of the tier: the highest of each name counts
//! ```
//!
//! Numbers are written as 16 hexadecimal digits, those of runs as 2, so that names are in the order
//! of their numbers.

use std::fmt;
use std::ops::Range;

/// The object that says what the bucket is.
pub(crate) const FORMAT: &str = "format";
/// What the names of each kind begin with.
pub(crate) const EPOCHS: &str = "epoch/";
pub(crate) const MAPS: &str = "map/";
pub(crate) const PAGES: &str = "page/";
pub(crate) const VALUES: &str = "value/";
pub(crate) const NOTES: &str = "note/";

/// What makes a name one that is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    /// Of the writer.
    pub(crate) epoch: u64,
    /// Of the object, among those of this writer and run.
    pub(crate) number: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{:016x}", self.epoch, self.number)
    }
}

impl Id {
    fn parse(text: &str) -> Option<Self> {
        let (epoch, number) = text.split_once('.')?;
        Some(Self { epoch: hex(epoch)?, number: hex(number)? })
    }
}

/// What the names of a kind begin with that are of these runs, and maybe of others.
pub(crate) fn of_runs(kind: &str, runs: &Range<usize>) -> String {
    match runs.len() {
        1 => format!("{kind}{:02x}/", runs.start),
        _ => kind.to_owned(),
    }
}

/// The name of an epoch of a run.
pub(crate) fn epoch(run: usize, epoch: u64) -> String {
    format!("{EPOCHS}{run:02x}/{epoch:016x}")
}

/// The run and the epoch of such a name.
pub(crate) fn epoch_of(name: &str) -> Option<(usize, u64)> {
    let (run, epoch) = of_run(name, EPOCHS)?;
    Some((run, hex(epoch)?))
}

/// The name of a map of a run.
pub(crate) fn map(run: usize, id: Id) -> String {
    format!("{MAPS}{run:02x}/{id}")
}

/// The run and the id of such a name.
pub(crate) fn map_of(name: &str) -> Option<(usize, Id)> {
    let (run, id) = of_run(name, MAPS)?;
    Some((run, Id::parse(id)?))
}

/// The name of a page of a run.
pub(crate) fn page(run: usize, id: Id) -> String {
    format!("{PAGES}{run:02x}/{id}")
}

/// The run and the id of such a name.
pub(crate) fn page_of(name: &str) -> Option<(usize, Id)> {
    let (run, id) = of_run(name, PAGES)?;
    Some((run, Id::parse(id)?))
}

/// The name of a record of its own.
pub(crate) fn value(key: &[u8], id: Id) -> String {
    format!("{VALUES}{}/{id}", escaped(key))
}

/// The key and the id of such a name.
pub(crate) fn value_of(name: &str) -> Option<(Vec<u8>, Id)> {
    let (key, id) = name.strip_prefix(VALUES)?.split_once('/')?;
    Some((unescaped(key)?, Id::parse(id)?))
}

/// The name of a note.
pub(crate) fn note(name: &str, id: Id) -> String {
    format!("{NOTES}{}/{id}", escaped(name.as_bytes()))
}

/// The name of the note, and the id, of such a name.
pub(crate) fn note_of(name: &str) -> Option<(String, Id)> {
    let (name, id) = name.strip_prefix(NOTES)?.split_once('/')?;
    Some((String::from_utf8(unescaped(name)?).ok()?, Id::parse(id)?))
}

/// The run in a name of this kind, and what follows it.
fn of_run<'a>(name: &'a str, kind: &str) -> Option<(usize, &'a str)> {
    let (run, rest) = name.strip_prefix(kind)?.split_once('/')?;
    (run.len() == 2).then(|| Some((usize::from_str_radix(run, 16).ok()?, rest)))?
}

fn hex(digits: &str) -> Option<u64> {
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Bytes as a part of a name: letters, digits, `_` and `-` as they are, any other as `%` and two
/// digits.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            _ => bytes.push(byte),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_was_made_of() {
        let id = Id { epoch: 7, number: u64::MAX };
        assert_eq!(map_of(&map(63, id)), Some((63, id)));
        assert_eq!(page_of(&page(7, id)), Some((7, id)));
        assert_eq!(epoch_of(&epoch(64, 9)), Some((64, 9)));
        for key in [&b"key"[..], b"a/b", &[0xFF, b'%', b'.']] {
            assert_eq!(value_of(&value(key, id)), Some((key.to_vec(), id)));
        }
        for name in ["journal", "a/b", "\u{fc} %", "."] {
            assert_eq!(note_of(&note(name, id)), Some((name.to_owned(), id)));
        }
        assert_eq!(page_of("page/01/7.8"), None, "a number has all its digits");
        assert_eq!(page_of(&page(7, id).replace("07", "7")), None, "that of a run too");
        assert_eq!(map_of("map/3f"), None);
        assert_eq!(of_runs(PAGES, &(10..11)), "page/0a/");
        assert_eq!(of_runs(PAGES, &(10..12)), "page/");
    }

    #[test]
    fn later_names_come_later_and_the_longest_is_short_enough() {
        let id = |epoch, number| Id { epoch, number };
        assert!(page(3, id(1, u64::MAX)) < page(3, id(2, 0)) && epoch(3, 9) < epoch(3, 10));
        assert!(value(&[0; 250], id(1, 1)).len() <= 900);
        assert!(value(b"..", id(1, 1)).starts_with("value/%2E%2E/"));
    }
}
