//! Replies that may not leave yet, in the order of their requests.
//!
//! ```text
//! front -> [ waits for a gate ][ ready ][ waits for its ticket ][ ready ] <- newest request
//! ```
//!
//! The queue exists only while its front waits for something; every other entry waits for the front
//! as well. Neighbours that are ready are one entry. Neighbours that wait for gates of one log, and
//! were executed in one run, are one entry too, at the highest of their positions. A gate is asked
//! when it comes to the front, so no order between logs is assumed.
//!
//! A reply that comes in parts leaves in parts while it is at the front. Every entry that waits has
//! a deadline. The front has the earliest, because it was executed first.
//!
//! Invariants: `bytes` and `requests` are the sums over all entries. The numbers of requests rise
//! from entry to entry, wrapping.

use std::collections::VecDeque;

use base::{Grant, Now, Owner};
use memcache::reply::OUT_OF_MEMORY_WRITING as NO_MEMORY;

use super::entry::{Entry, Executed, Wait};
use crate::bounds::{
    KEPT_BYTES_MAX, KEPT_STEP_BYTES, REPLY_BYTES_MIN, Resources, SPARE_ENTRIES_MAX,
    SPARE_REPLIES_MAX, SPARE_REPLY_BYTES_MAX, TAIL_FREE_BYTES, TICKETS_FIRST,
};
use crate::handler::{Handler, Passed, Waited};
use crate::ids::ConnId;
use crate::reply::{Mark, Reply, Span};

/// How a connection ends whose replies cannot be given any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// At once: whether a gate has passed can never be known.
    Drop,
    /// After its output: part of a reply has left, and its rest did not come in time.
    Close,
}

/// The queue of one connection.
#[derive(Default)]
pub(crate) struct Pending {
    entries: VecDeque<Entry>,
    /// Empty buffers, for the entries that come next.
    spares: Vec<Reply>,
    requests: usize,
    bytes: usize,
    /// The last entry was added in the present run, so that further gates may join it.
    open: bool,
    /// Entries at the front that were moved from the output of the present batch.
    ahead: usize,
    grant: Option<Grant>,
    /// Entries that wait for their tickets.
    tickets: usize,
    /// Bytes of the longest reply that has come by its ticket; 0 before the first.
    longest: usize,
    /// Bytes of the longest reply of late on this connection; 0: none is known.
    expected: usize,
    /// The request after which nothing is executed before its reply is complete.
    alone: Option<u32>,
    /// For replies that came before their turn, beyond `grant`.
    kept: Option<Grant>,
}

impl Pending {
    /// Moves what was appended to `out` since `mark` to the end of the queue: the reply of a
    /// request that was executed.
    pub(crate) fn push(&mut self, executed: Executed, out: &mut Reply, mark: Mark) {
        let reply_bytes = out.len_since(mark);
        let joined = match (self.entries.back().map(|last| last.wait), executed.wait) {
            (Some(Wait::Nothing), Wait::Nothing) => Some(Wait::Nothing),
            (Some(Wait::Gate { log, seq }), Wait::Gate { log: own, seq: later })
                if self.open && log == own && !executed.begun =>
            {
                Some(Wait::Gate { log, seq: seq.max(later) })
            }
            _ => None,
        };
        if joined.is_none() {
            let reply = self.spares.pop().unwrap_or_default();
            self.entries.push_back(Entry::new(executed, reply));
        }
        self.open = true;
        let last = self.entries.back_mut().expect("one was added or is joined");
        last.wait = joined.unwrap_or(executed.wait);
        if joined != Some(Wait::Nothing) {
            last.requests += 1;
            self.requests += 1;
        }
        last.replies += u32::from(reply_bytes > 0 || executed.wait == Wait::Ticket);
        last.charge += reply_bytes + executed.request_bytes;
        self.bytes += reply_bytes + executed.request_bytes;
        self.tickets += usize::from(executed.wait == Wait::Ticket);
        out.move_since(mark, &mut last.reply);
    }

    /// The replies of late had that many bytes at most; 0: nothing is known of them.
    pub(super) fn expect(&mut self, longest: usize) {
        self.expected = longest;
    }

    /// Bytes of the longest reply that has come by its ticket; 0 before the first.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Nothing that follows the last request is executed before its reply is complete.
    pub(crate) fn is_alone(&mut self) {
        self.alone = self.entries.back().map(|last| last.request);
    }

    /// The request at the front, if nothing that follows it is executed before its reply is
    /// complete.
    pub(crate) fn first_alone(&self) -> Option<u32> {
        let first = self.entries.front()?.request;
        self.alone.filter(|alone| *alone == first)
    }

