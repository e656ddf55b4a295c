//! Which starts a ring refuses because of what lies below the memory of a cell.

use super::below::{Ack, Below, OtherBelow};
use super::command::{Addresses, Command, Refusal, Started, Verdict, Why};
use super::ring_map::Map;
use crate::ids::{CellId, Incarnation};

const A: Below = bucket(0xA, Ack::Os, 0);
const NOTHING: Below = Below { bucket: None, ..bucket(0, Ack::Memory, 0) };

const fn bucket(id: u64, ack: Ack, prefixes: u32) -> Below {
    Below { bucket: Some(id), ack, prefixes, changes_levels: false }
}

/// The same, while the levels of all are being changed.
fn changing(below: Below) -> Below {
    Below { changes_levels: true, ..below }
}

fn started(life: u64, below: Option<Below>) -> Started {
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let addresses = Addresses { control: at, links: at, clients: at };
    let has_tier = below.is_some_and(|it| it.bucket.is_some());
    Started {
        incarnation: Incarnation(life),
        addresses,
        has_journal: has_tier,
        has_tier,
        below,
        edition: 0,
    }
}

fn join(map: &mut Map, token: u64, below: Option<Below>) -> Verdict {
    map.apply(&Command::Join { token, started: started(1, below) })
}

fn start(map: &mut Map, cell: u32, life: u64, below: Option<Below>) -> Verdict {
    map.apply(&Command::Start { cell: CellId(cell), started: started(life, below) })
}

fn refused(own: Below, cell: u32, other: Below) -> Verdict {
    Verdict::Refused(Refusal::OtherBelow(OtherBelow { own, cell: CellId(cell), other }))
}

fn is_applied(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Applied { .. })
}

/// A ring of these cells, each with two copies.
fn formed(below: &[Option<Below>]) -> Map {
    let mut map = Map::new(7, below.len() as u32, 2);
    for (token, below) in (1..).zip(below) {
        assert!(is_applied(join(&mut map, token, *below)));
    }
    map
}

#[test]
fn a_cell_joins_and_starts_only_with_what_the_others_have() {
    let others =
        [NOTHING, bucket(0xB, Ack::Os, 0), bucket(0xA, Ack::Disk, 0), bucket(0xA, Ack::Os, 5)];
    for other in others {
        for (ring, own) in [(A, other), (other, A)] {
            // Before it has formed, and after.
            let mut map = Map::new(7, 2, 2);
            assert!(is_applied(join(&mut map, 1, Some(ring))));
            let before = map.clone();
            assert_eq!(join(&mut map, 2, Some(own)), refused(own, 1, ring));
            assert_eq!(map, before, "a refused join changes nothing");
            let mut map = formed(&[Some(ring), Some(ring)]);
            let before = map.clone();
            assert_eq!(join(&mut map, 3, Some(own)), refused(own, 1, ring));
            assert_eq!(start(&mut map, 2, 2, Some(own)), refused(own, 1, ring));
            assert_eq!(join(&mut map, 2, Some(own)), refused(own, 1, ring), "it is cell 2");
            assert_eq!(map, before, "a refused start changes nothing");
            assert!(is_applied(start(&mut map, 2, 2, Some(ring))));
        }
    }
}

#[test]
fn a_cell_alone_in_its_ring_keeps_what_it_had_once_the_ring_has_formed() {
    let mut map = Map::new(7, 2, 2);
    assert!(is_applied(join(&mut map, 1, Some(A))));
    assert!(is_applied(start(&mut map, 1, 2, Some(NOTHING))), "it has nothing yet");
    let mut map = formed(&[Some(A)]);
    let other = bucket(0xB, Ack::Os, 0);
    assert_eq!(start(&mut map, 1, 2, Some(other)), refused(other, 1, A));
}

#[test]
fn levels_change_one_cell_after_the_other_and_a_bucket_does_not() {
    let disk = bucket(0xA, Ack::Disk, 9);
    let mut map = formed(&[Some(A); 3]);
    for cell in 1..=3 {
        let other = if cell == 1 { 1 } else { 2 };
        let other = if cell == 3 { 3 } else { other };
        assert_eq!(start(&mut map, cell, 2, Some(disk)), refused(disk, other, A));
        assert!(is_applied(start(&mut map, cell, 2, Some(changing(disk)))));
    }
    assert!(is_applied(start(&mut map, 2, 3, Some(disk))), "all have it");
    assert!(matches!(start(&mut map, 2, 4, Some(A)), Verdict::Refused(_)));
    let other = changing(bucket(0xB, Ack::Disk, 9));
    assert!(matches!(start(&mut map, 2, 4, Some(other)), Verdict::Refused(_)));
    assert!(matches!(start(&mut map, 2, 4, Some(NOTHING)), Verdict::Refused(_)));
}

