//! The requests of other cells that wait at this cell until a key was looked up below.
//!
//! ```text
//! request -> its key is not in memory -> parked -> a lookup has ended, or a little later: again
//!         -> one before it, of the same link and slice, is parked -> parked after that one
//! ```
//!
//! Invariants: the requests of one link about one slice are executed in the order in which they
//! have come. Each is answered, at the latest a little before the cell that sent it gives up.

use super::slice_counts::SliceCounts;
use crate::ring::retries::RequestTag;
use base::SliceId;
use session::{ConnId, Order};
use std::collections::{BTreeMap, VecDeque};

/// Most requests of other cells that are parked at one worker.
pub(crate) const PARKED_MAX: usize = 16 << 10;
/// How long what waits for a lookup rests, where nothing says that one has ended: no lookup begins
/// for a while where the one before has failed.
pub(crate) const LOOK_AGAIN_NS: u64 = 50_000_000;
/// A parked request is answered so long before its deadline: the reply takes time.
const EARLIER_NS: u64 = 25_000_000;

/// A request of another cell, without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) tag: RequestTag,
    /// Cells that have sent it on.
    pub(crate) hops: u8,
    /// The version of the map by which it was sent.
    pub(crate) map_version: u64,
    /// When the cell that sent it gives up.
    pub(crate) due_ns: u64,
}

impl Question {
    /// Whether it is to be answered now, even by an error.
    pub(crate) fn is_overdue(&self, now_ns: u64) -> bool {
        self.answer_at_ns() <= now_ns
    }

    fn answer_at_ns(&self) -> u64 {
        self.due_ns.saturating_sub(EARLIER_NS)
    }
}

/// A parked request: what it is, its slice, and its text.
type Waiting = (Question, SliceId, Vec<u8>);

/// Those of one link, in the order in which they came.
#[derive(Default)]
struct OfLink {
    requests: VecDeque<Waiting>,
    slices: SliceCounts,
    /// Whether the link gets a turn already.
    is_ordered: bool,
}

/// The parked requests of one worker.
#[derive(Default)]
pub(crate) struct Parked {
    /// In an order that is the same in each run of a simulated ring.
    links: BTreeMap<ConnId, OfLink>,
    len: usize,
    /// Bytes of their texts.
    bytes: usize,
    /// When they are looked at again without a reason; `None`: there is none.
    again_at_ns: Option<u64>,
}

impl Parked {
    /// Whether one of `link` about the slice that `slice` returns is parked.
    #[inline]
    pub(crate) fn has(&self, link: ConnId, slice: impl FnOnce() -> Option<SliceId>) -> bool {
        let of_link = (self.len > 0).then(|| self.links.get(&link)).flatten();
        of_link.is_some_and(|it| slice().is_some_and(|slice| it.slices.has(slice)))
    }

    /// Whether one with a text of `bytes` bytes may be parked, too, where their texts may have
    /// `bytes_max`. One alone may have any length.
    pub(crate) fn takes(&self, bytes: usize, bytes_max: usize) -> bool {
        self.len == 0 || self.len < PARKED_MAX && self.bytes + bytes <= bytes_max
    }

    pub(crate) fn push(&mut self, link: ConnId, (question, slice, text): Waiting, now_ns: u64) {
        let again_ns = (now_ns + LOOK_AGAIN_NS).min(question.answer_at_ns());
        self.again_at_ns = Some(self.again_at_ns.map_or(again_ns, |at| at.min(again_ns)));
        self.len += 1;
        self.bytes += text.len();
        let of_link = self.links.entry(link).or_default();
        of_link.slices.add(slice);
        of_link.requests.push_back((question, slice, text));
    }

    /// Takes those of `link`, to be executed again.
    pub(crate) fn take(
        &mut self,
        link: ConnId,
    ) -> impl Iterator<Item = (Question, Vec<u8>)> + use<> {
        let of_link = self.links.remove(&link).unwrap_or_default();
        self.len -= of_link.requests.len();
        self.bytes -= of_link.requests.iter().map(|(_, _, text)| text.len()).sum::<usize>();
        of_link.requests.into_iter().map(|(question, _, text)| (question, text))
    }

