//! The links of one worker on which it asks other cells.

use peer::{COPIES_READ, Frame, KEEPS_ORDER};
use ring::CellId;
use session::ConnId;
use std::collections::BTreeMap;

/// How long a link rests before it is opened again.
const AGAIN_NS: u64 = 10_000_000;
/// Bytes of requests that a link holds unsent.
const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Bytes of used keys that go out with one request at most. More are dropped.
const USED_BYTES_MAX: usize = 1 << 10;
/// How long a link or a stream may take to open, and how long nothing may come of one while a
/// request is overdue or an acknowledgement awaited. Then it is closed, and opened again: the other
/// end may be gone without a word.
pub(super) const SILENT_NS: u64 = 1_500_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It may be opened from this time on.
    Closed(u64),
    /// It is being opened, since this time.
    Opening(u64),
    /// Requests go out, to this life of the cell.
    Open(u64),
}

/// A link on which requests go out.
struct PeerLink {
    state: State,
    /// Its connection, as soon as there is one.
    conn: Option<ConnId>,
    /// When something last came.
    heard_ns: u64,
    /// Requests that are not sent.
    out: Vec<u8>,
    is_ordered: bool,
    /// What goes out with the next request: keys of that cell that copies have answered reads of.
    used: Vec<u8>,
    /// The features of both cells.
    features: u64,
    /// How many of its replies say that a request is to be asked again, and of how many of these it
    /// knows that they have come.
    refusals: u64,
    known: u64,
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

/// What a link was when it was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    /// Not yet open: nothing was sent.
    Opening,
    /// Open.
    Open,
}

/// The links to all cells.
#[derive(Default)]
pub(crate) struct Peers(BTreeMap<CellId, PeerLink>);

impl Peers {
    /// Where to append a request to `cell`, and what is to be done then. `None` if the link cannot
    /// take it now.
    pub(crate) fn ask(&mut self, cell: CellId, now_ns: u64) -> Option<(&mut Vec<u8>, Needs)> {
        let link = self.0.entry(cell).or_insert_with(PeerLink::closed);
        if link.out.len() > UNSENT_BYTES_MAX {
            return None;
        }
        let needs = match (link.state, link.conn) {
            (State::Closed(at_ns), _) if at_ns > now_ns => return None,
            (State::Closed(_), _) => {
                (link.state, link.conn) = (State::Opening(now_ns), None);
                Needs::Connection
            }
            (State::Open(_), Some(conn)) if !link.is_ordered => {
                link.is_ordered = true;
                Needs::Turn(conn)
            }
            (State::Opening(_) | State::Open(_), _) => Needs::Nothing,
        };
        link.out.append(&mut link.used);
        if link.known < link.refusals && link.has(KEEPS_ORDER) {
            link.known = link.refusals;
            Frame::Refusals { count: link.known }.encode(&mut link.out);
        }
        Some((&mut link.out, needs))
    }

    /// A copy has answered a read of `key`: the next request to its primary, `cell`, says so.
    pub(crate) fn used(&mut self, cell: CellId, key: &[u8]) {
        let link = self.0.get_mut(&cell).filter(|link| link.has(COPIES_READ));
        if let Some(link) = link.filter(|link| link.used.len() < USED_BYTES_MAX) {
            Frame::Used { key }.encode(&mut link.used);
        }
    }

    /// Whether a connection to `cell` is to be ordered, so that it can be asked.
    pub(crate) fn opens(&mut self, cell: CellId, now_ns: u64) -> bool {
        let link = self.0.entry(cell).or_insert_with(PeerLink::closed);
        let is_due = matches!(link.state, State::Closed(at_ns) if at_ns <= now_ns);
        if is_due {
            (link.state, link.conn) = (State::Opening(now_ns), None);
        }
        is_due
    }

    /// The link to `cell` has a connection; its handshake begins. False if it is not wanted.
    pub(crate) fn connected(&mut self, cell: CellId, conn: ConnId) -> bool {
        let link = self.opening(cell).filter(|link| link.conn.is_none());
        link.is_some_and(|link| {
            link.conn = Some(conn);
            true
        })
    }

