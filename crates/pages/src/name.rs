//! The names of objects. None is used twice: each has the epoch of its writer, and a number.
//!
//! ```text
//! format                      what this bucket is
//! epoch/EPOCH                 who writes now: the highest
//! map/RUN/EPOCH.NUMBER        which pages a run of slices has: the highest of each run counts
//! page/EPOCH.NUMBER           records of keys that follow each other
//! value/KEY/EPOCH.NUMBER      one long record
//! note/NAME/EPOCH.NUMBER      a note of the tier: the highest of each name counts
//! ```
//!
//! Numbers are written as 16 hexadecimal digits, so that names are in the order of their numbers.

use std::fmt;

/// The object that says what the bucket is.
pub(crate) const FORMAT: &str = "format";
/// What the names of each kind begin with.
pub(crate) const EPOCHS: &str = "epoch/";
pub(crate) const MAPS: &str = "map/";
pub(crate) const PAGES: &str = "page/";
pub(crate) const NOTES: &str = "note/";

/// What makes a name one that is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    /// Of the writer.
    pub(crate) epoch: u64,
    /// Of the object, among those of this writer.
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

/// The name of an epoch.
pub(crate) fn epoch(epoch: u64) -> String {
    format!("{EPOCHS}{epoch:016x}")
}

/// The epoch of such a name.
pub(crate) fn epoch_of(name: &str) -> Option<u64> {
    hex(name.strip_prefix(EPOCHS)?)
}

/// The name of a map of a run.
pub(crate) fn map(run: usize, id: Id) -> String {
    format!("{MAPS}{run:02x}/{id}")
}

/// The run and the id of such a name.
pub(crate) fn map_of(name: &str) -> Option<(usize, Id)> {
    let (run, id) = name.strip_prefix(MAPS)?.split_once('/')?;
    Some((usize::from_str_radix(run, 16).ok()?, Id::parse(id)?))
}

/// The name of a page.
pub(crate) fn page(id: Id) -> String {
    format!("{PAGES}{id}")
}

/// The id of such a name.
pub(crate) fn page_of(name: &str) -> Option<Id> {
    Id::parse(name.strip_prefix(PAGES)?)
}

/// The name of a record of its own.
pub(crate) fn value(key: &[u8], id: Id) -> String {
    format!("value/{}/{id}", escaped(key))
}

/// The name of a note.
pub(crate) fn note(name: &str, id: Id) -> String {
    format!("{NOTES}{}/{id}", escaped(name.as_bytes()))
}

/// The name of the note, and the id, of such a name.
pub(crate) fn note_of(name: &str) -> Option<(String, Id)> {
    let (name, id) = name.strip_prefix(NOTES)?.split_once('/')?;
    Some((unescaped(name)?, Id::parse(id)?))
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

fn unescaped(text: &str) -> Option<String> {
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
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_was_made_of() {
        let id = Id { epoch: 7, number: u64::MAX };
        assert_eq!(map_of(&map(63, id)), Some((63, id)));
        assert_eq!(page_of(&page(id)), Some(id));
        assert_eq!(epoch_of(&epoch(9)), Some(9));
        for name in ["journal", "a/b", "\u{fc} %", "."] {
            assert_eq!(note_of(&note(name, id)), Some((name.to_owned(), id)));
        }
        assert_eq!(page_of("page/7.8"), None, "a number has all its digits");
        assert_eq!(map_of("map/3f"), None);
    }

    #[test]
    fn later_names_come_later_and_the_longest_is_short_enough() {
        let id = |epoch, number| Id { epoch, number };
        assert!(page(id(1, u64::MAX)) < page(id(2, 0)) && epoch(9) < epoch(10));
        assert!(value(&[0; 250], id(1, 1)).len() <= 900);
        assert!(value(b"..", id(1, 1)).starts_with("value/%2E%2E/"));
    }
}