    /// `link` is closed: nobody waits for its requests any more.
    pub(crate) fn closed(&mut self, link: ConnId) {
        drop(self.take(link));
    }

    /// Each link that has some gets a turn, in which they are taken.
    pub(crate) fn wake(&mut self, orders: &mut VecDeque<Order>) {
        self.again_at_ns = None;
        let waiting = self.links.iter_mut().filter(|(_, it)| !it.is_ordered);
        orders.extend(waiting.map(|(link, of_link)| {
            of_link.is_ordered = true;
            Order::Turn(*link)
        }));
    }

    /// When [`Parked::wake`] is to be called, if nothing comes before.
    #[inline]
    pub(crate) fn again_at_ns(&self) -> u64 {
        self.again_at_ns.unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::retries::Asker;
    use ring::CellId;
    use session::WorkerId;

    fn link(index: u32) -> ConnId {
        ConnId { worker: WorkerId(0), index, generation: 0 }
    }

    fn waiting(id: u64, key: &[u8], due_ns: u64) -> Waiting {
        let asker = Asker { cell: CellId(2), life: 1, worker: 0 };
        let tag = RequestTag { asker, id, first: 0, again: 0 };
        let question = Question { tag, hops: 1, map_version: 1, due_ns };
        (question, SliceId::of(key), key.to_vec())
    }

    #[test]
    fn requests_of_a_link_come_out_as_they_went_in_and_those_of_others_stay() {
        let mut parked = Parked::default();
        for (of, id, key) in [(1, 1, b"a"), (2, 2, b"a"), (1, 3, b"b")] {
            parked.push(link(of), waiting(id, key, 1 << 40), 0);
        }
        let slice = |key: &[u8]| Some(SliceId::of(key));
        assert!(parked.has(link(1), || slice(b"b")) && !parked.has(link(2), || slice(b"b")));
        assert!(!parked.has(link(1), || None), "it has no key");
        let taken: Vec<_> = parked.take(link(1)).map(|(it, text)| (it.tag.id, text)).collect();
        assert_eq!(taken, [(1, b"a".to_vec()), (3, b"b".to_vec())]);
        assert!(!parked.has(link(1), || slice(b"a")) && parked.has(link(2), || slice(b"a")));
        parked.closed(link(2));
        assert_eq!((parked.len, parked.bytes), (0, 0));
    }

    #[test]
    fn a_link_gets_one_turn_for_all_that_is_parked() {
        let (mut parked, mut orders) = (Parked::default(), VecDeque::new());
        for id in 0..3 {
            parked.push(link(1), waiting(id, b"a", 1 << 40), 5);
        }
        assert_eq!(parked.again_at_ns(), 5 + LOOK_AGAIN_NS);
        for _ in 0..2 {
            parked.wake(&mut orders);
            assert!(matches!(&orders.make_contiguous(), [Order::Turn(of)] if *of == link(1)));
        }
        assert_eq!(parked.again_at_ns(), u64::MAX);
        assert_eq!(parked.take(link(1)).count(), 3);
    }

    #[test]
    fn a_request_is_looked_at_when_it_is_overdue() {
        let mut parked = Parked::default();
        let due_ns = EARLIER_NS + 7;
        parked.push(link(1), waiting(1, b"a", due_ns), 0);
        assert_eq!(parked.again_at_ns(), 7);
        let (question, _) = parked.take(link(1)).next().expect("one");
        assert!(!question.is_overdue(6) && question.is_overdue(7));
    }

    #[test]
    fn no_more_are_parked_than_may_be() {
        let mut parked = Parked::default();
        assert!(parked.takes(9, 8), "one alone has any length");
        parked.push(link(1), waiting(0, b"four", 1), 0);
        assert!(parked.takes(4, 8) && !parked.takes(5, 8));
        for id in 1..PARKED_MAX {
            parked.push(link(1), waiting(id as u64, b"a", 1), 0);
        }
        assert!(!parked.takes(0, usize::MAX));
    }
}