    /// The handshake with this life of `cell` is over. False if `conn` is not its link.
    pub(crate) fn opened(
        &mut self,
        (cell, life): (CellId, u64),
        (conn, features): (ConnId, u64),
        now_ns: u64,
    ) -> bool {
        let link = self.opening(cell).filter(|link| link.conn == Some(conn));
        link.is_some_and(|link| {
            (link.state, link.heard_ns) = (State::Open(life), now_ns);
            link.features = features;
            true
        })
    }

    /// Whether a link to `cell` is open, and that cell knows of reads that copies answer.
    pub(crate) fn knows_reads(&self, cell: CellId) -> bool {
        self.0.get(&cell).is_some_and(|link| link.has(COPIES_READ))
    }

    /// `cell` has refused a request, which is to be asked again. Whether it refuses all that was
    /// sent after that about the same slice.
    pub(crate) fn refuses(&mut self, cell: CellId) -> bool {
        self.0.get_mut(&cell).is_some_and(|link| {
            link.refusals += 1;
            link.has(KEEPS_ORDER)
        })
    }

    fn opening(&mut self, cell: CellId) -> Option<&mut PeerLink> {
        self.0.get_mut(&cell).filter(|link| matches!(link.state, State::Opening(_)))
    }

    /// Something came from `cell` on `conn`. Whether that is its link: what comes on one that was
    /// given up answers nothing that is asked now.
    pub(crate) fn hears(&mut self, cell: CellId, conn: ConnId, now_ns: u64) -> bool {
        let link = self.0.get_mut(&cell).filter(|link| link.conn == Some(conn));
        link.is_some_and(|link| {
            link.heard_ns = now_ns;
            true
        })
    }

    /// Moves what is to be sent to `out`.
    pub(crate) fn send(&mut self, cell: CellId, out: &mut Vec<u8>) {
        if let Some(link) = self.0.get_mut(&cell) {
            link.is_ordered = false;
            match out.is_empty() {
                true => std::mem::swap(out, &mut link.out),
                false => out.append(&mut link.out),
            }
        }
    }

    /// The link to `cell` with this connection is closed, or could not be opened. What was not sent
    /// is dropped. `None` if the cell has another link by now, or none.
    pub(crate) fn closed(
        &mut self,
        cell: CellId,
        conn: Option<ConnId>,
        now_ns: u64,
    ) -> Option<Was> {
        let link = self.0.get_mut(&cell).filter(|link| link.conn == conn)?;
        let was = match link.state {
            State::Closed(_) => return None,
            State::Opening(_) => Was::Opening,
            State::Open(_) => Was::Open,
        };
        *link = PeerLink { state: State::Closed(now_ns + AGAIN_NS), ..PeerLink::closed() };
        Some(was)
    }

    /// Whether a link is being opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.0.values().any(|link| matches!(link.state, State::Opening(_)))
    }

    /// The links that are of no use any more: those that take too long to open, those to a life of
    /// the cell that is over, or to one that was removed, and, of cells with an `overdue` request,
    /// those from which nothing comes.
    pub(crate) fn useless(
        &self,
        overdue: &[CellId],
        is_over: impl Fn(CellId, u64) -> bool,
        now_ns: u64,
    ) -> Vec<(CellId, ConnId)> {
        let is_useless = |cell: CellId, link: &PeerLink| match link.state {
            State::Closed(_) => false,
            State::Opening(since_ns) => since_ns + SILENT_NS <= now_ns,
            State::Open(life) => {
                is_over(cell, life)
                    || overdue.contains(&cell) && link.heard_ns + SILENT_NS <= now_ns
            }
        };
        let useless = self.0.iter().filter(|(cell, link)| is_useless(**cell, link));
        useless.filter_map(|(cell, link)| Some((*cell, link.conn?))).collect()
    }
}

