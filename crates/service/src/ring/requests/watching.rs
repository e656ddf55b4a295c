//! Clients that wait for a newer map, or for the first one.

use session::{ConnId, Ticket};

/// Clients of a worker that wait at a time, at most.
const WATCHING_MAX: usize = 1 << 10;

/// What a client is answered then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// The map.
    Map,
    /// The cells that it may connect to.
    Cells,
}

/// Those that wait, the version that each knows, and what it is answered.
#[derive(Default)]
pub(crate) struct Watching(Vec<(Ticket, u64, Wants)>);

impl Watching {
    /// One more waits. False: there are as many as may be.
    pub(crate) fn add(&mut self, ticket: Ticket, version: u64, wants: Wants) -> bool {
        let has_place = self.0.len() < WATCHING_MAX;
        if has_place {
            self.0.push((ticket, version, wants));
        }
        has_place
    }

    /// Those that know an older map than that of `version` wait no more.
    pub(crate) fn take(&mut self, version: u64) -> Vec<(Ticket, Wants)> {
        let taken = self.0.extract_if(.., |(_, known, _)| *known < version);
        taken.map(|(ticket, _, wants)| (ticket, wants)).collect()
    }

    /// Its connection is closed.
    pub(crate) fn closed(&mut self, conn: ConnId) {
        self.0.retain(|(ticket, ..)| ticket.conn != conn);
    }

    /// It waits no more. Returns what it is answered, if it did.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Wants> {
        let at = self.0.iter().position(|(it, ..)| *it == ticket)?;
        Some(self.0.swap_remove(at).2)
    }
}
