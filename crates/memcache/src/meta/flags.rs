//! The flags of one meta command: which are given, and their text.
//!
//! ```text
//! given   57 ........ 32 31 ..... 26 25 ........ 0      bit = letter - 'A'
//!         z ......... a  punctuation Z ......... A
//! ```
//!
//! Every command takes every flag, as in memcached, and ignores those it has no use for. Arguments
//! are checked when the flags are parsed. They are parsed again when the service reads them: a
//! request needs few of them, and a set of flags stays small. The text is kept, because a reply
//! returns facts in the order of the request's flags.
//!
//! Invariants: a flag is given at most once; the argument of a flag that is given is valid.

use crate::key::{Key, KeyToken};
use crate::meta::returns::Returns;
use crate::refusal::Refusal;
use crate::text::Words;
use crate::text::number;

/// The longest opaque, with its letter `O`, in bytes.
const OPAQUE_BYTES_MAX: usize = 32;

/// Words of a line that memcached checks for their first character.
const WORDS_READ_MAX: usize = 23;

/// The most words of a meta command, its name and its key included.
const WORDS_MAX: usize = 20;

/// Words before the flags of a command with a key (`mg key ...`). `ms` has one more.
pub(crate) const KEYED_WORDS: usize = 2;

/// Flags that exist.
const KNOWN: u64 = bits(b"CDEFIJLMNOPRTbcfhklqstuvx");

/// Flags that put a fact into the reply.
const RETURNED: u64 = bits(b"cfhklOst");

const _: () = assert!(b'z' - b'A' < u64::BITS as u8);

/// The key and the flags of a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaArgs<'a> {
    /// The key.
    pub key: KeyToken<'a>,
    /// The flags.
    pub flags: MetaFlags<'a>,
}

impl<'a> MetaArgs<'a> {
    /// A key without flags.
    #[inline]
    pub(crate) fn bare(key: Key<'a>) -> Self {
        Self { key: KeyToken::plain(key), flags: MetaFlags { text: &[], given: 0 } }
    }

    /// Parses the flags in `text`, which come after `words_before` words, `key` among them.
    ///
    /// A flag that is unknown or repeated ends the parsing. A wrong argument does not: memcached
    /// reports the last one.
    #[inline]
    pub(crate) fn parse(
        key: Key<'a>,
        text: &'a [u8],
        words_before: usize,
    ) -> Result<Self, Refusal<'a>> {
        let mut key = KeyToken::plain(key);
        let mut flags = MetaFlags { text, given: 0 };
        let mut bad = None;
        let mut opaque_bytes = 0;
        let mut words = Words::new(text);
        let mut words_left = WORDS_MAX - words_before;
        while let Some(word) = words.next() {
            let (letter, argument) = word.split_first().expect("a word has at least one byte");
            if let Err(refusal) = flags.give(*letter, words_left) {
                // memcached counts the words before it reads any of them.
                let too_many = words.count() >= words_left;
                return Err(if too_many { Refusal::TooManyFlags } else { refusal });
            }
            words_left -= 1;
            match letter {
                b'O' => opaque_bytes = word.len(),
                b'b' => match key.decoding() {
                    Some(decoding) => key = decoding,
                    None => bad = Some(Refusal::BadKeyEncoding),
                },
                // The only flag whose error has no line of its own and replaces no other error.
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
        bad.map_or(Ok(Self { key, flags }), Err)
    }
}

/// Which flags are given, and their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaFlags<'a> {
    text: &'a [u8],
    given: u64,
}

