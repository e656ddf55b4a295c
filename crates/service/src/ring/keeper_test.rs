//! When a keeper is to be woken.

use super::cell::{RingCell, RingHost, RingIdentity};
use super::keeper::Keeper;
use crate::testing::{NOW, cell_with_log};
use base::Now;
use ring::{Addresses, CellId, Command, Incarnation, Map, Started};
use std::collections::BTreeMap;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// A ring of N cells.
fn formed(cells: u32) -> Arc<Map> {
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let addresses = Addresses { control: at, links: at, clients: at };
    let started = Started { incarnation: Incarnation(1), addresses };
    let mut map = Map::new(7, cells, 2);
    for token in 0..u64::from(cells) {
        map.apply(&Command::Join { token, started });
    }
    Arc::new(map)
}

/// How many milliseconds the keeper of the first of N cells rests after each of `ms`.
fn rests(cells: u32, holds_until_ms: u64, ms: &[u64]) -> Vec<u64> {
    let identity = RingIdentity { ring: 7, cell: CellId(1), incarnation: 1 };
    let secret = peer::Secret::new(&[9; 32]).expect("long enough");
    let host = RingHost { nonce: Box::new(|| [0; _]), find: Box::new(|_| ()) };
    let ring = RingCell::new(cell_with_log(64 << 20, true), identity, secret, host);
    let ring = ring.expect("it has a log");
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, cells, 2)), NOW);
    assert_eq!(keeper.wakes_at_ns(NOW), u64::MAX, "it has nothing to keep");
    let map = formed(cells);
    let ids = map.ranges.iter().map(|range| range.id);
    let holds: BTreeMap<_, _> = ids.map(|id| (id, holds_until_ms * MS)).collect();
    // A worker in the middle of a batch.
    let routes = ring.routes();
    keeper.adopt(map, holds, NOW);
    let mut rests = Vec::new();
    let mut routes = Some(routes);
    for at_ms in ms {
        let now = Now { mono_ns: at_ms * MS, ..NOW };
        assert!(!keeper.tend(now), "nothing takes long");
        rests.push(keeper.wakes_at_ns(now).saturating_sub(now.mono_ns) / MS);
        routes = None;
    }
    drop(routes);
    rests
}

#[test]
fn a_keeper_is_woken_when_something_waits_a_hold_ends_or_a_copy_may_be_late() {
    // A worker goes by the old routes; a hold ends; nothing waits.
    assert_eq!(rests(2, 150, &[10, 20, 100, 150, 200]), [20, 100, 50, 100, 100]);
    // Nobody copies what it leads.
    let alone = rests(1, 0, &[10, 20]);
    assert_eq!((alone[0], alone[1] > 1_000_000), (20, true), "{alone:?}");
}
