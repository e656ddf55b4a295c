//! Replies of a worker on their way to whom they belong: those that wait for a log, and those of
//! which other parts are missing.

use super::job::{GatedReply, Gather, Origin};
use session::{Completions, Order, Ticket};
use std::collections::{HashMap, VecDeque};

/// Replies of one worker on their way to whom they belong.
#[derive(Default)]
pub(crate) struct Finishing {
    pub(super) gated: VecDeque<GatedReply>,
    gathers: HashMap<u64, Gather>,
    /// Those that go to clients of this worker in the present batch.
    completions: Completions,
    /// The memory of the last ones.
    spare: Completions,
    /// Delayed flushes that are proposed, by their numbers, and who waits for them.
    pub(super) flushes: HashMap<u64, Option<Ticket>>,
}

impl Finishing {
    /// Whether some replies wait for a log.
    pub(super) fn has_gated(&self) -> bool {
        !self.gated.is_empty()
    }

    /// The parts of request `number` are put together.
    pub(super) fn gather(&mut self, number: u64, gather: Gather) {
        self.gathers.insert(number, gather);
    }

    /// The right to answer was lost while the batch ran: nothing leaves of what may have been
    /// composed in it. Its clients lose their connections; those for whom a reply goes back to
    /// another worker are returned.
    pub(super) fn drop_all(&mut self, orders: &mut VecDeque<Order>) -> Vec<Origin> {
        let composed = self.completions.iter().map(|(ticket, ..)| Order::Close(ticket.conn));
        orders.extend(composed);
        self.completions.clear();
        orders.extend(self.gathers.drain().map(|(_, gather)| Order::Close(gather.ticket().conn)));
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

    /// The reply to a request goes to whom it belongs.
    #[inline]
    pub(super) fn finish(&mut self, origin: Origin, bytes: &[u8]) {
        match origin {
            // Its reply is mail.
            Origin::Nobody | Origin::Worker { .. } => {}
            Origin::Client(ticket) => self.completions.push(ticket, bytes, true),
            Origin::Part { gather, index } => self.finish_part((gather, index), bytes.to_vec()),
        }
    }

    fn finish_part(&mut self, (gather, index): (u64, usize), bytes: Vec<u8>) {
        let Some(of) = self.gathers.get_mut(&gather) else { return };
        let Some(leaving) = of.take(index, bytes) else { return };
        if leaving.last {
            self.gathers.remove(&gather);
        }
        self.completions.push(leaving.ticket, &leaving.bytes, leaving.last);
    }

    /// The replies that go to clients of this worker, as an order.
    pub(super) fn take_completions(&mut self) -> Option<Order> {
        if self.completions.is_empty() {
            return None;
        }
        let next = std::mem::take(&mut self.spare);
        Some(Order::Complete(std::mem::replace(&mut self.completions, next)))
    }

    /// The order was carried out.
    pub(super) fn take_back(&mut self, mut completions: Completions) {
        completions.clear();
        self.spare = completions;
    }
}