impl PeerLink {
    fn closed() -> Self {
        let (state, out) = (State::Closed(0), Vec::new());
        Self {
            state,
            conn: None,
            heard_ns: 0,
            out,
            is_ordered: false,
            used: Vec::new(),
            features: 0,
            refusals: 0,
            known: 0,
        }
    }

    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::WorkerId;

    const CELL: CellId = CellId(2);

    fn conn(index: u32) -> ConnId {
        ConnId { worker: WorkerId(0), index, generation: 0 }
    }

    /// Links of which the first is open since time 0, to life 1.
    fn open() -> Peers {
        let mut peers = Peers::default();
        assert_eq!(peers.ask(CELL, 0).map(|(_, needs)| needs), Some(Needs::Connection));
        assert!(peers.connected(CELL, conn(1)));
        assert!(peers.opened((CELL, 1), (conn(1), COPIES_READ), 0));
        peers
    }

    #[test]
    fn a_link_of_the_past_does_not_close_the_one_of_now() {
        let mut peers = open();
        assert_eq!(peers.closed(CELL, Some(conn(1)), 0), Some(Was::Open));
        peers.ask(CELL, AGAIN_NS).expect("it is opened again");
        assert_eq!(peers.closed(CELL, Some(conn(1)), AGAIN_NS), None);
        assert!(peers.connected(CELL, conn(2)));
        assert!(!peers.opened((CELL, 1), (conn(1), COPIES_READ), AGAIN_NS));
        assert!(peers.opened((CELL, 1), (conn(2), COPIES_READ), AGAIN_NS));
        assert_eq!(peers.closed(CELL, Some(conn(1)), AGAIN_NS), None);
    }

    #[test]
    fn a_request_carries_a_bounded_number_of_used_keys() {
        let mut peers = open();
        let used = |peers: &mut Peers, keys: usize| {
            (0..keys).for_each(|_| peers.used(CELL, &[b'k'; 250]));
            let mut out = Vec::new();
            peers.ask(CELL, 0).expect("it is open");
            peers.send(CELL, &mut out);
            out.len() / 255
        };
        assert_eq!([0, 1, 3, 1000, 2].map(|keys| used(&mut peers, keys)), [0, 1, 3, 5, 2]);
        peers.closed(CELL, Some(conn(1)), 0);
        peers.used(CELL, b"k");
        peers.ask(CELL, AGAIN_NS).expect("it is opened again");
        assert!(peers.connected(CELL, conn(2)));
        assert!(peers.opened((CELL, 1), (conn(2), 0), AGAIN_NS));
        assert_eq!(used(&mut peers, 3), 0, "the cell does not know of them");
    }

    #[test]
    fn a_link_that_is_of_no_use_is_found() {
        let mut peers = open();
        let none: &[CellId] = &[];
        assert_eq!(peers.useless(none, |_, life| life < 1, u64::MAX), []);
        assert_eq!(
            peers.useless(none, |_, life| life < 2, 0),
            [(CELL, conn(1))],
            "of an earlier life"
        );
        assert_eq!(peers.useless(&[CELL], |_, _| false, SILENT_NS), [(CELL, conn(1))], "silent");
        assert!(!peers.hears(CELL, conn(2), 1), "of an earlier link");
        assert_eq!(peers.useless(&[CELL], |_, _| false, SILENT_NS), [(CELL, conn(1))]);
        assert!(peers.hears(CELL, conn(1), 1));
        assert_eq!(peers.useless(&[CELL], |_, _| false, SILENT_NS), []);
        peers.closed(CELL, Some(conn(1)), 0);
        peers.ask(CELL, AGAIN_NS).expect("it is opened again");
        assert!(peers.connected(CELL, conn(2)));
        let late_ns = AGAIN_NS + SILENT_NS;
        assert_eq!(peers.useless(none, |_, _| false, late_ns - 1), []);
        assert_eq!(
            peers.useless(none, |_, _| false, late_ns),
            [(CELL, conn(2))],
            "it does not open"
        );
        assert_eq!(peers.closed(CELL, Some(conn(2)), late_ns), Some(Was::Opening));
    }
}
