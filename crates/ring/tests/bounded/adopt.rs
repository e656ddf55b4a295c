//! How a cell goes by a newer map.

use super::actions::Ring;
use super::cell::{CELLS, Cell, Learning, NOTHING, Outcome};
use super::rules::{LEASE, Rule};
use super::steps::was_in_sync;
use super::world::{World, id, index};
use ring::{Map, Range};

impl Ring {
    /// `cell` goes by the map of `version` from now on.
    pub fn adopt(&self, world: &mut World, cell: u8, version: u64) {
        let Some(map) = world.map_of(version).cloned() else { return };
        let old_map = world.map_of(world.cells[usize::from(cell)].map).cloned();
        let new = map.ranges[0].clone();
        let own = &mut world.cells[usize::from(cell)];
        own.map = version;
        own.began_well = false;
        forget_old_lives(own, old_map.as_deref(), &map);
        own.open = own.open.filter(|open| match open.state {
            Outcome::Applied(until) => version < until,
            _ => true,
        });
        let old = old_map.map(|map| map.ranges[0].clone());
        let known = old.as_ref().map_or(0, |old| old.losses);
        if new.losses > known && self.keeps(Rule::EmptyWaits) {
            let heard = old.as_ref().map(|old| own.silence[usize::from(index(old.primary))]);
            let granted = heard.map_or(0, |silence| self.silence().saturating_sub(silence));
            own.waits = own.waits.max(self.hold(own, granted));
        }
        let Some(old) = old else { return self.begins(own, &new, cell) };
        if new.primary == id(cell) {
            self.leads(own, &old, &new, cell);
        } else {
            self.follows(own, &old, &new, cell);
        }
    }

    /// Cells that have no part in the range, and get none, go by each map at once: whether they do
    /// so later makes no difference.
    pub fn adopt_idle(&self, world: &mut World) {
        for cell in 0..CELLS as u8 {
            let own = world.cells[usize::from(cell)].map;
            let has_part = |range: &Range| range.has(id(cell));
            let is_idle = world
                .maps
                .iter()
                .filter(|map| map.version >= own)
                .all(|map| !has_part(&map.ranges[0]));
            if is_idle && world.range(cell).is_some() {
                self.adopt(world, cell, world.map().version);
            }
        }
    }

    /// For how long nothing of its own is shown by one who begins to lead, where the earlier
    /// primary may hold a lease for `granted` ticks.
    fn hold(&self, own: &Cell, granted: u8) -> u8 {
        let granted = if self.keeps(Rule::Holds) { granted } else { 0 };
        let earlier = if self.keeps(Rule::HoldsForItsLifeBefore) { own.young } else { 0 };
        granted.max(earlier)
    }

    fn leads(&self, own: &mut Cell, old: &Range, new: &Range, cell: u8) {
        if own.leads != new.epoch {
            let silence = own.silence[usize::from(index(old.primary))];
            own.steps_down();
            if !was_in_sync(old, new, cell, self.bounds.tails) {
                own.empty();
            }
            (own.leads, own.before, own.since) = (new.epoch, own.version, 0);
            if !self.keeps(Rule::ExchangesTails) {
                // It takes what it has for what all have.
                own.acked = [own.version; CELLS];
            }
            own.hold = self.hold(own, self.silence().saturating_sub(silence));
        }
        let copies = new.copies.iter().map(|copy| index(*copy));
        for copy in copies.filter(|copy| old.learner == Some(id(*copy))) {
            own.exchanged |= 1 << copy;
        }
        let learns = |range: &Range| range.learner.map(|learner| (learner, range.learner_since));
        match learns(new) {
            None => own.learning = Learning::None,
            now if now == learns(old) && old.epoch == new.epoch => {}
            Some((learner, since)) => {
                let at = usize::from(index(learner));
                (own.learning, own.acked[at], own.reading[at]) =
                    (Learning::Waiting, NOTHING, since);
            }
        }
    }

    /// A process that has just started goes by its first map: it has nothing.
    fn begins(&self, own: &mut Cell, new: &Range, cell: u8) {
        if new.primary == id(cell) {
            (own.leads, own.hold) = (new.epoch, self.hold(own, 0));
        } else if new.learner == Some(id(cell)) {
            own.since = new.learner_since;
        }
    }

    fn follows(&self, own: &mut Cell, old: &Range, new: &Range, cell: u8) {
        own.steps_down();
        let me = id(cell);
        let is_same = old.primary == new.primary && old.epoch == new.epoch;
        let had = old.copies.contains(&me) || old.learner == Some(me);
        let stays = had && new.copies.contains(&me) && (is_same || self.bounds.tails);
        let learns_on =
            is_same && new.learner == Some(me) && old.learner_since == new.learner_since;
        if stays || learns_on && old.learner == Some(me) {
            return;
        }
        if self.keeps(Rule::BeginsEmpty) {
            own.empty();
        }
        own.applied = None;
        own.since = if new.learner == Some(me) { new.learner_since } else { 0 };
    }
}

/// What is known of earlier lives of other cells says nothing of the present ones.
fn forget_old_lives(own: &mut Cell, old: Option<&Map>, new: &Map) {
    for (other, started) in &new.cells {
        let known = old.map(|old| old.cells[other].started);
        if known != Some(started.started) {
            let at = usize::from(index(*other));
            (own.silence[at], own.counted[at], own.lease[at]) = (0, LEASE, LEASE);
        }
    }
}
