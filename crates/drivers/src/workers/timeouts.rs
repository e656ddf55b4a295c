//! Time-outs: once a second, a bounded scan for clients that were silent for too long, and for
//! connections that have taken nothing for too long, links included.
//!
//! While no client can time out, no scan is due, so an idle server sleeps. A time-out is late by a
//! second at most, or by more where there are more than [`SCAN_MAX`] connections.
//!
//! Limits are in seconds, due times in nanoseconds of the monotonic clock.

use session::{Connection, Serve};

use super::connections::Connections;
use super::source::Source;
use crate::clock::SECOND_NS;

/// Places that one scan looks at.
const SCAN_MAX: usize = 16 << 10;

#[derive(Default)]
pub(super) struct Timeouts {
    next_ns: u64,
    /// The place where the next scan begins.
    cursor: usize,
}

impl Timeouts {
    /// When the next scan is due.
    #[inline]
    pub(super) fn due_at_ns<H: Serve, S: Source>(&self, conns: &Connections<H, S>) -> u64 {
        let config = conns.shared.config();
        let idle = config.idle_timeout_s > 0 && conns.has_clients();
        let stall = config.stall_timeout_s > 0 && conns.has_stalled();
        if idle || stall { self.next_ns } else { u64::MAX }
    }

    /// Closes the clients that were silent for too long, as far as one scan goes.
    #[cold]
    pub(super) fn scan<H: Serve, S: Source>(&mut self, conns: &mut Connections<H, S>) {
        self.next_ns = conns.now_ns() + SECOND_NS;
        let places = conns.clients.places();
        for _ in 0..places.min(SCAN_MAX) {
            let index = self.cursor % places;
            self.cursor = index + 1;
            let Some(client) = conns.clients.at(index) else { continue };
            let stalled = client.outbox.is_some();
            if !stalled && (client.waits() || !client.connection.is_client()) {
                continue;
            }
            let config = conns.shared.config();
            let limit_s = if stalled { config.stall_timeout_s } else { config.idle_timeout_s };
            if limit_s == 0 || client.info.idle_s(conns.now_s) <= limit_s {
                continue;
            }
            let key = client.key();
            let counters = conns.handle.counters();
            let kicks = if stalled { &counters.stall_kicks } else { &counters.idle_kicks };
            kicks.add(1);
            conns.close(key);
        }
    }
}
