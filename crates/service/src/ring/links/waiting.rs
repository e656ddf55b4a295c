//! The replies of one link that wait for logs.
//!
//! ```text
//! a queue for each log:   texts   [ sent already | of the first reply | of the second | ... ]
//!                                                ^ begin
//! ```
//!
//! What waits for one log leaves in the order in which it was composed. So a copy that is silent
//! holds up what waits for it, and not the replies of other ranges on the same link.

use session::LogId;
use std::collections::VecDeque;

/// Bytes of replies that were sent, before those that wait move to the front.
const SENT_BYTES_MAX: usize = 16 << 10;
/// Bytes of memory that a queue keeps while nothing waits.
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

/// The replies of one link that wait for logs.
#[derive(Default)]
pub(crate) struct WaitingReplies {
    /// One for each log. One that is empty is used for the next log.
    queues: Vec<Queue>,
    /// Bytes of their texts.
    bytes: usize,
}

/// Replies that wait for one log.
#[derive(Default)]
struct Queue {
    /// What each waits for, and the length of its text.
    replies: VecDeque<(Waiting, usize)>,
    texts: Vec<u8>,
    begin: usize,
}

impl WaitingReplies {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.replies.is_empty())
    }

    /// Bytes of the replies.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether some wait for another log than the first.
    pub(crate) fn is_in_several(&self) -> bool {
        self.queues.iter().filter(|queue| !queue.replies.is_empty()).count() > 1
    }

    /// Adds a reply with this text.
    pub(crate) fn push(&mut self, waiting: Waiting, text: &[u8]) {
        let is_of = |queue: &Queue| queue.log() == Some(waiting.log);
        let at = self.queues.iter().position(is_of);
        let at = at.or_else(|| self.queues.iter().position(|queue| queue.replies.is_empty()));
        let at = at.unwrap_or_else(|| {
            self.queues.push(Queue::default());
            self.queues.len() - 1
        });
        self.bytes += text.len();
        self.queues[at].push(waiting, text);
    }

    /// What the one waits for that must end first.
    pub(crate) fn front(&self) -> Option<Waiting> {
        self.queues.iter().filter_map(Queue::front).min_by_key(|waiting| waiting.due_ns)
    }

    /// Takes each reply out that may leave or must end, as `ends` says of what it waits for: with
    /// its text, or without where that may not leave.
    pub(crate) fn release(
        &mut self,
        ends: impl Fn(&Waiting) -> Option<bool>,
        mut leaves: impl FnMut((u64, u16), Option<&[u8]>),
    ) {
        for queue in &mut self.queues {
            while let Some(front) = queue.front()
                && let Some(has_passed) = ends(&front)
            {
                let text = queue.pop();
                self.bytes -= text.len();
                leaves(front.id, has_passed.then_some(text));
            }
            if queue.replies.is_empty() {
                queue.clear();
            }
        }
    }

    /// All that waits is of no use any more.
    pub(crate) fn clear(&mut self) {
        self.queues.clear();
        self.bytes = 0;
    }
}

impl Queue {
    fn log(&self) -> Option<LogId> {
        self.front().map(|waiting| waiting.log)
    }

    #[inline]
    fn front(&self) -> Option<Waiting> {
        self.replies.front().map(|(waiting, _)| *waiting)
    }

    fn push(&mut self, waiting: Waiting, text: &[u8]) {
        if self.begin > SENT_BYTES_MAX && self.begin > self.texts.len() / 2 {
            self.texts.drain(..self.begin);
            self.begin = 0;
        }
        self.texts.extend_from_slice(text);
        self.replies.push_back((waiting, text.len()));
    }

    /// Takes the first one. Returns its text.
    fn pop(&mut self) -> &[u8] {
        let bytes = self.replies.pop_front().map_or(0, |(_, bytes)| bytes);
        let begin = self.begin;
        self.begin += bytes;
        &self.texts[begin..self.begin]
    }

    /// Nothing waits.
    fn clear(&mut self) {
        self.texts.clear();
        self.texts.shrink_to(KEEP_BYTES);
        self.begin = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(log: u32, id: u64) -> Waiting {
        Waiting { log: LogId(log), seq: id, due_ns: id, id: (id, 0) }
    }

    fn text(id: u64) -> Vec<u8> {
        vec![id as u8; 3 * id as usize % 1000]
    }

    #[test]
    fn replies_come_out_as_they_went_in_however_many_were_sent() {
        let mut replies = WaitingReplies::default();
        let (mut sent, mut added) = (0, 0);
        for round in 0..400 {
            for _ in 0..=round * 7 % 60 {
                replies.push(waiting(1, added), &text(added));
                added += 1;
            }
            let up_to = (sent + round * 11 % 61).min(added);
            assert_eq!(replies.front().map(|front| front.seq), (sent < added).then_some(sent));
            replies.release(
                |it| (it.seq < up_to).then_some(true),
                |id, bytes| {
                    assert_eq!((id, bytes), ((sent, 0), Some(&text(sent)[..])));
                    sent += 1;
                },
            );
            assert_eq!(sent, up_to);
            assert!(replies.queues.len() == 1 && replies.queues[0].begin <= added as usize * 1000);
        }
        assert!(sent > 5000);
        let left: usize = (sent..added).map(|id| text(id).len()).sum();
        assert_eq!(replies.bytes(), left);
        replies.clear();
        assert!(replies.is_empty() && replies.front().is_none());
    }

    #[test]
    fn what_waits_for_one_log_does_not_hold_up_the_others() {
        let mut replies = WaitingReplies::default();
        for (log, id) in [(7, 1), (9, 2), (7, 3), (9, 4)] {
            replies.push(waiting(log, id), &text(id));
        }
        assert!(replies.is_in_several() && replies.front() == Some(waiting(7, 1)));
        let mut left = Vec::new();
        let ends = |it: &Waiting| (it.log == LogId(9)).then_some(it.seq == 2);
        replies.release(ends, |(id, _), text| left.push((id, text.is_some())));
        assert_eq!(left, [(2, true), (4, false)]);
        assert!(!replies.is_in_several() && replies.front() == Some(waiting(7, 1)));
        replies.push(waiting(5, 6), &text(6));
        assert_eq!(replies.queues.len(), 2, "an empty queue is used again");
    }
}