    /// What the front waits for has until `due_ns`.
    pub(crate) fn extend_first(&mut self, due_ns: u64) {
        if let Some(front) = self.entries.front_mut() {
            front.due_ns = due_ns;
        }
    }

    /// A run begins: its gates do not join those of an earlier one, so that no reply waits for a
    /// position that its client makes higher and higher.
    pub(crate) fn begin_run(&mut self) {
        (self.open, self.ahead) = (false, 0);
    }

    /// Adds replies of the present batch that were held in its output, before those that are queued
    /// already, which are to later requests.
    pub(super) fn insert(&mut self, mut entry: Entry, span: Span, out: &mut Reply) {
        entry.reply = self.spares.pop().unwrap_or_default();
        out.move_span(span, &mut entry.reply);
        entry.charge += entry.reply.len();
        self.bytes += entry.charge;
        self.requests += entry.requests;
        if entry.wait == Wait::Nothing
            && let Some(before) = self.ahead.checked_sub(1)
        {
            entry.request = self.entries[before].request;
        }
        self.entries.insert(self.ahead, entry);
        self.ahead += 1;
    }

    /// Whether replies of the present batch were moved from its output.
    pub(crate) fn has_ahead(&self) -> bool {
        self.ahead > 0
    }

    /// A part of the reply to `request`, its last one or not; `false` when it does not wait for
    /// one. The next part must come by `due_ns`.
    pub(crate) fn complete(
        &mut self,
        request: u32,
        (bytes, last): (&[u8], bool),
        due_ns: u64,
        resources: &Resources,
    ) -> bool {
        let Some(place) = self.place_of(request) else { return false };
        if self.entries[place].wait != Wait::Ticket {
            return false;
        }
        let is_kept = place == 0 || bytes.len() <= KEPT_BYTES_MAX;
        if !is_kept && !self.has_memory_for(bytes.len(), resources) {
            self.refuse(place);
            return true;
        }
        let entry = &mut self.entries[place];
        (entry.arrived, entry.due_ns) = (true, due_ns);
        entry.reply.bytes_mut().extend_from_slice(bytes);
        entry.charge += bytes.len();
        self.bytes += bytes.len();
        self.longest = self.longest.max(bytes.len());
        if last {
            self.ends_ticket(place);
        }
        true
    }

    /// The reply at `place` has come, or does not come any more.
    fn ends_ticket(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        entry.wait = Wait::Nothing;
        self.tickets -= 1;
        self.alone = self.alone.filter(|alone| *alone != entry.request);
    }

    /// Takes memory for a part of `bytes` bytes of the reply to `request`, if it comes before its
    /// turn. The error is the number of bytes that were refused.
    pub(crate) fn reserve(
        &mut self,
        request: u32,
        bytes: usize,
        resources: &Resources,
    ) -> Result<(), u64> {
        let is_first = self.place_of(request).is_none_or(|place| place == 0);
        let has_memory = is_first || self.has_memory_for(bytes, resources);
        if has_memory { Ok(()) } else { Err((bytes as u64).next_multiple_of(KEPT_STEP_BYTES)) }
    }

    /// Whether a reply of `bytes` bytes may be kept until its turn.
    fn has_memory_for(&mut self, bytes: usize, resources: &Resources) -> bool {
        let has = TAIL_FREE_BYTES as u64 + self.grant.as_ref().map_or(0, Grant::bytes);
        let lacks = ((self.bytes + bytes) as u64).saturating_sub(has);
        let budget = &resources.budget;
        budget.cover(&mut self.kept, Owner::Connections, lacks, KEPT_STEP_BYTES)
    }

    /// Replaces the reply at `place`, which came before its turn, by an error.
    #[cold]
    fn refuse(&mut self, place: usize) {
        self.ends_ticket(place);
        let entry = &mut self.entries[place];
        let bytes = entry.reply.len();
        entry.reply.clear(usize::MAX);
        entry.reply.bytes_mut().extend_from_slice(NO_MEMORY);
        entry.charge = entry.charge - bytes + NO_MEMORY.len();
        self.bytes = self.bytes - bytes + NO_MEMORY.len();
    }

    /// The entry of `request`. Where no entries were joined, its number says the place.
    fn place_of(&self, request: u32) -> Option<usize> {
        let first = self.entries.front()?.request;
        let sought = request.wrapping_sub(first);
        let guess = sought as usize;
        if self.entries.get(guess).is_some_and(|entry| entry.request == request) {
            return Some(guess);
        }
        let age = |entry: &Entry| entry.request.wrapping_sub(first);
        self.entries.binary_search_by_key(&sought, age).ok()
    }

