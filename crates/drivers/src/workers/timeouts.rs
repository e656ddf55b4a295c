//! Time-outs: once a second, a bounded scan for clients that were silent for too long, and for
//! connections that have taken nothing for too long, links included. A link may be silent for ever,
//! also in the middle of what it sends.
//!
//! While no client can time out, no scan is due, so an idle server sleeps. A time-out is late by a
//! second at most, or by more where there are more than [`SCAN_MAX`] connections.
//!
//! Clients of which the rest of a long request is awaited are not counted: that would cost every
//! request. When a session has kept input, all places are scanned, and again while there is such a
//! client among them.
//!
//! Limits are in seconds, due times in nanoseconds of the monotonic clock.

use session::{Connection, Serve};

use super::connections::Connections;
use super::source::Source;
use crate::clock::SECOND_NS;
use crate::silence::Expected;

/// Places that one scan looks at.
const SCAN_MAX: usize = 16 << 10;

#[derive(Default)]
pub(super) struct Timeouts {
    next_ns: u64,
    /// The place where the next scan begins.
    cursor: usize,
    /// Places that were looked at since one may have had a client of which the rest of a request is
    /// awaited; `None` when there is no such client.
    without_rest: Option<usize>,
}

impl Timeouts {
    /// When the next scan is due.
    #[inline]
    pub(super) fn due_at_ns<H: Serve, S: Source>(&self, conns: &Connections<H, S>) -> u64 {
        let config = conns.shared.config();
        let idle = config.idle_timeout_s > 0 && conns.has_clients();
        let rest = conns.context.has_kept() || self.without_rest.is_some();
        let stall = config.stall_timeout_s > 0 && (conns.has_stalled() || rest);
        if idle || stall { self.next_ns } else { u64::MAX }
    }

    /// Closes the clients that were silent for too long, as far as one scan goes.
    #[cold]
    pub(super) fn scan<H: Serve, S: Source>(&mut self, conns: &mut Connections<H, S>) {
        self.next_ns = conns.now_ns() + SECOND_NS;
        if conns.context.take_kept() {
            self.without_rest = Some(0);
        }
        let places = conns.clients.places();
        for _ in 0..places.min(SCAN_MAX) {
            let index = self.cursor % places;
            self.cursor = index + 1;
            self.without_rest = self.without_rest.map(|count| count + 1);
            let Some(client) = conns.clients.at(index) else { continue };
            let is_client = client.connection.is_client();
            if is_client && client.connection.awaits_rest() {
                self.without_rest = Some(0);
            }
            let expected = client.expected();
            if expected != Expected::Taking && (client.waits() || !is_client) {
                continue;
            }
            let Some(limit) = expected.limit(conns.shared.config()) else { continue };
            if client.info.idle_s(conns.now_s) > limit.seconds {
                let key = client.key();
                limit.kick.counter(conns.handle.counters()).add(1);
                conns.close(key);
            }
        }
        self.without_rest = self.without_rest.filter(|count| *count < places);
    }
}
