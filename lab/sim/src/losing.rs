//! What happens to the disks of cells, and to their way to the bucket.

use crate::cells::Cells;
use crate::machine::Machine;
use crate::scene::{Event, Life, Scene, cell_id};
use faulty::objects::SimBucket;
use ring::Order;

/// How soon a cell starts again on an empty disk, at most.
const AGAIN_NS: u64 = 5_000_000;

/// The bucket of all, if there is one.
pub(crate) fn bucket(cells: &Cells) -> Option<&SimBucket> {
    cells.machines[0].below.as_ref().map(|below| below.bucket())
}

/// Sets whether the machines of some cells cannot reach the bucket.
pub(crate) fn set_away(cells: &Cells, of: &[usize], is_away: bool) {
    let below = of.iter().filter_map(|cell| cells.machines[*cell].below.as_ref());
    below.for_each(|below| below.objects.set_away(is_away));
}

/// Of 1,000 times that somebody looks while faults come, how often ranges that wait are forgiven.
const FORGIVES_PER_MILLE: u64 = 300;

/// Whether all that was promised is in other cells, which run: no range may be lost then.
fn may_lose_disk(cells: &Cells, cell: usize) -> bool {
    let runs = |(cell, machine): (usize, &Machine)| {
        let life = Life { cell, number: machine.number };
        machine.process.is_some() && cells.coordinator.has_started(life)
    };
    let me = cell_id(cell);
    let is_whole =
        |range: &ring::Range| !range.is_in_sync(me) || range.in_sync().any(|other| other != me);
    cells.fragile.is_none_or(|life| cells.coordinator.has_started(life))
        && cells.machines.iter().enumerate().all(runs)
        && !cells.coordinator.may_leave_alone(me)
        && cells.coordinator.map().ranges.iter().all(is_whole)
}

/// The machine of a cell goes off, loses its disk, and comes back soon; not where that may not be.
pub(crate) fn lose_disk(cells: &mut Cells, cell: usize, scene: &mut Scene) {
    if !cells.loses_all && !may_lose_disk(cells, cell) {
        return;
    }
    cells.crash(cell, true, scene);
    if let Some(below) = &mut cells.machines[cell].below {
        below.lose_disk(&mut scene.dice);
    }
    let number = cells.machines[cell].number + 1;
    cells.fragile = (!cells.loses_all).then_some(Life { cell, number });
    let delay_ns = scene.dice.duration(10_000, AGAIN_NS);
    scene.after(delay_ns, Event::Restart(cell));
}

/// An operator forgives the ranges that wait for one, at a cell that the map knows; while faults
/// come, only at times.
pub(crate) fn forgive(cells: &Cells, is_calm: bool, scene: &mut Scene) {
    let map = cells.coordinator.map();
    let runs = cells.machines.iter().filter_map(|machine| Some(machine.process.as_ref()?.life));
    let runs: Vec<_> = runs.filter(|life| cells.coordinator.has_started(*life)).collect();
    for range in map.ranges.iter().filter(|range| range.waits_for_operator) {
        if !runs.is_empty() && (is_calm || scene.dice.per_mille(FORGIVES_PER_MILLE)) {
            let (life, at) = (runs[scene.dice.index(runs.len())], range.stamp());
            scene.say(|| format!("  an operator forgives range {} at {life:?}", range.id));
            let order = ring::Event::Ordered(Order::Forgive { at });
            scene.after(0, Event::Member(life, Box::new(order)));
        }
    }
}
