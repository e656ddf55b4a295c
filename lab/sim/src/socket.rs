//! One connection of a worker: what lies in its socket, what serves it, and what is known of it.

use crate::scene::PipeId;
use service::{RingConnection, RingService};
use session::{ConnId, Connection, Flow, LogId};

/// A connection as a worker has it.
pub(crate) struct Socket {
    pub(crate) connection: RingConnection,
    pub(crate) pipe: PipeId,
    /// What has arrived and was not received.
    pub(crate) arrived: Vec<u8>,
    /// The other side sends no more.
    pub(crate) has_end: bool,
    /// That was received.
    pub(crate) is_ended: bool,
    /// The connection is broken.
    pub(crate) is_reset: bool,
    /// What the socket did not take.
    pub(crate) outbox: Vec<u8>,
    /// Bytes that the socket takes now.
    pub(crate) room: usize,
    /// Its replies in the present batch.
    pub(crate) unsent: u32,
    /// It is among those that have more to do.
    pub(crate) is_queued: bool,
    /// Its request is among those that are parked.
    pub(crate) is_parked: bool,
    /// Its handler has ordered a turn, which comes when its outbox is empty.
    pub(crate) is_ordered: bool,
}

impl Socket {
    pub(crate) fn new(connection: RingConnection, pipe: PipeId, room: usize) -> Self {
        Self {
            connection,
            pipe,
            arrived: Vec::new(),
            has_end: false,
            is_ended: false,
            is_reset: false,
            outbox: Vec::new(),
            room,
            unsent: 0,
            is_queued: false,
            is_parked: false,
            is_ordered: false,
        }
    }

    pub(crate) fn id(&self) -> ConnId {
        Connection::<RingService>::id(&self.connection)
    }

    pub(crate) fn flow(&self) -> Flow {
        Connection::<RingService>::flow(&self.connection)
    }

    pub(crate) fn is_client(&self) -> bool {
        Connection::<RingService>::is_client(&self.connection)
    }

    fn is_pending(&self) -> bool {
        Connection::<RingService>::is_pending(&self.connection)
    }

    /// The mark of a log that its next reply waits for.
    pub(crate) fn gate(&self) -> Option<(LogId, u64)> {
        match Connection::<RingService>::waits_for(&self.connection) {
            Some(session::Waited::Gate { log, seq }) => Some((log, seq)),
            _ => None,
        }
    }

    /// When its next reply is overdue.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        Connection::<RingService>::due_ns(&self.connection)
    }

    /// Whether there is something to receive.
    pub(crate) fn is_readable(&self) -> bool {
        !self.arrived.is_empty() || self.has_end && !self.is_ended || self.is_reset
    }

    fn may_receive(&self) -> bool {
        self.flow() == Flow::Idle && (self.outbox.is_empty() || !self.is_client())
    }

    /// Whether a turn would do anything now.
    pub(crate) fn has_more_to_do(&self) -> bool {
        match self.flow() {
            Flow::Idle => self.is_readable() && self.may_receive() || self.has_ordered_turn(),
            flow => self.outbox.is_empty() && matches!(flow, Flow::Again | Flow::Full),
        }
    }

    /// Whether the turn that its handler has ordered may come now.
    pub(crate) fn has_ordered_turn(&self) -> bool {
        self.is_ordered && self.outbox.is_empty()
    }

    /// Notes that its handler has ordered a turn. Returns whether it may come at once.
    pub(crate) fn order_turn(&mut self) -> bool {
        let is_sent = self.outbox.is_empty();
        match self.flow() {
            Flow::Idle | Flow::Again if is_sent => true,
            Flow::Full | Flow::Parked if is_sent && self.unsent == 0 => true,
            flow => {
                self.is_ordered |= flow == Flow::Idle;
                false
            }
        }
    }

    /// Whether its request is parked, and may be tried again.
    pub(crate) fn may_retry(&self) -> bool {
        self.flow() == Flow::Parked && self.outbox.is_empty() && self.unsent == 0
    }

    /// Whether it waits for something other than its peer.
    pub(crate) fn waits(&self) -> bool {
        self.is_pending() || self.flow() == Flow::Parked
    }

    /// Whether it ends now that its output is sent.
    pub(crate) fn is_over(&self) -> bool {
        match self.flow() {
            Flow::Close | Flow::Drop => true,
            Flow::Idle => self.is_ended && !self.is_pending(),
            _ => false,
        }
    }
}
