//! What a worker counts, readable by any thread.
//!
//! Each counter has one writer, its worker, so counting is a plain load and store. A reader may see
//! a count that is a moment old. Sums over workers are computed when a snapshot is requested; they
//! never fall.

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
            /// Links that are open.
            #[must_use]
            pub fn links_open(&self) -> u64 {
                // Two workers may have been read at different moments.
                self.links_opened.saturating_sub(self.links_closed)
            }

            /// Adds the present counts of a worker.
            pub(crate) fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
            }
        }
    };
}

counters! {
    /// Clients that were accepted.
    accepted,
    /// Clients that were rejected at the limit.
    rejected,
    /// Connections of clients that were closed, by either end.
    closed,
    /// Links that were opened, by either end. None of the counts above includes links.
    links_opened,
    /// Links that were closed, by either end.
    links_closed,
    /// Links that could not be opened.
    links_failed,
    /// Connections closed because their client was silent for too long.
    idle_kicks,
    /// Connections closed because their client took nothing of its replies for too long.
    stall_kicks,
    /// Connections closed because their client sent nothing more of a long request for too long.
    upload_kicks,
    /// Connections closed because the budget had no memory for what their client did not take.
    memory_kicks,
    /// Connections closed because a full mailbox has refused a completion.
    mailbox_kicks,
    /// Times a worker woke up.
    wakeups,
    /// Events of readable connections.
    readable,
    /// Calls of `recv`, those that found nothing included; under io_uring, completions of receives.
    recv_calls,
    /// Calls of `send` and `sendmsg`, and sends by io_uring.
    send_calls,
    /// Bytes received.
    bytes_in,
    /// Bytes sent.
    bytes_out,
    /// Turns that the bound of requests has ended, so that other connections had theirs.
    yields,
    /// Times that a full queue lost signals, so that every connection was looked at.
    signals_lost,
    /// Times that accepting stopped, at the limit or because descriptors had run out.
    accept_stops,
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
