//! Time-outs: once a second, a bounded scan for clients that were silent for too long.
//!
//! There is no tick while no client can time out, so an idle server sleeps.

use session::Handler;

use super::client::Client;
use super::source::Source;
use super::worker::Worker;
use crate::clock::SECOND_NS;

/// Places looked at in one tick; with more connections a time-out comes some seconds late.
const SCAN_MAX: usize = 16 << 10;

#[derive(Default)]
pub(super) struct Ticks {
    next_ns: u64,
    /// The place where the next scan begins.
    cursor: usize,
    /// Clients that have not taken all their replies.
    pub(super) stalled: u32,
}

impl Ticks {
    /// `client` is leaving.
    pub(super) fn forget(&mut self, client: &Client) {
        self.stalled -= u32::from(client.outbox.is_some());
    }
}

impl<H: Handler, S: Source> Worker<H, S> {
    /// When the next tick is due.
    #[inline]
    pub(super) fn tick_at_ns(&self) -> u64 {
        let config = &self.shared.config;
        let idle = config.idle_timeout_s > 0 && self.clients.len() > 0;
        let stall = config.stall_timeout_s > 0 && self.ticks.stalled > 0;
        if idle || stall { self.ticks.next_ns } else { u64::MAX }
    }

    #[cold]
    pub(super) fn tick(&mut self) {
        self.ticks.next_ns = self.context.now.mono_ns + SECOND_NS;
        let now_s = self.now_s;
        let places = self.clients.places();
        for _ in 0..places.min(SCAN_MAX) {
            let index = self.ticks.cursor % places;
            self.ticks.cursor = index + 1;
            let Some(key) = self.clients.key_at(index) else { continue };
            let client = self.clients.get(key).expect("it was just found there");
            let stalled = client.outbox.is_some();
            if !stalled && client.session.is_pending() {
                continue;
            }
            let config = &self.shared.config;
            let limit_s = if stalled { config.stall_timeout_s } else { config.idle_timeout_s };
            if limit_s == 0 || client.info.idle_s(now_s) <= limit_s {
                continue;
            }
            let counters = &self.handle.counters;
            if stalled {
                counters.stall_kicks.add(1)
            } else {
                counters.idle_kicks.add(1)
            }
            self.close(key);
        }
    }
}
