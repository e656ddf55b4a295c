//! `ctl ops`: what is under way in the ring: cells that leave, and ranges that move, are divided,
//! or become one.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::map::{Learned, Map, Range};
use super::progress::how_far;
use super::survey::Survey;
use super::table::plural;

/// Something that is under way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) kind: &'static str,
    /// The range that it is about, if it is about one.
    range: Option<u32>,
    /// The cell that leaves, or is to take something.
    cell: Option<u32>,
    /// In words.
    pub(super) text: String,
    /// How much of the range a cell that learns it was sent.
    learned: Option<Learned>,
}

impl Operation {
    fn to_json(&self) -> Value {
        let Self { kind, range, cell, text, learned } = self;
        json!({
            "kind": kind, "range": range, "cell": cell, "text": text,
            "bytes": learned.map(|it| it.bytes),
            "about_bytes": learned.map(|it| it.about_bytes).filter(|bytes| *bytes > 0),
            "left_ms": learned.and_then(|it| it.left_ms()),
        })
    }
}

/// Prints what is under way.
pub(super) fn print(survey: &Survey, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    let operations = operations(&survey.map);
    if as_json {
        let all: Vec<_> = operations.iter().map(Operation::to_json).collect();
        return writeln!(out, "{}", json!({ "operations": all }));
    }
    if operations.is_empty() {
        return writeln!(out, "nothing is under way");
    }
    operations.iter().try_for_each(|it| writeln!(out, "{}", it.text))
}

/// All that is under way by `map`.
pub(super) fn operations(map: &Map) -> Vec<Operation> {
    let leaving =
        map.cells.iter().filter_map(|(id, cell)| leaving(map, *id, cell.leaves.as_deref()?));
    leaving.chain(map.ranges.iter().filter_map(|range| of_range(map, range))).collect()
}

fn leaving(map: &Map, cell: u32, how: &str) -> Option<Operation> {
    let parts = map.ranges.iter().filter(|range| range.has(cell)).count();
    let kind = if how == "absorbed" { "absorb" } else { "drain" };
    let text =
        format!("cell {cell} is being {how}: it has a part in {} still", plural(parts, "range"));
    let learned = None;
    (parts > 0).then_some(Operation { kind, range: None, cell: Some(cell), text, learned })
}

fn of_range(map: &Map, range: &Range) -> Option<Operation> {
    let id = range.id;
    let learns = |cell: u32| match range.learner == Some(cell) {
        true => ", which learns it",
        false => "",
    };
    let (kind, cell, text) = if let Some((slice, cell)) = range.divides {
        ("divide", Some(cell), format!("is to be divided at slice {slice}, for cell {cell}"))
    } else if let Some((cell, copy)) = range.moves_to.zip(range.leaves) {
        let learns = learns(cell);
        ("replace", Some(cell), format!("its copy cell {copy} is replaced by cell {cell}{learns}"))
    } else if let Some(cell) = range.moves_to {
        ("move", Some(cell), format!("moves to cell {cell}{}", learns(cell)))
    } else if let Some(other) = range.unites_with {
        ("merge", None, format!("becomes one with range {other}"))
    } else if range.is_absorbed && map.ranges.len() > 1 {
        ("merge", None, "is to become one with a neighbour".to_owned())
    } else if let Some(cell) = range.home {
        ("return", Some(cell), format!("returns to cell {cell} once that runs"))
    } else {
        let cell = range.learner?;
        ("learn", Some(cell), format!("cell {cell} learns it"))
    };
    let learned = range.learned;
    let far = learned.as_ref().map(how_far).unwrap_or_default();
    Some(Operation {
        kind,
        range: Some(id),
        cell,
        text: format!("range {id}: {text}{far}"),
        learned,
    })
}

#[cfg(test)]
mod tests {
    use super::super::map::Member;
    use super::*;

    #[test]
    fn each_operation_is_a_line_and_an_object() {
        let cells = [1, 2].map(|cell| (cell, Member::default())).into();
        let range = |id| Range { id, primary: 1, copies: vec![2], ..Range::default() };
        let mut map = Map { cells, ranges: (1..=8).map(range).collect(), ..Map::default() };
        assert_eq!(operations(&map), []);
        map.cells.get_mut(&2).expect("it is there").leaves = Some("drained".to_owned());
        map.ranges[0].divides = Some((7, 3));
        (map.ranges[1].moves_to, map.ranges[1].learner) = (Some(3), Some(3));
        (map.ranges[2].moves_to, map.ranges[2].leaves) = (Some(3), Some(2));
        map.ranges[3].unites_with = Some(5);
        map.ranges[4].is_absorbed = true;
        map.ranges[5].home = Some(3);
        map.ranges[6].learner = Some(3);
        let learned = Learned { bytes: 1 << 20, about_bytes: 4 << 20, took_ms: 100 };
        map.ranges[6].learned = Some(learned);
        let said: Vec<_> = operations(&map).into_iter().map(|it| it.text).collect();
        let lines = [
            "cell 2 is being drained: it has a part in 8 ranges still",
            "range 1: is to be divided at slice 7, for cell 3",
            "range 2: moves to cell 3, which learns it",
            "range 3: its copy cell 2 is replaced by cell 3",
            "range 4: becomes one with range 5",
            "range 5: is to become one with a neighbour",
            "range 6: returns to cell 3 once that runs",
            "range 7: cell 3 learns it: 1M of about 4M, 0.3 s left",
        ];
        assert_eq!(said, lines);
        let object = operations(&map)[2].to_json();
        assert_eq!((object["kind"].as_str(), object["cell"].as_u64()), (Some("move"), Some(3)));
        assert!(object["bytes"].is_null());
        let object = operations(&map)[7].to_json();
        let left = [&object["bytes"], &object["about_bytes"], &object["left_ms"]];
        assert_eq!(left.map(|it| it.as_u64()), [Some(1 << 20), Some(4 << 20), Some(300)]);
    }
}
