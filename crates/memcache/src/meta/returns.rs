//! The facts that a meta command wants in its reply, in the order of the request.
//!
//! Only flags that put a fact into a reply are listed. Which of them a reply has depends on the
//! command and its result: a miss has no size.

use crate::text::Words;

/// One fact in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaReturn<'a> {
    /// `c`: the version of the item.
    Cas,
    /// `f`: the client's own flags.
    ClientFlags,
    /// `h`: whether an earlier request has read the item.
    Hit,
    /// `k`: the key.
    Key,
    /// `l`: seconds since the item was last read.
    LastAccess,
    /// `O`: a word that the client chose and gets back, with its letter `O`.
    Opaque(&'a [u8]),
    /// `s`: the size of the value.
    Size,
    /// `t`: seconds to live.
    Ttl,
}

/// The facts that one request wants. Flags that return nothing are skipped.
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