    /// Moves to `out` every reply that may leave, and ends those whose deadline has passed.
    pub(crate) fn release<H: Handler>(
        &mut self,
        conn: ConnId,
        handler: &mut H,
        now: Now,
        out: &mut Reply,
    ) -> Result<(), Ended> {
        self.ahead = 0;
        while let Some(front) = self.entries.front_mut() {
            let passed = match front.wait {
                Wait::Nothing => Passed::Yes,
                Wait::Ticket => Passed::No,
                Wait::Gate { log, seq } => handler.gate(log, seq),
            };
            match (passed, front.waited(conn)) {
                (Passed::Yes, _) | (Passed::No, None) => {}
                (Passed::InDoubt, _) => return Err(Ended::Drop),
                (Passed::No, Some(_)) if now.mono_ns < front.due_ns => {
                    self.release_parts(out);
                    break;
                }
                (Passed::No, Some(_)) if front.begun || front.arrived => return Err(Ended::Close),
                (Passed::No, Some(waited)) => {
                    let charged = front.reply.len();
                    front.end_overdue(handler, now, waited);
                    self.bytes = self.bytes - charged + front.reply.len();
                    front.charge = front.charge - charged + front.reply.len();
                    if matches!(waited, Waited::Ticket(_)) {
                        self.ends_ticket(0);
                    }
                }
            }
            let mut front = self.entries.pop_front().expect("the loop has seen it");
            self.bytes -= front.charge;
            self.requests -= front.requests;
            out.append_from(&mut front.reply);
            self.spare(front.reply);
        }
        if self.bytes <= TAIL_FREE_BYTES {
            self.kept = None;
        }
        Ok(())
    }

    /// Moves to `out` what has come of a reply at the front that comes in parts.
    fn release_parts(&mut self, out: &mut Reply) {
        let Some(front) = self.entries.front_mut().filter(|front| front.arrived) else { return };
        front.begun = true;
        front.charge -= front.reply.len();
        self.bytes -= front.reply.len();
        out.append_from(&mut front.reply);
    }

    /// Keeps the buffer of an entry that has left.
    fn spare(&mut self, mut reply: Reply) {
        if self.spares.len() < SPARE_REPLIES_MAX {
            reply.trim(SPARE_REPLY_BYTES_MAX);
            self.spares.push(reply);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the front waits for, and its deadline.
    pub(crate) fn front(&self, conn: ConnId) -> Option<(Waited, u64)> {
        let front = self.entries.front()?;
        Some((front.waited(conn)?, front.due_ns))
    }

    /// Whether any entry waits for its ticket.
    pub(crate) fn has_ticket(&self) -> bool {
        self.entries.iter().any(|entry| entry.wait == Wait::Ticket)
    }

    /// Whether further requests must stay unread. Beyond what every connection may hold, it takes a
    /// grant from the budget; without a grant it may hold no more than that.
    pub(crate) fn is_full(&mut self, resources: &Resources) -> bool {
        let bounds = &resources.bounds;
        if self.bytes > TAIL_FREE_BYTES && self.grant.is_none() {
            let bytes = bounds.pending_bytes_max as u64;
            self.grant = resources.budget.take(Owner::Connections, bytes);
        }
        let bytes_max =
            if self.grant.is_some() { bounds.pending_bytes_max } else { TAIL_FREE_BYTES };
        let tickets_max = match self.longest.max(self.expected) {
            0 => TICKETS_FIRST,
            longest => bounds.pending_bytes_max / longest.max(REPLY_BYTES_MIN),
        };
        self.requests >= bounds.pending_max
            || self.bytes >= bytes_max
            || self.tickets >= tickets_max.max(1)
            || self.alone.is_some()
    }

    /// Makes it a spare queue: without entries, without a grant, of bounded memory.
    pub(super) fn reset(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(SPARE_ENTRIES_MAX);
        (self.requests, self.bytes, self.ahead) = (0, 0, 0);
        (self.tickets, self.longest, self.expected, self.alone) = (0, 0, 0, None);
        (self.grant, self.kept) = (None, None);
    }

    /// Memory that it owns, its own place included.
    pub(super) fn heap_bytes(&self) -> usize {
        let spares: usize = self.spares.iter().map(Reply::heap_bytes).sum();
        size_of::<Self>()
            + self.entries.capacity() * size_of::<Entry>()
            + self.spares.capacity() * size_of::<Reply>()
            + spares
    }
}

#[cfg(test)]
#[path = "queue_test.rs"]
mod tests;
