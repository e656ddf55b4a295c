//! Requests of other cells that arrive after their range was lost, or before it may be answered.

use super::RingService;
use super::cell::RingCell;
use super::links::{Kind, Link, LinkHandler};
use super::terms::Term;
use super::testing::{first_cell, formed, leads_all_by};
use crate::testing::NOW;
use peer::{Frame, Verdict};
use session::{ConnId, Handler, Reply, WorkerId};
use std::sync::Arc;

const WORKER: WorkerId = WorkerId(0);

/// The only cell of a ring, whose range was lost once. Returns the version of the map that says so.
fn cell_after_a_loss() -> (Arc<RingCell>, u64) {
    let mut map = (*formed(1)).clone();
    map.version += 1;
    map.ranges.iter_mut().for_each(|range| range.losses += 1);
    let (ring, version) = (first_cell(|_| ()), map.version);
    leads_all_by(&ring, &Arc::new(map));
    (ring, version)
}

/// What another cell, which goes by the map of `map_version`, is answered to a first request.
fn verdict(ring: &Arc<RingCell>, id: u64, map_version: u64, text: &[u8]) -> Verdict {
    answered(ring, id, map_version, text).expect("it is answered at once")
}

/// The same; `None` if the answer waits.
fn answered(ring: &Arc<RingCell>, id: u64, map_version: u64, text: &[u8]) -> Option<Verdict> {
    let mut handler = RingService::new(ring.clone(), WORKER, 1);
    let conn = ConnId { worker: WORKER, index: 3, generation: 0 };
    let mut link = Link::accepting(conn, ring.acceptor(), ring.decoder());
    link.kind = Kind::Answering;
    let (deadline_ms, hops, worker, first, again) = (1_000, 1, 0, 1, 0);
    let frame = Frame::Request { id, deadline_ms, hops, worker, first, again, map_version, text };
    let mut out = Reply::new();
    assert!(handler.take_frame(&mut link, &frame, NOW, &mut out));
    handler.end_batch(NOW, || NOW);
    let (decoder, bytes) = (ring.decoder(), out.bytes_mut());
    match decoder.decode(bytes).expect("a frame") {
        Some((Frame::Reply { verdict, .. }, _)) => Some(verdict),
        None => None,
        other => panic!("{other:?}"),
    }
}

/// It may have been on its way while it was asked again and executed elsewhere, of which nobody
/// knows since the range was lost.
#[test]
fn one_that_was_sent_before_its_range_was_lost_is_not_executed() {
    let (ring, version) = cell_after_a_loss();
    for (id, text) in
        [(1, "set key 0 0 1\r\n1\r\n"), (2, "ms key 1\r\n1\r\n"), (3, "delete key\r\n")]
    {
        let text = text.as_bytes();
        assert_eq!(verdict(&ring, id, version - 1, text), Verdict::Forgotten, "{id}");
        assert_eq!(verdict(&ring, id + 10, version, text), Verdict::Done, "{id}");
    }
}

/// A cell that may not answer yet, since it would show an earlier second than the one before.
#[test]
fn a_fence_does_not_take_the_place_of_a_time() {
    let (ring, version) = cell_after_a_loss();
    let range = &formed(1).ranges[0];
    let term = Term { range: range.id, epoch: range.epoch };
    assert!(ring.terms.level(term).is_some(), "it leads that");
    let text = b"mg key v Pfence\r\n";
    ring.terms.extend(term, 0);
    assert_eq!(answered(&ring, 1, version, text), Some(Verdict::NotOwner));
    // A lease that is over is enough: the answer waits until the copies have said that they follow.
    ring.terms.extend(term, 1);
    assert_eq!(answered(&ring, 2, version, text), None);
}
