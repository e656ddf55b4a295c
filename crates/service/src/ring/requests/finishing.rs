//! Replies of a worker on their way to whom they belong: those that wait for a log, and those of
//! which other parts are missing.

use super::gather::{Gather, PART_BYTES_FIRST, PartOf, What};
use super::watching::Watching;
use crate::ring::job::{GatedReply, Origin};
use base::{Grant, MemoryBudget, Owner};
use memcache::reply::OUT_OF_MEMORY_WRITING as NO_MEMORY;
use session::{Completions, ConnId, Order, Ticket};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// A part that came before its turn and is longer than this is replaced by an error where there is
/// no memory to keep it.
const HELD_BYTES_MAX: usize = 1 << 10;
/// With each shorter part, the longest of late counts as shorter by this fraction of itself.
const SHORTER_PART: usize = 64;
/// Memory for such parts is taken in steps of this size.
const HELD_STEP_BYTES: u64 = 64 << 10;

/// Replies of one worker on their way to whom they belong.
pub(crate) struct Finishing {
    pub(crate) gated: VecDeque<GatedReply>,
    gathers: BTreeMap<u64, Gather>,
    /// Those of which more parts may be begun.
    ready: VecDeque<u64>,
    /// Those of which no part is begun before a client has been sent what has left.
    stopped: HashMap<Ticket, u64>,
    /// Parts that were not begun.
    waiting: usize,
    /// Bytes of the longest part of late.
    longest: usize,
    /// Bytes of parts that have come before their turn, and memory for them.
    held: usize,
    grant: Option<Grant>,
    budget: Arc<MemoryBudget>,
    /// Bytes of replies that were composed so far.
    pub(crate) composed: u64,
    /// Those that go to clients of this worker in the present batch.
    completions: Completions,
    /// The memory of the last ones.
    spare: Completions,
    /// Delayed flushes that are proposed, by their numbers, and who waits for them.
    pub(crate) flushes: HashMap<u64, Option<Ticket>>,
    /// Who waits for a newer map.
    pub(crate) watching: Watching,
}

