//! Replies that may not leave yet, in the order of their requests.
//!
//! ```text
//! front -> [ waits for a gate ][ ready ][ waits for its ticket ][ ready ] <- newest request
//! ```
//!
//! The queue exists only while its front waits for something; every other entry waits for the front
//! as well. Neighbours that are ready are one entry. A gate is asked when it comes to the front, so
//! no order between logs is assumed.
//!
//! Invariants: `bytes` is the sum of all charges. Requests are in rising order, wrapping.

use std::collections::VecDeque;

use base::{Grant, Owner};

use crate::bounds::{Resources, TAIL_FREE_BYTES};
use crate::handler::{LogId, Passed};
use crate::reply::Reply;

/// What an entry waits for besides its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    Gate { log: LogId, seq: u64 },
    Ticket,
}

struct Entry {
    request: u32,
    wait: Wait,
    reply: Reply,
    /// Bytes it counts for: its reply and the request it answers.
    charge: usize,
}

/// A gate whose passing can never be known.
#[derive(Debug)]
pub(super) struct InDoubt;

/// The queue of one connection.
#[derive(Default)]
pub(super) struct Pending {
    entries: VecDeque<Entry>,
    bytes: usize,
    grant: Option<Grant>,
}

impl Pending {
    /// Appends the reply of `request`, which was `request_bytes` long.
    pub(super) fn push(&mut self, request: u32, wait: Wait, reply: Reply, request_bytes: usize) {
        let charge = reply.len() + request_bytes;
        self.bytes += charge;
        match self.entries.back_mut() {
            Some(last) if last.wait == Wait::Nothing && wait == Wait::Nothing => {
                last.reply.append(reply);
                last.charge += charge;
            }
            _ => self.entries.push_back(Entry { request, wait, reply, charge }),
        }
    }

    /// The rest of the reply to `request`; `false` when it does not wait for one.
    pub(super) fn complete(&mut self, request: u32, bytes: &[u8]) -> bool {
        let Some(first) = self.entries.front().map(|entry| entry.request) else { return false };
        let age = |entry: &Entry| entry.request.wrapping_sub(first);
        let sought = request.wrapping_sub(first);
        let Ok(place) = self.entries.binary_search_by_key(&sought, age) else { return false };
        let entry = &mut self.entries[place];
        if entry.wait != Wait::Ticket {
            return false;
        }
        entry.wait = Wait::Nothing;
        entry.reply.bytes_mut().extend_from_slice(bytes);
        entry.charge += bytes.len();
        self.bytes += bytes.len();
        true
    }

