//! The flags of one meta command, each at most once.
//!
//! ```text
//! given   57 ........ 32 31 ..... 26 25 ........ 0      bit = letter - 'A'
//!         z ......... a  punctuation Z ......... A
//! ```
//!
//! Every command takes every flag, as in memcached; what a command has no use for it ignores.
//! Arguments are checked when the flags are read, and read again when they are asked for: few
//! are, and what is carried around stays small. The text is kept, because replies repeat the
//! order of the request.

use crate::key::{Key, KeyToken};
use crate::meta::returns::Returns;
use crate::number;
use crate::refusal::Refusal;
use crate::words::Words;

/// The longest opaque, with its `O`.
const OPAQUE_BYTES_MAX: usize = 32;

/// Words of a line that memcached looks at; the rest is ignored.
const WORDS_READ_MAX: usize = 23;

/// Words of a meta command, its name and key included.
const WORDS_MAX: usize = 20;

/// Flags of a command with a key (`mg key ...`); `ms` has one word more and one flag less.
pub(crate) const KEYED_WORDS: usize = 2;

const KNOWN: u64 = bits(b"CDEFIJLMNOPRTbcfhklqstuvx");
const RETURNED: u64 = bits(b"cfhklOst");

const _: () = assert!(b'z' - b'A' < u64::BITS as u8);

/// Which flags are given, and their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaFlags<'a> {
    text: &'a [u8],
    given: u64,
}

impl<'a> MetaFlags<'a> {
    /// No flags.
    pub(crate) const NONE: Self = Self { text: &[], given: 0 };

    /// Reads the flags in `text`, which follow `words_before` other words, `key` among them.
    ///
    /// A flag that is unknown or repeated ends the reading. An argument that is wrong does not:
    /// memcached tells of the last one.
    #[inline]
    pub(crate) fn parse(
        key: Key<'a>,
        text: &'a [u8],
        words_before: usize,
    ) -> Result<(KeyToken<'a>, Self), Refusal<'a>> {
        let mut key = KeyToken::plain(key);
        let mut flags = Self { text, given: 0 };
        let mut bad = None;
        let mut opaque_bytes = 0;
        let mut words = Words::new(text);
        let mut room = WORDS_MAX - words_before;
        while let Some(word) = words.next() {
            let (letter, argument) = word.split_first().expect("a word has at least one byte");
            if let Err(refusal) = flags.give(*letter, room) {
                // How many there are is looked at before any of them is.
                return Err(if words.count() >= room { Refusal::TooManyFlags } else { refusal });
            }
            room -= 1;
            match letter {
                b'O' => opaque_bytes = word.len(),
                b'b' => match key.decoding() {
                    Some(decoding) => key = decoding,
                    None => bad = Some(Refusal::BadKeyEncoding),
                },
                // The one flag whose fault has no words of its own, nor overrides another's.
                b'F' if number::parse_u32(argument).is_none() => {
                    bad = bad.or(Some(Refusal::BadFormat));
                }
                b'C' | b'D' | b'E' | b'J' | b'N' | b'R' | b'T' => {
                    bad = fault(*letter, argument).or(bad);
                }
                _ => {}
            }
        }
        if opaque_bytes > OPAQUE_BYTES_MAX {
            bad = bad.or(Some(Refusal::OpaqueTooLong));
        }
        bad.map_or(Ok((key, flags)), Err)
    }

    /// Notes that a flag is there, if it may be.
    #[inline]
    fn give(&mut self, letter: u8, room: usize) -> Result<(), Refusal<'a>> {
        let bit = bit(letter);
        if room == 0 {
            return Err(Refusal::TooManyFlags);
        }
        if self.given & bit != 0 {
            return Err(Refusal::DuplicateFlag);
        }
        if KNOWN & bit == 0 {
            return Err(Refusal::InvalidFlag);
        }
        self.given |= bit;
        Ok(())
    }

    #[inline]
    fn has(&self, letter: u8) -> bool {
        self.given & bit(letter) != 0
    }

    /// `q`: the nominal reply is unwanted: `EN` of `mg`, `HD` of `ms` and `md`, `HD` and `VA` of
    /// `ma`. Everything else is sent, errors too.
    #[inline]
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    /// `v`: the value is wanted.
    #[inline]
    #[must_use]
    pub fn wants_value(&self) -> bool {
        self.has(b'v')
    }

    /// `u`: this read does not count as one.
    #[inline]
    #[must_use]
    pub fn no_bump(&self) -> bool {
        self.has(b'u')
    }

    /// `h` or `l`: the history of the item is wanted, as it was before this read.
    #[inline]
    #[must_use]
    pub fn wants_history(&self) -> bool {
        self.given & (bit(b'h') | bit(b'l')) != 0
    }