impl Finishing {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self {
            gated: VecDeque::new(),
            gathers: BTreeMap::new(),
            ready: VecDeque::new(),
            stopped: HashMap::new(),
            waiting: 0,
            longest: PART_BYTES_FIRST,
            held: 0,
            grant: None,
            budget,
            composed: 0,
            completions: Completions::default(),
            spare: Completions::default(),
            flushes: HashMap::new(),
            watching: Watching::default(),
        }
    }

    /// Whether some replies wait for a log.
    pub(crate) fn has_gated(&self) -> bool {
        !self.gated.is_empty()
    }

    /// A reply waits for a log.
    pub(crate) fn gate(&mut self, reply: GatedReply) {
        self.composed += reply.bytes.len() as u64;
        self.gated.push_back(reply);
    }

    /// The parts of request `number` are put together.
    pub(crate) fn gather(&mut self, number: u64, mut gather: Gather) {
        gather.expect(self.longest);
        self.waiting += gather.waiting();
        self.gathers.insert(number, gather);
    }

    /// Parts that were not begun.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether request `number` has parts that were not begun.
    pub(crate) fn has_waiting(&self, number: u64) -> bool {
        self.gathers.get(&number).is_some_and(|gather| gather.waiting() > 0)
    }

    /// Begins the next part of request `number`, if it may be begun now. Returns whose it is and
    /// what.
    pub(crate) fn begin_part(&mut self, number: u64) -> Option<(Origin, What, PartOf)> {
        let gather = self.gathers.get_mut(&number)?;
        let (index, what) = gather.begin()?;
        self.waiting -= 1;
        Some((Origin::Part { gather: number, index }, what, gather.part()))
    }

    /// A request of which more parts may be begun.
    pub(crate) fn next_ready(&mut self) -> Option<u64> {
        self.ready.pop_front()
    }

    /// More parts of request `number` may be begun a little later.
    pub(crate) fn is_ready(&mut self, number: u64) {
        self.ready.push_back(number);
    }

    /// The client has been sent what has left of the request of `ticket`, of which parts are
    /// missing.
    pub(crate) fn parts_sent(&mut self, ticket: Ticket) {
        let Some(number) = self.stopped.remove(&ticket) else { return };
        if let Some(gather) = self.gathers.get_mut(&number) {
            gather.sent();
            self.ready.push_back(number);
        }
    }

    /// The right to answer was lost while the batch ran: nothing leaves of what may have been
    /// composed in it. Its clients lose their connections; those for whom a reply goes back to
    /// another worker are returned.
    pub(crate) fn drop_all(&mut self, orders: &mut VecDeque<Order>) -> Vec<Origin> {
        let composed = self.completions.iter().map(|(ticket, ..)| Order::Close(ticket.conn));
        orders.extend(composed);
        self.completions.clear();
        let gathers = std::mem::take(&mut self.gathers).into_values();
        orders.extend(gathers.map(|gather| Order::Close(gather.ticket().conn)));
        (self.waiting, self.held, self.grant) = (0, 0, None);
        self.ready.clear();
        self.stopped.clear();
        let mut of_workers = Vec::new();
        for GatedReply { origin, .. } in self.gated.drain(..) {
            match origin {
                Origin::Client(ticket) => orders.push_back(Order::Close(ticket.conn)),
                Origin::Worker { .. } => of_workers.push(origin),
                Origin::Part { .. } | Origin::Nobody => {}
            }
        }
        of_workers
    }

    /// Nobody waits any more for what `conn` has asked for in several parts.
    pub(crate) fn closed(&mut self, conn: ConnId) {
        self.forget_those(|ticket| ticket.conn == conn);
        self.watching.closed(conn);
    }

    /// Nobody waits any more for the request of `ticket`, if it was one in several parts.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        self.forget_those(|it| it == ticket);
    }

    fn forget_those(&mut self, is_one: impl Fn(Ticket) -> bool) {
        let is_of = |_: &u64, gather: &mut Gather| is_one(gather.ticket());
        for (_, gather) in self.gathers.extract_if(.., is_of) {
            self.stopped.remove(&gather.ticket());
            self.waiting -= gather.waiting();
            self.held -= gather.held();
        }
    }

    /// The reply to a request goes to whom it belongs.
    #[inline]
    pub(crate) fn finish(&mut self, origin: Origin, bytes: &[u8]) {
        self.composed += bytes.len() as u64;
        match origin {
            // Its reply is mail.
            Origin::Nobody | Origin::Worker { .. } => {}
            Origin::Client(ticket) => self.completions.push(ticket, bytes, true),
            Origin::Part { gather, index } => self.finish_part((gather, index), bytes),
        }
    }

    /// Takes memory for a part of `bytes` bytes, if it comes before its turn. The error is the
    /// number of bytes that were refused.
    pub(crate) fn reserve(
        &mut self,
        (number, part): (u64, usize),
        bytes: usize,
    ) -> Result<(), u64> {
        let is_next = self.gathers.get(&number).is_none_or(|gather| gather.is_next(part));
        let (grant, all) = (&mut self.grant, (self.held + bytes) as u64);
        let is_kept = bytes <= HELD_BYTES_MAX
            || is_next
            || self.budget.cover(grant, Owner::Connections, all, HELD_STEP_BYTES);
        if is_kept { Ok(()) } else { Err((bytes as u64).next_multiple_of(HELD_STEP_BYTES)) }
    }

    fn finish_part(&mut self, (number, part): (u64, usize), bytes: &[u8]) {
        let is_kept = self.reserve((number, part), bytes.len()).is_ok();
        let Some(gather) = self.gathers.get_mut(&number) else { return };
        let (waiting, held) = (gather.waiting(), gather.held());
        // What is longer than before counts at once, what is shorter little by little.
        self.longest = bytes.len().max(self.longest - self.longest / SHORTER_PART);
        let leaving = gather.take(part, if is_kept { bytes } else { NO_MEMORY }.to_vec());
        self.waiting = self.waiting - waiting + gather.waiting();
        self.held = self.held - held + gather.held();
        if gather.may_begin() && self.ready.back() != Some(&number) {
            self.ready.push_back(number);
        }
        if gather.waits_for_client() {
            self.stopped.insert(gather.ticket(), number);
        }
        if self.held == 0 {
            self.grant = None;
        }
        let Some(leaving) = leaving else { return };
        if leaving.last {
            self.gathers.remove(&number);
        }
        self.completions.push(leaving.ticket, &leaving.bytes, leaving.last);
    }

    /// The replies that go to clients of this worker, as an order.
    pub(crate) fn take_completions(&mut self) -> Option<Order> {
        if self.completions.is_empty() {
            return None;
        }
        let next = std::mem::take(&mut self.spare);
        Some(Order::Complete(std::mem::replace(&mut self.completions, next)))
    }

    /// The order was carried out.
    pub(crate) fn take_back(&mut self, mut completions: Completions) {
        completions.clear();
        self.spare = completions;
    }
}