    /// Moves to `out` every reply that may leave.
    pub(super) fn release(
        &mut self,
        gate: impl Fn(LogId, u64) -> Passed,
        out: &mut Reply,
    ) -> Result<(), InDoubt> {
        while let Some(front) = self.entries.front() {
            let passed = match front.wait {
                Wait::Nothing => Passed::Yes,
                Wait::Ticket => Passed::No,
                Wait::Gate { log, seq } => gate(log, seq),
            };
            match passed {
                Passed::No => break,
                Passed::InDoubt => return Err(InDoubt),
                Passed::Yes => {
                    let front = self.entries.pop_front().expect("the loop has seen it");
                    self.bytes -= front.charge;
                    out.append(front.reply);
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether further requests must stay unread. Beyond what every connection may hold, it takes a
    /// grant from the budget; without a grant it may hold no more than that.
    pub(super) fn is_full(&mut self, resources: &Resources) -> bool {
        let bounds = &resources.bounds;
        if self.bytes > TAIL_FREE_BYTES && self.grant.is_none() {
            let bytes = bounds.pending_bytes_max as u64;
            self.grant = resources.budget.take(Owner::Connections, bytes);
        }
        let bytes_max =
            if self.grant.is_some() { bounds.pending_bytes_max } else { TAIL_FREE_BYTES };
        self.entries.len() >= bounds.pending_max || self.bytes >= bytes_max
    }
}

#[cfg(test)]
mod tests {
    use base::MemoryBudget;

    use super::*;
    use crate::bounds::Bounds;

    fn reply(text: &str) -> Reply {
        let mut reply = Reply::new();
        reply.bytes_mut().extend(text.bytes());
        reply
    }

    fn text(reply: &Reply) -> String {
        String::from_utf8(reply.plain(reply.whole()).expect("nothing was lent").to_vec())
            .expect("the tests write text")
    }

    #[test]
    fn replies_leave_in_the_order_of_requests() {
        let log = LogId(7);
        // Numbers wrap in the middle of the queue.
        let first = u32::MAX - 1;
        let mut pending = Pending::default();
        pending.push(first, Wait::Ticket, reply("a"), 1);
        pending.push(first.wrapping_add(1), Wait::Nothing, reply("b"), 1);
        pending.push(first.wrapping_add(2), Wait::Nothing, reply("c"), 1);
        pending.push(first.wrapping_add(3), Wait::Gate { log, seq: 5 }, reply("d"), 1);
        pending.push(first.wrapping_add(4), Wait::Ticket, reply(""), 1);
        let mut out = Reply::new();
        let not_yet = |_: LogId, _: u64| Passed::No;
        assert!(pending.complete(first.wrapping_add(4), b"e"));
        assert!(!pending.complete(first.wrapping_add(4), b"again"), "completed once only");
        assert!(!pending.complete(first.wrapping_add(1), b"x"), "does not wait");
        assert!(!pending.complete(first.wrapping_add(9), b"x"), "no such request");
        pending.release(not_yet, &mut out).expect("no doubt");
        assert_eq!(text(&out), "");
        assert!(pending.complete(first, b"A"));
        pending.release(not_yet, &mut out).expect("no doubt");
        assert_eq!(text(&out), "aAbc");
        pending
            .release(
                |of, seq| if of == log && seq <= 5 { Passed::Yes } else { Passed::No },
                &mut out,
            )
            .expect("no doubt");
        assert_eq!(text(&out), "aAbcde");
        assert!(pending.is_empty());
        assert_eq!(pending.bytes, 0);
    }

    #[test]
    fn doubt_ends_it() {
        let mut pending = Pending::default();
        pending.push(1, Wait::Gate { log: LogId(1), seq: 1 }, reply("a"), 1);
        let mut out = Reply::new();
        assert!(pending.release(|_, _| Passed::InDoubt, &mut out).is_err());
        assert!(out.is_empty());
    }

    #[test]
    fn fullness_by_count_by_bytes_and_by_budget() {
        struct Case {
            total: u64,
            requests: u32,
            bytes_each: usize,
            full: bool,
        }
        let cases = [
            Case { total: 1 << 20, requests: 3, bytes_each: 1, full: false },
            Case { total: 1 << 20, requests: 4, bytes_each: 1, full: true },
            Case { total: 1 << 20, requests: 1, bytes_each: 60_000, full: false },
            Case { total: 1 << 20, requests: 1, bytes_each: 65_536, full: true },
            Case { total: 0, requests: 1, bytes_each: TAIL_FREE_BYTES - 1, full: false },
            Case { total: 0, requests: 1, bytes_each: TAIL_FREE_BYTES + 1, full: true },
        ];
        for Case { total, requests, bytes_each, full } in cases {
            let budget = MemoryBudget::new(total);
            let bounds = Bounds { pending_max: 4, pending_bytes_max: 1 << 16, ..Bounds::default() };
            let resources = Resources { bounds, budget: budget.clone() };
            let mut pending = Pending::default();
            for request in 0..requests {
                pending.push(request, Wait::Ticket, Reply::new(), bytes_each);
            }
            assert_eq!(pending.is_full(&resources), full, "{requests} of {bytes_each} in {total}");
            drop(pending);
            assert_eq!(budget.used_total(), 0);
        }
    }
}
