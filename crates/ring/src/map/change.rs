//! One change of the map with its cause, for the log and for reports.

use super::changes::changes;
use super::command::Command;
use super::evenness::uneven;
use super::ring_map::Map;
use crate::ids::{CellId, RangeId};

/// The latest changes that a cell remembers.
pub const CHANGES_MAX: usize = 256;
/// Lines of one change. The end of a cell that led very many ranges has more.
const LINES_MAX: usize = 64;

/// A change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version of the map before it.
    pub before: u64,
    /// The version after it.
    pub version: u64,
    /// Why it was made.
    pub cause: String,
    /// What has changed: one sentence each.
    pub lines: Vec<String>,
}

impl Change {
    /// What `command` has changed. Without one, everything since `before`: a cell that was absent
    /// gets the map, and not the commands that made it.
    #[must_use]
    pub fn of(before: &Map, after: &Map, command: Option<&Command>) -> Self {
        let mut lines = changes(before, after);
        if let Some(Command::Settle { at }) = command {
            lines.push(format!("range {}: an earlier proposal can no longer be applied", at.range));
        }
        if lines.is_empty() {
            lines.push("no change but the version".to_owned());
        }
        if lines.len() > LINES_MAX {
            let more = lines.len() - LINES_MAX + 1;
            lines.truncate(LINES_MAX - 1);
            lines.push(format!("and {more} more"));
        }
        let cause = command.map_or_else(
            || format!("all that followed map {}", before.version),
            |command| cause(before, command),
        );
        Self { before: before.version, version: after.version, cause, lines }
    }

    /// An operator has made `cell` the only voter, which goes on from `before` as `after`.
    #[must_use]
    pub fn recovered(before: &Map, after: &Map, cell: CellId) -> Self {
        let lines = vec![format!("cell {cell} is the only voter of a new agreement")];
        let cause = format!("an operator recovers the ring at cell {cell}");
        Self { before: before.version, version: after.version, cause, lines }
    }
}

fn cause(before: &Map, command: &Command) -> String {
    match *command {
        Command::Join { .. } => "a cell asks to join".to_owned(),
        Command::JoinWitness { .. } => "a witness asks to join".to_owned(),
        Command::Start { cell, started } => {
            let known = before.cells.get(&cell).map(|it| it.started);
            if known == Some(started) {
                format!("cell {cell} repeats its start")
            } else if known.is_some_and(|it| it.incarnation == started.incarnation) {
                format!("cell {cell} has moved")
            } else {
                format!("cell {cell} has started again")
            }
        }
        Command::Leave { cell, how, .. } if how.is_absorbed => format!("cell {cell} is absorbed"),
        Command::Leave { cell, .. } => format!("cell {cell} is drained"),
        Command::Stay { cell, .. } => format!("cell {cell} is to stay"),
        Command::Remove { cell, .. } => format!("an operator removes cell {cell}"),
        Command::Use { .. } => "all cells understand more commands".to_owned(),
        Command::Promote { at, cell, why } => match before.range(at.range) {
            Some(range) => format!("cell {cell} finds: {}", why.of(range.primary)),
            None => "the primary is gone".to_owned(),
        },
        Command::Drop { at, cell, why } => match before.range(at.range) {
            Some(range) => format!("cell {} finds: {}", range.primary, why.of(cell)),
            None => why.of(cell),
        },
        Command::Learn { at, cell } => match before.range(at.range) {
            Some(range) if range.moves_to == Some(cell) => {
                format!("range {} is to have cell {cell}", at.range)
            }
            _ => format!("range {} lacks a copy", at.range),
        },
        Command::Admit { cell, .. } => format!("cell {cell} has everything"),
        Command::Move { at, cell, from } => moved(before, at.range, (cell, from)),
        Command::Divide { at, .. } => format!("an operator divides range {}", at.range),
        Command::Split { at } => match before.range(at.range) {
            Some(range) => format!("cell {} divides it", range.primary),
            None => "the primary divides it".to_owned(),
        },
        Command::Unite { at, with } => {
            format!("ranges {} and {} are to become one", at.range, with.range)
        }
        Command::Merge { at, .. } => match before.range(at.range) {
            Some(range) => format!("cell {} makes one of them", range.primary),
            None => "the primary makes one of them".to_owned(),
        },
        Command::HandOver { at, .. } => match before.range(at.range) {
            Some(range) => format!("cell {} hands it over", range.primary),
            None => "the primary hands it over".to_owned(),
        },
        Command::Forgive { at, .. } => format!("an operator forgives range {}", at.range),
        Command::Flush { .. } => "a client asks for flush_all".to_owned(),
        Command::Settle { .. } => "the outcome of a proposal was unknown".to_owned(),
    }
}

