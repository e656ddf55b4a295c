//! A machine, which has at most one process: what of a cell outlives its processes.

use crate::below::Below;
use crate::cell::{Shape, WORKERS_MAX};
use crate::clock::Clock;
use crate::process::Process;
use crate::threads::TIER_THREADS;
use ring::{Addresses, Incarnation, Map, Started};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// The ports of clients and links, and of the first cell.
const PORT: u16 = 1000;

/// The threads of a process: its workers, its keeper, its ring, and those of its tier.
pub(crate) const THREADS: usize = WORKERS_MAX + 2 + TIER_THREADS;
pub(crate) const KEEPER: usize = WORKERS_MAX;
pub(crate) const RING: usize = WORKERS_MAX + 1;
pub(crate) const TIER: usize = WORKERS_MAX + 2;

/// A machine, which has at most one process.
pub(crate) struct Machine {
    pub(crate) process: Option<Process>,
    /// The incarnation of the latest process.
    pub(crate) number: u64,
    pub(crate) clock: Clock,
    /// The machine is off: nothing answers.
    pub(crate) is_off: bool,
    pub(crate) shape: Shape,
    /// By thread, until when it is stopped.
    pub(crate) stopped_ns: [u64; THREADS],
    /// Of all time, how long threads were stopped.
    pub(crate) stopped_sum_ns: u64,
    /// The newest map that it has, also after a start.
    pub(crate) known: Arc<Map>,
    /// What lies below it, if it has a tier.
    pub(crate) below: Option<Below>,
}

impl Machine {
    /// A machine on which its first process runs. It has the map `known`.
    pub(crate) fn new(
        process: Process,
        (shape, clock, below): (Shape, Clock, Option<Below>),
        known: Arc<Map>,
    ) -> Self {
        Self {
            process: Some(process),
            number: 1,
            clock,
            is_off: false,
            shape,
            stopped_ns: [0; THREADS],
            stopped_sum_ns: 0,
            known,
            below,
        }
    }

    /// Stops threads from `now_ns` on.
    pub(crate) fn stop(&mut self, threads: [bool; THREADS], for_ns: u64, now_ns: u64) {
        for (stopped_ns, stops) in self.stopped_ns.iter_mut().zip(threads) {
            let until_ns = now_ns + for_ns;
            *stopped_ns = if stops { until_ns.max(*stopped_ns) } else { *stopped_ns };
        }
        self.stopped_sum_ns += for_ns;
    }
}

/// The start of a cell. `has_tier`, and whether the journal of its earlier life `has_journal`.
pub(crate) fn started((cell, number): (usize, u64), has_tier: bool, has_journal: bool) -> Started {
    let address =
        |group: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, PORT * (group + 1) + cell as u16));
    let addresses = Addresses { control: address(0), links: address(1), clients: address(2) };
    Started {
        incarnation: Incarnation(number),
        addresses,
        has_journal,
        has_tier,
        below: None,
        edition: 0,
    }
}

/// The machine that has the address `of`.
pub(crate) fn machine_at(of: SocketAddr) -> usize {
    usize::from(of.port() % PORT)
}
