//! What has changed from one map to the next, in sentences for the log of events.

use super::range::Range;
use super::ring_map::Map;
use crate::ids::CellId;

/// What has changed since `before`: one line each.
pub(super) fn changes(before: &Map, after: &Map) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, cell) in &after.cells {
        let start = cell.started.incarnation.0;
        match before.cells.get(id) {
            None if cell.is_witness => {
                let at = cell.started.addresses.control;
                lines.push(format!("cell {id} has joined as a witness, at {at}"));
            }
            None => {
                lines.push(format!("cell {id} has joined, at {}", cell.started.addresses.clients))
            }
            Some(old) if old.started.incarnation < cell.started.incarnation => {
                lines.push(format!("cell {id} has started again: start {start}"));
            }
            Some(old) if old.started != cell.started => {
                lines.push(format!("cell {id} has moved to {}", cell.started.addresses.clients));
            }
            Some(old) if old.leaves != cell.leaves => lines.push(match cell.leaves {
                Some(_) => format!("cell {id} leaves the ring"),
                None => format!("cell {id} stays in the ring"),
            }),
            Some(_) => {}
        }
    }
    let removed = before.cells.keys().filter(|id| !after.cells.contains_key(id));
    lines.extend(removed.map(|id| format!("cell {id} is removed")));
    if before.edition != after.edition {
        lines.push(format!("commands of edition {} are used", after.edition));
    }
    if after.has_formed() && !before.has_formed() {
        let cells = after.cells.values().filter(|cell| !cell.is_witness).count();
        let ranges = after.ranges.len();
        lines.push(format!("the ring has formed: {cells} cells, {ranges} ranges"));
        return lines;
    }
    if let Some(flush) = after.flushes.latest().filter(|_| after.flushes != before.flushes) {
        lines.push(format!("all items end in second {} (flush {})", flush.due_s, flush.number));
    }
    for range in &after.ranges {
        // Of two that have become one each may have been lost before.
        let losses = before.overlapping(range).map(|old| old.losses).max().unwrap_or(0);
        let old = before.before(range).map(|old| Range { losses, ..old.clone() });
        match old.as_ref() {
            Some(old) if old.id != range.id => {
                let (id, of, from, to) = (range.id, old.id, range.start, range.end - 1);
                lines.push(format!("range {id}: slices {from} to {to} of range {of} are its own"));
                of_range(old, range, after.copies_wanted, &mut lines);
            }
            Some(old) => of_range(old, range, after.copies_wanted, &mut lines),
            None => {}
        }
        for old in before.overlapping(range).filter(|old| after.range(old.id).is_none()) {
            let (id, of, from, to) = (range.id, old.id, old.start, old.end - 1);
            lines.push(format!("range {id}: slices {from} to {to} of range {of} belong to it"));
        }
    }
    lines
}

fn of_range(old: &Range, new: &Range, wanted: u8, lines: &mut Vec<String>) {
    let id = new.id;
    if new.losses > old.losses {
        lines.push(format!(
            "range {id}: its last copy is lost; cell {} begins it again",
            new.primary
        ));
    } else if new.epoch > old.epoch && new.is_recovered {
        let (cell, epoch) = (new.primary, new.epoch);
        lines.push(format!("range {id}: cell {cell} has it from its journal (epoch {epoch})"));
    } else if new.epoch > old.epoch && new.primary == old.primary {
        lines.push(format!("range {id}: cell {} leads it on (epoch {})", new.primary, new.epoch));
    } else if new.epoch > old.epoch {
        let (from, to, epoch) = (old.primary, new.primary, new.epoch);
        lines
            .push(format!("range {id}: cell {to} leads it, no longer cell {from} (epoch {epoch})"));
    }
    if new.waits_for_operator && !old.waits_for_operator {
        let lost = "its last copy has lost its journal; it waits until it is forgiven";
        lines.push(format!("range {id}: {lost}"));
    }
    let left = |cell: &&CellId| !new.is_in_sync(**cell);
    for cell in old.copies.iter().filter(left) {
        lines.push(format!("range {id}: cell {cell} is no longer a copy"));
    }
    for cell in new.journals.iter().filter(|cell| !old.journals.contains(cell)) {
        lines.push(format!("range {id}: cell {cell} has it in its journal"));
    }
    let counts_no_more = |cell: &&CellId| !new.has(**cell);
    for cell in old.journals.iter().filter(counts_no_more) {
        lines.push(format!("range {id}: the journal of cell {cell} is of no use any more"));
    }
    for cell in new.copies.iter().filter(|cell| !old.is_in_sync(**cell)) {
        lines.push(format!("range {id}: cell {cell} is a copy"));
    }
    match (old.learner, new.learner) {
        (before, Some(cell)) if before != Some(cell) || old.learner_since != new.learner_since => {
            lines.push(format!("range {id}: cell {cell} begins to learn it"));
        }
        (Some(cell), None) if !new.is_in_sync(cell) => {
            lines.push(format!("range {id}: cell {cell} learns it no more"));
        }
        _ => {}
    }
    orders(old, new, lines);
    let (had, has) = (old.in_sync().count(), new.in_sync().count());
    if has < had && has < usize::from(wanted) {
        let copies = if has == 1 { "copy" } else { "copies" };
        lines.push(format!("range {id}: {has} {copies} left of {wanted}"));
    }
}

