//! Replies of the present batch that stand in the output and wait for a gate.
//!
//! ```text
//! out  [ reply of a | reply of b, reply of b | reply of c | ... ]     the output of one batch
//!                     ^ waits for a gate       ^ waits for a gate
//! ```
//!
//! Most gates that pass soon pass by the end of the batch. So replies stay where they are until
//! then, and the gates are asked once. What has not passed is moved to the queue of its connection,
//! with all that stands after it for that connection.
//!
//! Invariant: the places rise, and none is after the end of the output.

use super::entry::{Entry, Executed, Wait};
use super::queue::Pending;
use crate::handler::{Handler, Passed};
use crate::ids::ConnId;
use crate::reply::{Mark, Reply, Span};

/// Replies of one connection, one after the other, that wait for the same.
pub(crate) struct Replies {
    pub(crate) conn: ConnId,
    /// Where they begin in the output, and end.
    at: Mark,
    end: Mark,
    /// The length of the output there.
    pub(crate) len_at: usize,
    wait: Wait,
    /// The number of their requests.
    request: u32,
    /// How many replies and requests they are.
    replies: u32,
    /// Bytes of their requests.
    request_bytes: usize,
}

impl Replies {
    /// Whether their gate has passed.
    fn has_passed<H: Handler>(&self, handler: &H) -> bool {
        match self.wait {
            Wait::Gate { log, seq } => handler.gate(log, seq) == Passed::Yes,
            Wait::Nothing | Wait::Ticket => true,
        }
    }
}

/// All replies of a batch that are held in its output.
#[derive(Default)]
pub(crate) struct Held(Vec<Replies>);

impl Held {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last of them.
    #[inline]
    pub(crate) fn last(&self) -> Option<&Replies> {
        self.0.last()
    }

    /// Holds the reply of `conn` that was appended to `out` since `at`.
    pub(crate) fn push(&mut self, conn: ConnId, executed: &Executed, out: &Reply, at: Mark) {
        let Executed { request, request_bytes, wait, .. } = *executed;
        let len_at = out.len() - out.len_since(at);
        let end = out.mark();
        self.0.push(Replies { conn, at, end, len_at, wait, request, replies: 1, request_bytes });
    }

    /// Holds one more reply with the last one, if both wait for gates of one log.
    #[inline(always)]
    pub(crate) fn join(&mut self, wait: Wait, request_bytes: usize, out: &Reply) -> bool {
        if let Wait::Gate { log: own, seq: later } = wait
            && let Some(last) = self.0.last_mut()
            && let Wait::Gate { log, seq } = &mut last.wait
            && *log == own
        {
            *seq = later.max(*seq);
            last.end = out.mark();
            last.replies += 1;
            last.request_bytes += request_bytes;
            return true;
        }
        false
    }

    /// Holds one more reply of the connection and of the run that the last one is of.
    pub(crate) fn push_next(&mut self, executed: &Executed, out: &Reply, at: Mark) {
        let Some(last) = self.0.last_mut() else { return };
        if (last.wait, executed.wait) != (Wait::Nothing, Wait::Nothing) {
            let conn = last.conn;
            return self.push(conn, executed, out, at);
        }
        last.end = out.mark();
        last.replies += 1;
        last.request_bytes += executed.request_bytes;
    }

    /// Whether all gates have passed.
    pub(crate) fn has_passed<H: Handler>(&self, handler: &H) -> bool {
        self.0.iter().all(|held| held.has_passed(handler))
    }

    /// Forgets them: they have left, or wait elsewhere.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets those from `mark` on, where the output is cut.
    pub(crate) fn cut(&mut self, mark: Mark) {
        self.0.truncate(self.0.partition_point(|held| held.at < mark));
    }

    /// What may leave of `span`, which is of one connection.
    pub(crate) fn leaving<H: Handler>(&self, span: Span, handler: &H) -> Span {
        let held = self.within(span).find(|held| !held.has_passed(handler));
        held.map_or(span, |held| span.cut_at(held.at).0)
    }

    /// Moves `span`, which is of one connection, from `out` to the front of its queue, behind what
    /// was moved there before.
    pub(crate) fn queue(&self, span: Span, out: &mut Reply, pending: &mut Pending, due_ns: u64) {
        let (mut held, mut rest) = (self.within(span).peekable(), span);
        while !rest.is_empty() {
            let (entry, end) = match held.next_if(|held| held.at == rest.begin()) {
                Some(replies) => (replies.entry(due_ns), replies.end),
                None => {
                    let end = held.peek().map_or(rest.finish(), |next| next.at);
                    (Entry::new(Executed::ready(due_ns), Reply::new()), end)
                }
            };
            let (piece, after) = rest.cut_at(end);
            pending.insert(entry, piece, out);
            rest = after;
        }
    }

    fn within(&self, span: Span) -> impl Iterator<Item = &Replies> {
        let first = self.0.partition_point(|held| held.at < span.begin());
        self.0[first..].iter().take_while(move |held| held.at < span.finish())
    }
}

impl Replies {
    /// An entry for them, without their bytes.
    fn entry(&self, due_ns: u64) -> Entry {
        let executed = Executed {
            request: self.request,
            request_bytes: self.request_bytes,
            wait: self.wait,
            due_ns,
            begun: false,
        };
        let mut entry = Entry::new(executed, Reply::new());
        entry.replies = self.replies;
        entry.requests = if self.wait == Wait::Nothing { 0 } else { self.replies as usize };
        entry.charge = self.request_bytes;
        entry
    }
}
