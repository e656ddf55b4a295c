//! What a worker counts, readable by any thread.
//!
//! Each counter has one writer, so counting is a plain load and store; readers may be a little
//! late, never wrong. Sums over workers are made when somebody asks.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The counters of one worker.
        #[derive(Default)]
        pub(crate) struct Counters {
            $($(#[doc = $doc])* pub(crate) $name: Counter,)*
        }

        /// The counters of a server at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Snapshot {
            /// Adds the present counts of a worker.
            pub(crate) fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
            }
        }
    };
}

counters! {
    /// Connections that were accepted.
    accepted,
    /// Connections that were turned away at the limit.
    rejected,
    /// Connections that were closed, by whom ever.
    closed,
    /// Connections closed because their client was silent for too long.
    idle_kicks,
    /// Connections closed because their client took nothing of its replies for too long.
    stall_kicks,
    /// Connections closed because the budget had no room for what their client did not take.
    memory_kicks,
    /// Times a worker woke up.
    wakeups,
    /// Events of readable connections.
    readable,
    /// Calls of `recv`, the ones that found nothing included; of those that an io_uring makes by
    /// itself, each that came to something.
    recv_calls,
    /// Calls of `send` and `sendmsg`, those that an io_uring was asked for included.
    send_calls,
    /// Bytes received.
    bytes_in,
    /// Bytes sent.
    bytes_out,
    /// Turns that ended by the bound of requests, so that other connections had theirs.
    yields,
    /// Times signals were lost for want of room in their queue, and all connections looked at.
    signals_lost,
    /// Times accepting stopped, for want of descriptors or at the limit.
    accept_stops,
}

impl Snapshot {
    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

/// One count with one writer.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
