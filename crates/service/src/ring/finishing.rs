//! Replies of a worker on their way to whom they belong: those that wait for a log, and those of
//! which other parts are missing.

use super::job::{GatedReply, Gather, Origin};
use session::{Order, Ticket};
use std::collections::{HashMap, VecDeque};

/// Replies of one worker on their way to whom they belong.
#[derive(Default)]
pub(crate) struct Finishing {
    pub(super) gated: VecDeque<GatedReply>,
    gathers: HashMap<u64, Gather>,
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
        for order in orders.iter_mut() {
            if let Order::Complete { ticket, .. } = order {
                *order = Order::Close(ticket.conn);
            }
        }
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
    pub(super) fn finish(&mut self, origin: Origin, bytes: Vec<u8>, orders: &mut VecDeque<Order>) {
        match origin {
            // Its reply is mail.
            Origin::Nobody | Origin::Worker { .. } => {}
            Origin::Client(ticket) => {
                orders.push_back(Order::Complete { ticket, bytes, last: true });
            }
            Origin::Part { gather, index } => {
                let Some(of) = self.gathers.get_mut(&gather) else { return };
                let Some(leaving) = of.take(index, bytes) else { return };
                if leaving.last {
                    self.gathers.remove(&gather);
                }
                let (ticket, bytes, last) = (leaving.ticket, leaving.bytes, leaving.last);
                orders.push_back(Order::Complete { ticket, bytes, last });
            }
        }
    }
}
