//! What must be true of all cells at every step, and when a ring is healthy.

use crate::cells::Cells;
use crate::scene::{Life, Scene, index_of};
use ring::{Command, Why};

/// A primary that is replaced for its silence has stopped to answer before.
pub(crate) fn stopped(cells: &mut Cells, command: &Command, scene: &Scene) {
    let Command::Promote { at, why: Why::Silent, cell } = *command else { return };
    let map = cells.coordinator.map();
    let Some(range) = map.range(at.range).filter(|range| range.stamp() == at) else { return };
    let old = cells.machines[index_of(range.primary)].process.as_ref();
    let grants = range.copies.contains(&cell);
    if grants && old.is_some_and(|old| old.may_answer(range, scene)) {
        cells.fault.get_or_insert(format!(
            "range {}: cell {} may answer, and is replaced by cell {cell} for its silence",
            range.id, range.primary
        ));
    }
}

/// Looks for two cells that may acknowledge changes of the same range now.
pub(crate) fn leases(cells: &mut Cells, life: Life, scene: &Scene) {
    let Some(own) = &cells.machines[life.cell].process else { return };
    for range in &cells.coordinator.map().ranges {
        let Some(own_epoch) = own.answers_in(range, scene) else { continue };
        let others = cells.machines.iter().filter_map(|machine| machine.process.as_ref());
        for other in others.filter(|other| other.life.cell != life.cell) {
            let Some(epoch) = other.answers_in(range, scene) else { continue };
            let newer = if epoch > own_epoch { other } else { own };
            let holds_ns = newer.member.hold_until_ns(range.id);
            if epoch == own_epoch || holds_ns <= newer.now(scene).mono_ns {
                cells.fault.get_or_insert(format!(
                    "range {}: cell {} in epoch {own_epoch} and cell {} in epoch {epoch} may both \
                     acknowledge changes",
                    range.id,
                    life.cell + 1,
                    other.life.cell + 1
                ));
            }
        }
    }
}

/// Why the ring is not as it should be. `None` if it is.
pub(crate) fn illness(cells: &Cells, scene: &Scene) -> Option<String> {
    let map = cells.coordinator.map();
    for range in &map.ranges {
        let copies = range.in_sync().count();
        if copies < usize::from(map.copies_wanted) || range.learner.is_some() {
            return Some(format!("range {} has {copies} copies", range.id));
        }
        if range.home.is_some() || range.is_absorbed && map.ranges.len() > 1 {
            return Some(format!("range {} is not where it should be", range.id));
        }
        if range.is_ordered() {
            return Some(format!("an order about range {} stands", range.id));
        }
        let primary = cells.machines[index_of(range.primary)].process.as_ref();
        if !primary.is_some_and(|process| process.may_answer(range, scene)) {
            return Some(format!("cell {} does not serve range {}", range.primary, range.id));
        }
    }
    let running = cells.machines.iter().filter_map(|machine| machine.process.as_ref());
    if let Some(process) = running.clone().find(|process| !process.ring.leads_by_map()) {
        return Some(format!("cell {} leads what is no range any more", process.life.cell + 1));
    }
    let late = cells
        .machines
        .iter()
        .find(|machine| machine.process.as_ref().is_none_or(|it| it.ring.version() < map.version));
    late.map(|machine| format!("a cell goes by map {}, not {}", machine.known.version, map.version))
}