/// What is ordered, and what is not any more though it was not carried out.
fn orders(old: &Range, new: &Range, lines: &mut Vec<String>) {
    let id = new.id;
    let mut says = |what: String| lines.push(format!("range {id}: {what}"));
    match (old.moves_to, new.moves_to, old.leaves.or(new.leaves)) {
        (None, Some(cell), Some(copy)) => {
            says(format!("cell {cell} is to replace its copy cell {copy}"));
        }
        (None, Some(cell), None) => says(format!("it is to move to cell {cell}")),
        (Some(cell), None, Some(copy)) if new.is_in_sync(copy) => {
            says(format!("cell {cell} does not replace its copy cell {copy}"));
        }
        (Some(cell), None, None) if new.primary != cell => {
            says(format!("it does not move to cell {cell}"));
        }
        _ => {}
    }
    let is_merged = new.made_of.iter().any(|(id, _)| Some(*id) == old.unites_with);
    match (old.unites_with, new.unites_with) {
        (None, Some(other)) => says(format!("it is to become one with range {other}")),
        (Some(other), None) if !is_merged => {
            says(format!("it does not become one with range {other}"));
        }
        _ => {}
    }
    match (old.divides, new.divides) {
        (None, Some(into)) => {
            let (slice, cell) = (into.slice, into.cell);
            says(format!("it is to be divided at slice {slice}, for cell {cell}"));
        }
        (Some(_), None) if (old.start, old.end) == (new.start, new.end) => {
            says("it is not divided".to_owned());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Incarnation;
    use crate::map::{Addresses, Command, Started};

    #[test]
    fn each_change_is_a_line() {
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], 7));
        let started = |incarnation| Started {
            incarnation: Incarnation(incarnation),
            addresses: Addresses { control: at, links: at, clients: at },
            has_journal: false,
            has_tier: false,
            below: None,
            edition: 0,
        };
        let mut map = Map::new(7, 2, 2);
        let mut lines = Vec::new();
        let mut apply = |map: &mut Map, command| {
            let before = map.clone();
            map.apply(&command);
            lines.extend(changes(&before, map));
        };
        for token in [1, 2] {
            apply(&mut map, Command::Join { token, started: started(1) });
        }
        apply(&mut map, Command::JoinWitness { token: 3, started: started(1) });
        apply(&mut map, Command::Start { cell: CellId(1), started: started(2) });
        let at = map.ranges[0].stamp();
        apply(&mut map, Command::Learn { at, cell: CellId(1) });
        let at = map.ranges[0].stamp();
        apply(&mut map, Command::Admit { at, cell: CellId(1) });
        apply(&mut map, Command::Start { cell: CellId(2), started: started(2) });
        assert_eq!(
            lines.join("\n"),
            "cell 1 has joined, at 127.0.0.1:7\n\
             cell 2 has joined, at 127.0.0.1:7\n\
             the ring has formed: 2 cells, 2 ranges\n\
             cell 3 has joined as a witness, at 127.0.0.1:7\n\
             cell 1 has started again: start 2\n\
             range 1: cell 2 leads it, no longer cell 1 (epoch 2)\n\
             range 1: 1 copy left of 2\n\
             range 2: cell 1 is no longer a copy\n\
             range 2: 1 copy left of 2\n\
             range 1: cell 1 begins to learn it\n\
             range 1: cell 1 is a copy\n\
             cell 2 has started again: start 2\n\
             range 1: cell 1 leads it, no longer cell 2 (epoch 3)\n\
             range 1: 1 copy left of 2\n\
             range 2: its last copy is lost; cell 2 begins it again"
        );
    }
}