#[test]
fn a_cell_that_is_gone_refuses_nobody() {
    let disk = bucket(0xA, Ack::Disk, 0);
    let mut map = formed(&[Some(A); 3]);
    let gone = CellId(3);
    for number in 0..map.ranges.len() {
        let at = map.ranges[number].stamp();
        if map.ranges[number].primary == gone {
            let cell = map.ranges[number].copies[0];
            assert!(is_applied(map.apply(&Command::Promote { at, cell, why: Why::Silent })));
        } else if map.ranges[number].has(gone) {
            assert!(is_applied(map.apply(&Command::Drop { at, cell: gone, why: Why::Silent })));
        }
    }
    for cell in [1, 2] {
        assert!(is_applied(start(&mut map, cell, 2, Some(changing(disk)))));
    }
    assert!(is_applied(start(&mut map, 1, 3, Some(disk))));
    assert_eq!(start(&mut map, 3, 2, Some(A)), refused(A, 2, changing(disk)));
}

#[test]
fn above_a_bucket_ranges_are_whole_runs() {
    let cut = |start| Verdict::Refused(Refusal::CutsRun { start });
    for (cells, start) in [(65, 252), (100, 163), (1024, 16)] {
        let mut map = Map::new(7, cells, 2);
        assert_eq!(join(&mut map, 1, Some(A)), cut(start), "{cells} cells");
        assert!(is_applied(join(&mut map, 1, Some(NOTHING))));
    }
    let mut map = formed(&[Some(A); 64]);
    assert!(is_applied(start(&mut map, 5, 2, Some(A))));
    // As an earlier build has cut them.
    let mut map = formed(&[Some(A); 3]);
    (map.ranges[1].end, map.ranges[2].start) = (10_922, 10_922);
    assert_eq!(start(&mut map, 1, 2, Some(A)), cut(10_922));
    let text = Refusal::CutsRun { start: 10_922 }.to_string();
    assert!(text.contains("slice 10922") && text.contains("256") && text.contains("64 cells"));
}

#[test]
fn starts_of_an_earlier_build_and_witnesses_are_taken() {
    let mut map = formed(&[None, Some(A), None]);
    assert!(is_applied(start(&mut map, 1, 2, None)));
    assert!(is_applied(start(&mut map, 1, 3, Some(A))));
    let other = bucket(0xB, Ack::Os, 0);
    assert_eq!(start(&mut map, 3, 2, Some(other)), refused(other, 2, A));
    let started = started(1, Some(other));
    let of_witness = Started { below: None, ..started };
    assert!(is_applied(map.apply(&Command::JoinWitness { token: 9, started: of_witness })));
    let old = r#"{"incarnation":1,"addresses":{"control":"127.0.0.1:1","links":"127.0.0.1:1",
        "clients":"127.0.0.1:1"}}"#;
    let old: Started = serde_json::from_str(old).expect("a start that names no bucket");
    assert_eq!(old.below, None);
    let new = serde_json::to_string(&started).expect("it has no map in it");
    assert_eq!(serde_json::from_str::<Started>(&new).expect("as it was written"), started);
}

#[test]
fn a_refusal_names_both_values_and_the_remedy() {
    let text = |own, other| OtherBelow { own, cell: CellId(2), other }.to_string();
    let (b, disk, prefixes) =
        (bucket(0xB, Ack::Os, 0), bucket(0xA, Ack::Disk, 0), bucket(0xA, Ack::Os, 0xC));
    let cases = [
        (NOTHING, A, ["tier.database of this cell is none", "000000000000000a", "set the same"]),
        (A, NOTHING, ["000000000000000a", "that of cell 2 of the ring is none", "set the same"]),
        (A, b, ["000000000000000a", "000000000000000b", "set the same"]),
        (disk, A, ["tier.ack of this cell is disk", "is os", "tier.change_levels"]),
        (prefixes, A, ["checksum 0000000c", "00000000", "tier.change_levels"]),
    ];
    for (own, other, parts) in cases {
        let text = text(own, other);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
