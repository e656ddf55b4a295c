//! How fast requests of another cell are taken.

use super::*;
use crate::ring::RingService;
use crate::ring::testing::only_cell;
use crate::testing::NOW;
use crate::worker::Worker;
use engine::{Put, WriteStatus};
use session::{Bounds, WorkerId};

const VALUE_BYTES: usize = 100_000;
const ASKED: u64 = 100;

/// A cell that leads everything, with one long value, and a link to another one that asks it.
fn asked() -> (Link, Context<RingService>) {
    let ring = only_cell();
    let mut worker = Worker::new(ring.cell.clone());
    worker.begin(NOW);
    let put = Put { value: &[b'v'; VALUE_BYTES], client_flags: 0, expiry_s: 0 };
    let wrote = worker.set(&ring.cell.engine().key(b"key"), put, NOW);
    assert_eq!(wrote, WriteStatus::Done);
    worker.end();
    let resources = Resources { bounds: Bounds::default(), budget: ring.cell.budget().clone() };
    let id = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
    let (to, decoder) = ((CellId(2), 0), ring.decoder());
    let link = Link::new(id, Kind::Answering, to, decoder, Vec::new());
    (link, Context::new(RingService::new(ring, WorkerId(0), 1), NOW, resources))
}

#[test]
fn requests_are_taken_no_faster_than_their_replies_are() {
    let (mut link, mut context) = asked();
    let mut input = Vec::new();
    for id in 1..=ASKED {
        let (deadline_ms, map_version, text) = (1_000, 1, &b"get key\r\n"[..]);
        let (hops, worker, first, again) = (1, 0, 0, 0);
        Frame::Request { id, deadline_ms, hops, worker, first, again, map_version, text }
            .encode(&mut input);
    }
    let (front, rest) = input.split_at(input.len() / 2 + 3);
    Connection::receive(&mut link, front, &mut context);
    let (mut turns, mut bytes) = (1, context.out.len());
    assert_eq!(link.flow(), Flow::Full);
    assert!(bytes < REPLIES_BYTES_MAX + 2 * VALUE_BYTES, "{bytes}");
    // What had arrived already is kept.
    Connection::receive(&mut link, rest, &mut context);
    assert_eq!(context.out.len(), bytes, "nothing is executed");
    while link.flow() == Flow::Full {
        context.out.clear(0);
        Connection::resume(&mut link, &mut context);
        let more = context.out.len();
        assert!(more < REPLIES_BYTES_MAX + 2 * VALUE_BYTES, "{more}");
        (turns, bytes) = (turns + 1, bytes + more);
    }
    assert_eq!(link.flow(), Flow::Idle);
    assert!(bytes > ASKED as usize * VALUE_BYTES && turns > 10, "{bytes} in {turns}");
    assert!(link.can_parse_in_place());
}
