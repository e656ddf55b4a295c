//! The replies of one link that wait for a log, in the order in which they were composed.
//!
//! ```text
//! texts   [ sent already | of the first reply | of the second | ... ]
//!                        ^ begin
//! ```

use session::LogId;
use std::collections::VecDeque;

/// Bytes of replies that were sent, before those that wait move to the front.
const SENT_BYTES_MAX: usize = 16 << 10;
/// Bytes of memory that are kept while nothing waits.
const KEEP_BYTES: usize = 64 << 10;

/// What a reply to another cell waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The log.
    pub(crate) log: LogId,
    /// The position that it must have passed.
    pub(crate) seq: u64,
    /// When it must end.
    pub(crate) due_ns: u64,
    /// The request, and how often that was sent before.
    pub(crate) id: (u64, u16),
}

/// The replies of one link that wait for a log.
#[derive(Default)]
pub(crate) struct WaitingReplies {
    /// What each waits for, and the length of its text.
    replies: VecDeque<(Waiting, usize)>,
    texts: Vec<u8>,
    begin: usize,
}

impl WaitingReplies {
    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Adds a reply with this text.
    pub(super) fn push(&mut self, waiting: Waiting, text: &[u8]) {
        if self.begin > SENT_BYTES_MAX && self.begin > self.texts.len() / 2 {
            self.texts.drain(..self.begin);
            self.begin = 0;
        }
        self.texts.extend_from_slice(text);
        self.replies.push_back((waiting, text.len()));
    }

    /// What the first one waits for.
    #[inline]
    pub(super) fn front(&self) -> Option<Waiting> {
        self.replies.front().map(|(waiting, _)| *waiting)
    }

    /// Takes the first one: its request, and its text.
    pub(super) fn pop(&mut self) -> Option<((u64, u16), &[u8])> {
        let (waiting, bytes) = self.replies.pop_front()?;
        let begin = self.begin;
        self.begin += bytes;
        Some((waiting.id, &self.texts[begin..self.begin]))
    }

    /// All that waited was taken, or is of no use any more.
    pub(super) fn clear(&mut self) {
        self.replies.clear();
        self.texts.clear();
        self.texts.shrink_to(KEEP_BYTES);
        self.begin = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_come_out_as_they_went_in_however_many_were_sent() {
        let mut replies = WaitingReplies::default();
        let waiting = |id| Waiting { log: LogId(1), seq: id, due_ns: 9, id: (id, 0) };
        let text = |id: u64| vec![id as u8; 3 * id as usize % 1000];
        let (mut sent, mut added) = (0, 0);
        for round in 0..400 {
            for _ in 0..=round * 7 % 60 {
                replies.push(waiting(added), &text(added));
                added += 1;
            }
            for _ in 0..(round * 11 % 61).min(added - sent) {
                assert_eq!(replies.front(), Some(waiting(sent)));
                assert_eq!(replies.pop(), Some(((sent, 0), &text(sent)[..])));
                sent += 1;
            }
            assert!(replies.begin <= replies.texts.len());
        }
        assert!(sent > 5000);
        replies.clear();
        assert!(replies.is_empty() && replies.front().is_none() && replies.pop().is_none());
    }
}