/// Why a range is to move to `cell`, or that is to replace the copy `from`.
fn moved(before: &Map, id: RangeId, (cell, from): (CellId, Option<CellId>)) -> String {
    let Some(range) = before.range(id) else { return format!("range {id} is to move") };
    let left = from.unwrap_or(range.primary);
    if before.leaving(left).is_some() {
        format!("cell {left} leaves")
    } else if range.home == Some(cell) {
        format!("cell {cell} has started again")
    } else if range.is_absorbed {
        format!("range {id} is to become one with a neighbour")
    } else if uneven(before)
        .is_some_and(|it| it.range == id && (it.to, Some(it.from)) == (cell, from))
    {
        format!("cell {left} has more parts than cell {cell}")
    } else {
        format!("an operator moves range {id}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Incarnation;
    use crate::map::{Addresses, Started, Why};

    #[test]
    fn each_command_has_a_cause() {
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], 7));
        let addresses = Addresses { control: at, links: at, clients: at };
        let started = |life| Started::new(Incarnation(life), addresses);
        let mut map = Map::new(7, 3, 2);
        let mut seen = Vec::new();
        let mut apply = |map: &mut Map, make: &dyn Fn(&Map) -> Command| {
            let (before, command) = (map.clone(), make(map));
            map.apply(&command);
            let change = Change::of(&before, map, Some(&command));
            assert_eq!((change.before + 1, change.version), (map.version, map.version));
            seen.push(change.cause);
        };
        for token in 1..=3 {
            apply(&mut map, &|_| Command::Join { token, started: started(1) });
        }
        let stamp = |map: &Map| map.ranges[0].stamp();
        let (a, b, c) = (CellId(1), CellId(2), CellId(3));
        apply(&mut map, &|map| Command::Drop { at: stamp(map), cell: b, why: Why::Refuses });
        apply(&mut map, &|map| Command::Learn { at: stamp(map), cell: c });
        apply(&mut map, &|map| Command::Admit { at: stamp(map), cell: c });
        apply(&mut map, &|map| Command::Move { at: stamp(map), cell: c, from: None });
        apply(&mut map, &|map| Command::HandOver { at: stamp(map), cell: c });
        apply(&mut map, &|map| Command::Promote { at: stamp(map), cell: a, why: Why::Broken });
        apply(&mut map, &|_| Command::Start { cell: a, started: started(2) });
        apply(&mut map, &|_| Command::Start { cell: a, started: started(2) });
        apply(&mut map, &|map| Command::Settle { at: stamp(map) });
        apply(&mut map, &|map| Command::Forgive { at: stamp(map), cell: b });
        apply(&mut map, &|_| Command::Flush { due_s: 9, at_s: 1 });
        let causes = [
            "a cell asks to join",
            "a cell asks to join",
            "a cell asks to join",
            "cell 1 finds: cell 2 takes no more changes",
            "range 1 lacks a copy",
            "cell 3 has everything",
            "an operator moves range 1",
            "cell 1 hands it over",
            "cell 1 finds: the connections of cell 3 are broken",
            "cell 1 has started again",
            "cell 1 repeats its start",
            "the outcome of a proposal was unknown",
            "an operator forgives range 1",
            "a client asks for flush_all",
        ];
        assert_eq!(seen, causes);
        let all = Change::of(&Map::new(7, 3, 2), &map, None);
        assert_eq!((all.before, all.version), (0, 14));
        assert_eq!(all.cause, "all that followed map 0");
    }
}
