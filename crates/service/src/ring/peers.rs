//! The links of one worker on which it asks other cells.

use ring::CellId;
use session::ConnId;
use std::collections::BTreeMap;

/// How long a link rests before it is opened again.
const AGAIN_NS: u64 = 10_000_000;
/// Bytes of requests that a link holds unsent.
const UNSENT_BYTES_MAX: usize = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It may be opened from this time on.
    Closed(u64),
    Opening,
    Open(ConnId),
}

/// A link on which requests go out.
pub(crate) struct PeerLink {
    state: State,
    /// Requests that are not sent.
    out: Vec<u8>,
    is_ordered: bool,
}

/// What is to be done so that a request leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// A connection.
    Connection,
    /// A turn.
    Turn(ConnId),
}

/// The links to all cells.
#[derive(Default)]
pub(crate) struct Peers(BTreeMap<CellId, PeerLink>);

impl Peers {
    /// Where to append a request to `cell`, and what is to be done then. `None` if the link cannot
    /// take it now.
    pub(crate) fn ask(&mut self, cell: CellId, now_ns: u64) -> Option<(&mut Vec<u8>, Needs)> {
        let new = PeerLink { state: State::Closed(0), out: Vec::new(), is_ordered: false };
        let link = self.0.entry(cell).or_insert(new);
        if link.out.len() > UNSENT_BYTES_MAX {
            return None;
        }
        let needs = match link.state {
            State::Closed(at_ns) if at_ns > now_ns => return None,
            State::Closed(_) => {
                link.state = State::Opening;
                Needs::Connection
            }
            State::Open(conn) if !link.is_ordered => {
                link.is_ordered = true;
                Needs::Turn(conn)
            }
            State::Opening | State::Open(_) => Needs::Nothing,
        };
        Some((&mut link.out, needs))
    }

    /// The link to `cell` is open.
    pub(crate) fn opened(&mut self, cell: CellId, conn: ConnId) {
        if let Some(link) = self.0.get_mut(&cell) {
            link.state = State::Open(conn);
        }
    }

    /// Moves what is to be sent to `out`.
    pub(crate) fn send(&mut self, cell: CellId, out: &mut Vec<u8>) {
        if let Some(link) = self.0.get_mut(&cell) {
            link.is_ordered = false;
            out.append(&mut link.out);
        }
    }

    /// The link to `cell` is closed, or could not be opened. What was not sent is dropped.
    pub(crate) fn closed(&mut self, cell: CellId, now_ns: u64) {
        if let Some(link) = self.0.get_mut(&cell) {
            link.out = Vec::new();
            (link.state, link.is_ordered) = (State::Closed(now_ns + AGAIN_NS), false);
        }
    }
}
