//! What a thread may still request, and what it has counted.
//!
//! ```text
//! Issuing --- time or quota up, or stopped ---> Draining --- all answered, or no patience ---> end
//! ```
//!
//! Shared by the closed loop (`worker`) and the open loop (`open_loop`). Invariants: `quota` counts
//! measured requests only; `outstanding` is the sum of the pending requests of all connections.
//! Times are nanoseconds since the start of the run.

use super::connection::Connection;
use super::plan::{Limit, Plan};
use crate::exchange::Rules;
use crate::tally::Tally;
use crate::workload::Stream;

/// The requests of one thread that are still to come.
pub(super) struct Issue {
    pub rules: Rules,
    pub stream: Stream,
    /// Unanswered requests per connection, at most.
    pub pipeline: usize,
    /// Requests that may still be sent after the warm-up.
    pub quota: u64,
    pub end_ns: u64,
    /// Whether overdue requests are dropped from now on.
    pub closed: bool,
    pub outstanding: usize,
    pub tally: Tally,
}

impl Issue {
    pub fn new(plan: &Plan, lane: usize) -> Self {
        let warmup_ns = plan.warmup.as_nanos() as u64;
        let (quota, end_ns) = match plan.limit {
            Limit::Time(time) => (u64::MAX, warmup_ns + time.as_nanos() as u64),
            Limit::Requests(total) => (plan.share(lane, total), u64::MAX),
        };
        Self {
            rules: Rules {
                refill: plan.refill,
                multiget: plan.multiget.clone(),
                multiset: plan.multiset,
                measure_from_ns: warmup_ns,
                measure_until_ns: end_ns,
                ..Rules::plain(plan.protocol, &plan.workload, plan.verify)
            },
            stream: Stream::new(&plan.workload, lane as u64, plan.threads as u64),
            pipeline: plan.pipeline,
            quota,
            end_ns,
            closed: false,
            outstanding: 0,
            tally: Tally { by_time: plan.by_time.then(Default::default), ..Tally::default() },
        }
    }

    /// Whether time and quota allow another request.
    #[inline]
    pub fn is_open(&self, now_ns: u64) -> bool {
        self.quota > 0 && now_ns < self.end_ns
    }

    /// Whether `connection` can take another request.
    #[inline]
    pub fn has_room(&self, connection: &Connection) -> bool {
        connection.exchange.pending() < self.pipeline
    }

    /// Composes the next request, whose latency counts from `from_ns`.
    #[inline]
    pub fn ask(&mut self, connection: &mut Connection, from_ns: u64) {
        self.quota -= u64::from(from_ns >= self.rules.measure_from_ns);
        self.outstanding += 1;
        let Connection { exchange, out, .. } = connection;
        exchange.outstanding().ask(&self.rules, &mut self.stream, from_ns, out);
    }

    /// Composes the follow-ups that wait, as far as there is room.
    #[inline]
    pub fn follow_up(&mut self, connection: &mut Connection, now_ns: u64) {
        while connection.exchange.outstanding().wants_follow_up() && self.has_room(connection) {
            self.outstanding += 1;
            let Connection { exchange, out, .. } = connection;
            exchange.outstanding().follow_up(&self.rules, now_ns, out);
        }
    }
}
