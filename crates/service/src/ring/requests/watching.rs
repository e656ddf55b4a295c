//! Clients that wait for a newer map.

use session::{ConnId, Ticket};

/// Clients of a worker that wait at a time, at most.
const WATCHING_MAX: usize = 1 << 10;

/// Those that wait, and the version that they know.
#[derive(Default)]
pub(crate) struct Watching(Vec<(Ticket, u64)>);

impl Watching {
    /// One more waits. False: there are as many as may be.
    pub(crate) fn add(&mut self, ticket: Ticket, version: u64) -> bool {
        let has_place = self.0.len() < WATCHING_MAX;
        if has_place {
            self.0.push((ticket, version));
        }
        has_place
    }

    /// Those that know an older map than that of `version` wait no more.
    pub(crate) fn take(&mut self, version: u64) -> Vec<Ticket> {
        self.0.extract_if(.., |(_, known)| *known < version).map(|(ticket, _)| ticket).collect()
    }

    /// Its connection is closed.
    pub(crate) fn closed(&mut self, conn: ConnId) {
        self.0.retain(|(ticket, _)| ticket.conn != conn);
    }

    /// It waits no more. Returns whether it did.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> bool {
        let before = self.0.len();
        self.0.retain(|(it, _)| *it != ticket);
        self.0.len() < before
    }
}