impl<'a> MetaFlags<'a> {
    /// Adds a flag, if it exists, is not given yet and `words_left` is not zero.
    #[inline]
    fn give(&mut self, letter: u8, words_left: usize) -> Result<(), Refusal<'a>> {
        let bit = bit(letter);
        if words_left == 0 {
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

    /// `q`: the client does not want the nominal reply, which is `EN` of `mg`, `HD` of `ms` and
    /// `md`, `HD` and `VA` of `ma`. All other replies are sent, errors too.
    #[inline]
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    /// `v`: the client wants the value.
    #[inline]
    #[must_use]
    pub fn wants_value(&self) -> bool {
        self.has(b'v')
    }

    /// `u`: the read leaves no trace at the item.
    #[inline]
    #[must_use]
    pub fn no_bump(&self) -> bool {
        self.has(b'u')
    }

    /// `I`: `md` marks the item stale; `ms` stores even over a newer version, and marks the result
    /// stale.
    #[inline]
    #[must_use]
    pub fn invalidate(&self) -> bool {
        self.has(b'I')
    }

    /// `x`: drop the value and keep the item.
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

    /// `N`: create a missing item, with this expiry.
    #[inline]
    #[must_use]
    pub fn vivify(&self) -> Option<i64> {
        self.time(b'N')
    }

    /// `R`: one client wins the right to renew an item that has less than this time to live.
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

    /// `E`: the version that the item gets if it changes.
    #[inline]
    #[must_use]
    pub fn cas_new(&self) -> Option<u64> {
        self.number(b'E')
    }

    /// `D`: the amount to add or subtract; 1 if absent.
    #[inline]
    #[must_use]
    pub fn delta(&self) -> u64 {
        self.number(b'D').unwrap_or(1)
    }

    /// `J`: the first value of a number that `N` creates; 0 if absent.
    #[inline]
    #[must_use]
    pub fn initial(&self) -> u64 {
        self.number(b'J').unwrap_or(0)
    }

    /// `F`: the client's own flags; 0 if absent.
    #[inline]
    #[must_use]
    pub fn client_flags(&self) -> u32 {
        self.number(b'F').map_or(0, |flags| flags as u32)
    }

    /// `P`: a word for a proxy between the client and the item. memcached ignores it.
    #[inline]
    #[must_use]
    pub fn word_for_proxy(&self) -> Option<&'a [u8]> {
        self.argument(b'P')
    }

    /// `L`: another word for a proxy, which volvox takes for who may answer a read. memcached
    /// ignores it.
    #[inline]
    #[must_use]
    pub fn word_for_reads(&self) -> Option<&'a [u8]> {
        self.argument(b'L')
    }

    /// Whether the reply says how the item was used, or the read is to leave no trace of its own:
    /// `h`, `l` and `u`.
    #[inline]
    #[must_use]
    pub fn is_about_use(&self) -> bool {
        [b'h', b'l', b'u'].into_iter().any(|letter| self.has(letter))
    }

    /// `M`: the mode. An empty mode reads as a space, which is no mode, so it is refused like any
    /// unknown one.
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

    /// The text after the letter of a flag, if the flag is given.
    #[inline]
    fn argument(&self, letter: u8) -> Option<&'a [u8]> {
        if !self.has(letter) {
            return None;
        }
        Words::new(self.text).find_map(|word| word.strip_prefix(&[letter]))
    }

    /// The flags as they were written, in the order of the request.
    pub(crate) fn words(&self) -> Words<'a> {
        Words::new(self.text)
    }

    /// The facts that the reply returns, in the order of the request.
    #[inline]
    #[must_use]
    pub fn returns(&self) -> Returns<'a> {
        let silent = self.given & RETURNED == 0;
        Returns::new(if silent { &[] } else { self.text })
    }
}

/// Whether every flag begins with a letter, a digit or one of the characters between `Z` and `a`.
/// If not, memcached refuses the whole line before it reads any flag.
pub(crate) fn well_formed(text: &[u8], words_before: usize) -> bool {
    Words::new(text)
        .take(WORDS_READ_MAX - words_before)
        .all(|word| matches!(word.first(), Some(b'A'..=b'z' | b'0'..=b'9')))
}

const fn bit(letter: u8) -> u64 {
    // A letter below 'A' wraps around to a large number and has no bit.
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

/// What is wrong with the number after the letter of a flag.
fn fault(letter: u8, argument: &[u8]) -> Option<Refusal<'static>> {
    let (good, refusal) = match letter {
        b'N' | b'R' | b'T' => (number::parse_i32(argument).is_some(), Refusal::BadToken),
        b'D' => (number::parse_u64(argument).is_some(), Refusal::BadDeltaToken),
        b'J' => (number::parse_u64(argument).is_some(), Refusal::BadInitialToken),
        _ => (number::parse_u64(argument).is_some(), Refusal::BadToken),
    };
    (!good).then_some(refusal)
}