#[cfg(test)]
mod tests {
    use super::super::gather::{AHEAD_FIRST, Asks};
    use super::*;
    use crate::ring::job::Repeat;
    use base::SliceId;
    use session::WorkerId;

    const END: &[u8] = b"END\r\n";
    const PARTS: PartOf = PartOf { repeat: Repeat::Always, conn: None };

    fn ticket(request: u32) -> Ticket {
        let conn = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
        Ticket { conn, request }
    }

    /// Adds a request in 1,000 parts. Returns those of its parts that are begun.
    fn gather(finishing: &mut Finishing, number: u64) -> Vec<Origin> {
        let parts = (0..1_000).map(|_| (Vec::new(), SliceId::of(b"k")));
        let ticket = ticket(number as u32);
        finishing.gather(number, Gather::new(ticket, Asks::Values, PARTS, parts));
        begin(finishing, number)
    }

    fn begin(finishing: &mut Finishing, number: u64) -> Vec<Origin> {
        std::iter::from_fn(|| finishing.begin_part(number).map(|(origin, ..)| origin)).collect()
    }

    #[test]
    fn as_many_parts_are_begun_as_have_room_if_they_are_as_long_as_those_of_late() {
        let mut finishing = Finishing::new(MemoryBudget::new(64 << 20));
        let first = gather(&mut finishing, 1);
        assert_eq!(first.len(), (256 << 10) / PART_BYTES_FIRST, "nothing is known");
        let long = [vec![b'v'; 100 << 10], END.to_vec()].concat();
        first.iter().for_each(|part| finishing.finish(*part, &long));
        assert_eq!(gather(&mut finishing, 2).len(), 2);
        finishing.closed(ticket(1).conn);
        for number in 3..600 {
            let parts = gather(&mut finishing, number);
            finishing.finish(parts[0], END);
            finishing.forget(ticket(number as u32));
        }
        assert_eq!(gather(&mut finishing, 600).len(), AHEAD_FIRST);
    }

    #[test]
    fn nothing_is_left_of_a_request_that_nobody_waits_for_any_more() {
        let mut finishing = Finishing::new(MemoryBudget::new(64 << 20));
        let long = [vec![b'v'; 300 << 10], END.to_vec()].concat();
        let first = gather(&mut finishing, 1);
        finishing.finish(first[0], &long);
        finishing.finish(first[2], &long);
        assert!(!finishing.stopped.is_empty() && finishing.held > 0, "it waits for its client");
        finishing.forget(ticket(1));
        assert!(finishing.stopped.is_empty() && finishing.gathers.is_empty());
        assert_eq!((finishing.waiting(), finishing.held), (0, 0));
        let next = gather(&mut finishing, 2);
        finishing.parts_sent(ticket(1));
        assert_eq!(finishing.next_ready(), None, "that is another request");
        finishing.finish(first[1], &long);
        finishing.finish(next[0], &long);
        finishing.parts_sent(ticket(2));
        assert_eq!(finishing.next_ready(), Some(2));
    }
}
