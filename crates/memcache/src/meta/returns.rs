//! What a meta command wants to be told, in the order it asked.
//!
//! Only flags that put something into a reply appear here. Which of them a reply can answer
//! depends on the command: a miss has no size.

use crate::words::Words;

/// One thing to be put into a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaReturn<'a> {
    /// `c`: the version of the item.
    Cas,
    /// `f`: the client's own flags.
    ClientFlags,
    /// `h`: whether the item was read before.
    Hit,
    /// `k`: the key.
    Key,
    /// `l`: seconds since the item was last read.
    LastAccess,
    /// `O`: what the client wants to read again, with the `O`.
    Opaque(&'a [u8]),
    /// `s`: the size of the value.
    Size,
    /// `t`: seconds to live.
    Ttl,
}

/// The wishes of one request. Flags that return nothing are passed over.
#[derive(Clone, Copy, Debug)]
pub struct Returns<'a> {
    words: Words<'a>,
}

impl<'a> Returns<'a> {
    #[inline]
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { words: Words::new(text) }
    }
}

impl<'a> Iterator for Returns<'a> {
    type Item = MetaReturn<'a>;

    #[inline]
    fn next(&mut self) -> Option<MetaReturn<'a>> {
        self.words.find_map(|word| {
            Some(match word.first()? {
                b'c' => MetaReturn::Cas,
                b'f' => MetaReturn::ClientFlags,
                b'h' => MetaReturn::Hit,
                b'k' => MetaReturn::Key,
                b'l' => MetaReturn::LastAccess,
                b'O' => MetaReturn::Opaque(word),
                b's' => MetaReturn::Size,
                b't' => MetaReturn::Ttl,
                _ => return None,
            })
        })
    }
}
