//! Cells that are removed, and commands that not all cells understand.

use super::command::{Addresses, Command, Refusal, Started, Verdict};
use super::edition::EDITION;
use super::ring_map::Map;
use crate::ids::{CellId, Incarnation};

fn started(edition: u16) -> Started {
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let addresses = Addresses { control: at, links: at, clients: at };
    Started { edition, ..Started::new(Incarnation(1), addresses) }
}

fn join(token: u64, edition: u16) -> Command {
    Command::Join { token, started: started(edition) }
}

/// Cells 1 and 2, which lead and copy everything, and cell 3, which has no part.
fn formed(editions: [u16; 3]) -> Map {
    let mut map = Map::new(7, 2, 2);
    for (token, edition) in (0..).zip(editions) {
        assert!(is_applied(&mut map, join(token, edition)));
    }
    map
}

fn is_applied(map: &mut Map, command: Command) -> bool {
    matches!(map.apply(&command), Verdict::Applied { .. })
}

fn refusal(map: &mut Map, command: Command) -> Option<Refusal> {
    let before = map.clone();
    let Verdict::Refused(refusal) = map.apply(&command) else { return None };
    assert_eq!(*map, before);
    Some(refusal)
}

fn remove(cell: u32, life: u64) -> Command {
    Command::Remove { cell: CellId(cell), life: Incarnation(life) }
}

#[test]
fn a_cell_without_a_part_is_removed_and_its_number_is_not_used_again() {
    let mut map = formed([EDITION; 3]);
    assert_eq!(refusal(&mut map, remove(1, 1)), Some(Refusal::HasPart));
    assert_eq!(refusal(&mut map, remove(3, 2)), Some(Refusal::OldLife));
    assert_eq!(refusal(&mut map, remove(4, 1)), Some(Refusal::NoCell));
    assert!(!map.has_removed(CellId(3)) && !map.has_removed(CellId(4)));
    assert!(is_applied(&mut map, remove(3, 1)));
    assert_eq!((map.cells.len(), map.fault()), (2, None));
    assert!(map.has_removed(CellId(3)));
    assert!(!map.has_removed(CellId(4)), "it may have joined since");
    assert_eq!(refusal(&mut map, remove(3, 1)), Some(Refusal::NoCell));
    let start = Command::Start { cell: CellId(3), started: started(EDITION) };
    assert_eq!(refusal(&mut map, start), Some(Refusal::NoCell));
    // The same process, with a new directory or the same token, is another cell.
    let joined = map.apply(&join(2, EDITION));
    assert!(matches!(joined, Verdict::Applied { cell: Some(CellId(4)), .. }), "{joined:?}");
}

/// Each of them stands in its way.
#[test]
fn a_cell_that_a_range_names_is_not_removed() {
    let names: [fn(&mut super::range::Range); 8] = [
        |range| range.primary = CellId(3),
        |range| range.copies.push(CellId(3)),
        |range| range.learner = Some(CellId(3)),
        |range| range.journals.push(CellId(3)),
        |range| range.moves_to = Some(CellId(3)),
        |range| range.leaves = Some(CellId(3)),
        |range| range.home = Some(CellId(3)),
        |range| range.divides = Some(super::Division { slice: 64, cell: CellId(3) }),
    ];
    for name in names {
        let mut map = formed([EDITION; 3]);
        name(&mut map.ranges[1]);
        assert_eq!(refusal(&mut map, remove(3, 1)), Some(Refusal::HasPart));
    }
}

#[test]
fn commands_are_used_that_all_cells_understand_and_then_no_earlier_build_is_taken() {
    let mut map = formed([2, 0, 2]);
    assert_eq!(map.edition_to_use(), None);
    assert_eq!(refusal(&mut map, Command::Use { edition: 1 }), Some(Refusal::NotUnderstood));
    let start = |edition| {
        let of_life = Started { incarnation: Incarnation(2), ..started(edition) };
        Command::Start { cell: CellId(2), started: of_life }
    };
    assert!(is_applied(&mut map, start(1)));
    assert_eq!(map.edition_to_use(), Some(1), "the earliest of all");
    assert!(is_applied(&mut map, Command::Use { edition: 1 }));
    assert_eq!((map.edition, map.edition_to_use()), (1, None));
    assert_eq!(refusal(&mut map, Command::Use { edition: 1 }), Some(Refusal::NotEligible));
    let earlier = Some(Refusal::EarlierBuild { has: 0, used: 1 });
    assert_eq!(refusal(&mut map, start(0)), earlier, "it has begun again as it was before");
    assert_eq!(refusal(&mut map, join(9, 0)), earlier);
    assert!(is_applied(&mut map, join(9, 1)));
}

/// It holds back what all are to understand: so removing it needs no edition.
#[test]
fn a_cell_of_an_earlier_edition_that_has_ended_is_removed() {
    let mut map = formed([1, 1, 0]);
    assert_eq!(map.edition_to_use(), None);
    assert!(is_applied(&mut map, remove(3, 1)));
    assert_eq!(map.edition_to_use(), Some(1));
}

#[test]
fn a_ring_that_has_not_formed_takes_any_build() {
    let mut map = Map::new(7, 2, 2);
    assert!(is_applied(&mut map, join(0, 7)));
    assert_eq!(map.edition_to_use(), None);
    assert!(is_applied(&mut map, join(1, 7)));
    assert_eq!(map.edition_to_use(), Some(7));
}

/// The first edition is not written.
#[test]
fn a_start_and_a_map_without_an_edition_are_of_the_first() {
    let text = serde_json::to_string(&started(0)).expect("it is data");
    assert!(!text.contains("edition"));
    let read: Started = serde_json::from_str(&text).expect("it is one");
    assert_eq!(read, started(0));
    let map = formed([0; 3]);
    let text = serde_json::to_string(&map).expect("it is data");
    let read: Map = serde_json::from_str(&text.replace(",\"edition\":0", "")).expect("it is one");
    assert_eq!(read, map);
}