    /// `I`: mark the item stale (`md`), or store over a newer version and mark that stale (`ms`).
    #[inline]
    #[must_use]
    pub fn invalidate(&self) -> bool {
        self.has(b'I')
    }

    /// `x`: keep the item, drop its value.
    #[inline]
    #[must_use]
    pub fn remove_value(&self) -> bool {
        self.has(b'x')
    }

    /// `T`: the new expiry.
    #[inline]
    #[must_use]
    pub fn ttl(&self) -> Option<i64> {
        self.time(b'T')
    }

    /// `N`: make the item if it is missing, with this expiry.
    #[inline]
    #[must_use]
    pub fn vivify(&self) -> Option<i64> {
        self.time(b'N')
    }

    /// `R`: win the right to renew the item if it has less than this to live.
    #[inline]
    #[must_use]
    pub fn recache(&self) -> Option<i64> {
        self.time(b'R')
    }

    /// `C`: the version to compare with.
    #[inline]
    #[must_use]
    pub fn cas(&self) -> Option<u64> {
        self.number(b'C')
    }

    /// `E`: the version to give to the item if it changes.
    #[inline]
    #[must_use]
    pub fn cas_new(&self) -> Option<u64> {
        self.number(b'E')
    }

    /// `D`: by how much, 1 when absent.
    #[inline]
    #[must_use]
    pub fn delta(&self) -> u64 {
        self.number(b'D').unwrap_or(1)
    }

    /// `J`: what a number made by `N` starts with, 0 when absent.
    #[inline]
    #[must_use]
    pub fn initial(&self) -> u64 {
        self.number(b'J').unwrap_or(0)
    }

    /// `F`: the client's own flags, 0 when absent.
    #[inline]
    #[must_use]
    pub fn client_flags(&self) -> u32 {
        self.number(b'F').map_or(0, |flags| flags as u32)
    }

    /// `M`: the mode. An empty one is as wrong as an unknown one: no mode is a space.
    #[inline]
    pub(crate) fn mode(&self) -> Option<u8> {
        self.argument(b'M').map(|mode| mode.first().copied().unwrap_or(b' '))
    }

    #[inline]
    fn time(&self, letter: u8) -> Option<i64> {
        self.argument(letter).and_then(number::parse_i64)
    }

    #[inline]
    fn number(&self, letter: u8) -> Option<u64> {
        self.argument(letter).and_then(number::parse_u64)
    }

    /// What stands behind the letter of a flag, if it is given.
    #[inline]
    fn argument(&self, letter: u8) -> Option<&'a [u8]> {
        if !self.has(letter) {
            return None;
        }
        Words::new(self.text).find_map(|word| word.strip_prefix(&[letter]))
    }

    /// What the reply shall say, in the order asked.
    #[inline]
    #[must_use]
    pub fn returns(&self) -> Returns<'a> {
        let silent = self.given & RETURNED == 0;
        Returns::new(if silent { &[] } else { self.text })
    }

    /// The flags as the client wrote them, with spaces.
    #[inline]
    #[must_use]
    pub fn text(&self) -> &'a [u8] {
        self.text
    }
}

/// Whether every flag begins with a letter, a digit or what stands between `Z` and `a`. If not,
/// memcached takes the whole line for nonsense, before it looks at any flag.
pub(crate) fn well_formed(text: &[u8], words_before: usize) -> bool {
    Words::new(text)
        .take(WORDS_READ_MAX - words_before)
        .all(|word| matches!(word.first(), Some(b'A'..=b'z' | b'0'..=b'9')))
}

const fn bit(letter: u8) -> u64 {
    // What lies below 'A' wraps around to large numbers and has no bit.
    let place = letter.wrapping_sub(b'A');
    if place < u64::BITS as u8 { 1 << place } else { 0 }
}

const fn bits(letters: &[u8]) -> u64 {
    let mut set = 0;
    let mut at = 0;
    while at < letters.len() {
        set |= bit(letters[at]);
        at += 1;
    }
    set
}

/// What is wrong with the number behind a flag.
fn fault(letter: u8, argument: &[u8]) -> Option<Refusal<'static>> {
    let (good, refusal) = match letter {
        b'N' | b'R' | b'T' => (number::parse_i32(argument).is_some(), Refusal::BadToken),
        b'D' => (number::parse_u64(argument).is_some(), Refusal::BadDeltaToken),
        b'J' => (number::parse_u64(argument).is_some(), Refusal::BadInitialToken),
        _ => (number::parse_u64(argument).is_some(), Refusal::BadToken),
    };
    (!good).then_some(refusal)
}
