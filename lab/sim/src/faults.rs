//! The faults of a run: which kinds there are, when each comes, and how long it lasts.
//!
//! A run has some of the kinds only, so that one kind does not hide what another one finds.

use crate::cells::Cells;
use crate::coordinator::Weather;
use crate::losing;
use crate::machine::THREADS;
use crate::scene::{Event, Scene, cell_id, index_of};
use ring::Command;
use std::collections::BTreeMap;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A process ends, and another one starts later.
    Crash,
    /// A process ends, and another one starts at once.
    FastRestart,
    /// A machine goes off, and comes back.
    PowerOff,
    /// All threads of a process stop, and go on.
    Pause,
    /// One thread of a process stops, and goes on.
    Stall,
    /// A process stops in the middle of a batch, and goes on.
    StopInBatch,
    /// Two cells cannot reach each other.
    Partition,
    /// A cell does not hear another one, which hears it.
    OneWay,
    /// A cell can reach no other one.
    Isolation,
    /// The connections between two cells are reset.
    Reset,
    /// Cells find the control connections to a cell reset and refused, and it runs on.
    FalseBreak,
    /// The control plane of a cell can reach nobody, as all find; its links run on.
    ControlCut,
    /// What a cell sends and receives is late.
    SlowLink,
    /// Heartbeats are lost, late and in another order.
    LostBeats,
    /// A cell cannot reach the coordinator.
    CutOff,
    /// Commands and answers are lost or late, and commits slow.
    Coordinator,
    /// The monotonic clock of a machine jumps ahead by an hour.
    Jump,
    /// Who proposes learns no outcome, the command is late, and the proposer is cut off or ends.
    AtProposal,
    /// A cell is slow, and primaries go off when learners of theirs have come to be copies.
    AtAdmission,
    /// A primary cannot reach a copy, and a worker of it stops when the copy replaces it.
    AtPromotion,
    /// A primary reaches only one of its two copies for a moment, and its machine goes off.
    WithTail,
    /// All processes end, and others start later.
    AllEnd,
    /// All machines go off, and come back.
    AllOff,
    /// A machine stops in the middle of what a thread of its tier does.
    StopInCall,
    /// A disk is lost, while all that was promised is in other cells.
    DiskLost,
    /// One cell, or all, cannot reach the bucket.
    BucketAway,
    /// The bucket refuses requests, does not answer them, or carries them out late.
    BucketFails,
}

/// Those that need a tier.
pub const BELOW: [Kind; 6] = [
    Kind::AllEnd,
    Kind::AllOff,
    Kind::StopInCall,
    Kind::DiskLost,
    Kind::BucketAway,
    Kind::BucketFails,
];

/// All others.
pub const KINDS: [Kind; 21] = [
    Kind::Crash,
    Kind::FastRestart,
    Kind::PowerOff,
    Kind::Pause,
    Kind::Stall,
    Kind::StopInBatch,
    Kind::Partition,
    Kind::OneWay,
    Kind::Isolation,
    Kind::Reset,
    Kind::FalseBreak,
    Kind::ControlCut,
    Kind::SlowLink,
    Kind::LostBeats,
    Kind::CutOff,
    Kind::Coordinator,
    Kind::Jump,
    Kind::AtProposal,
    Kind::AtAdmission,
    Kind::AtPromotion,
    Kind::WithTail,
];

/// The longest time without new faults before other kinds come.
const REST_NS: u64 = 5_000_000_000;

/// Of 1,000 faults that come because a step of an operation has begun, how many are of any kind:
/// where all cells end again and again, few operations come that far.
const ANY_KIND_PER_MILLE: u64 = 500;

/// How to end a fault.
enum Mend {
    Unblock(Vec<(usize, usize)>),
    Control(usize),
    Quick(usize),
    Beats,
    Batches,
    Reconnect(usize),
    Coordinator,
    Proposals,
    Admissions(usize),
    Depositions,
    /// The machines of these cells reach the bucket again.
    Reach(Vec<usize>),
    /// The bucket answers again, and carries out later what is late.
    Bucket,
    Land,
    Calls(usize),
}

/// The faults of a run.
pub(crate) struct Faults {
    kinds: Vec<Kind>,
    mends: BTreeMap<u64, Mend>,
    next: u64,
    /// Between two faults, in the mean.
    pace_ns: u64,
    /// When other kinds are chosen.
    until_ns: u64,
    /// All from which they are chosen.
    all: Vec<Kind>,
    /// How often each kind came.
    pub(crate) counts: BTreeMap<Kind, u64>,
    is_over: bool,
}

/// Some of `all` kinds of faults, and the mean time between two of them.
fn some(all: &[Kind], scene: &mut Scene) -> (Vec<Kind>, u64) {
    let mut kinds = all.to_vec();
    scene.dice.shuffle(&mut kinds);
    kinds.truncate(scene.dice.between(1, 6) as usize);
    (kinds, scene.dice.duration(60_000_000, 800_000_000))
}

impl Faults {
    /// Some of these kinds of faults, from `from_ns` on. `changes`: other kinds come now and
    /// then.
    pub(crate) fn choose(from_ns: u64, changes: bool, all: Vec<Kind>, scene: &mut Scene) -> Self {
        let until_ns = if changes { 0 } else { u64::MAX };
        let (kinds, pace_ns) = some(&all, scene);
        scene.at(from_ns, Event::Fault);
        let (mends, counts) = (BTreeMap::new(), BTreeMap::new());
        Self { kinds, mends, next: 0, pace_ns, until_ns, all, counts, is_over: false }
    }

    /// Faults of this kind come, too, as long as the first kinds do.
    pub(crate) fn come_too(&mut self, kind: Kind) {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    /// The next fault begins, and the one after it is planned. Returns which kind it is of.
    pub(crate) fn begin(&mut self, cells: &mut Cells, scene: &mut Scene) -> Option<Kind> {
        if self.is_over {
            return None;
        }
        if scene.now_ns >= self.until_ns {
            (self.kinds, self.pace_ns) = some(&self.all, scene);
            let rest_ns = scene.dice.between(0, REST_NS);
            self.until_ns = scene.now_ns + rest_ns + scene.dice.between(REST_NS, 4 * REST_NS);
            scene.after(rest_ns, Event::Fault);
            return None;
        }
        losing::forgive(cells, false, scene);
        let kind = self.any(cells, scene);
        let delay_ns = scene.dice.between(self.pace_ns / 4, self.pace_ns * 2);
        scene.after(delay_ns, Event::Fault);
        Some(kind)
    }

    /// One more fault comes, in some cases of a kind that the run does not have. Returns which kind
    /// it is of.
    pub(crate) fn interrupt(&mut self, cells: &mut Cells, scene: &mut Scene) -> Option<Kind> {
        let is_any = scene.dice.per_mille(ANY_KIND_PER_MILLE);
        let kinds = if is_any { &self.all } else { &self.kinds };
        let kind = kinds[scene.dice.index(kinds.len())];
        (!self.is_over).then(|| self.comes(kind, cells, scene))
    }

    fn any(&mut self, cells: &mut Cells, scene: &mut Scene) -> Kind {
        let kind = self.kinds[scene.dice.index(self.kinds.len())];
        self.comes(kind, cells, scene)
    }

    fn comes(&mut self, kind: Kind, cells: &mut Cells, scene: &mut Scene) -> Kind {
        *self.counts.entry(kind).or_default() += 1;
        scene.note("fault", &[kind as u64]);
        scene.say(|| format!("fault: {kind:?}"));
        self.strike(kind, cells, scene);
        kind
    }

    fn strike(&mut self, kind: Kind, cells: &mut Cells, scene: &mut Scene) {
        let count = cells.machines.len();
        let cell = scene.dice.index(count);
        let other = (cell + 1 + scene.dice.index(count - 1)) % count;
        match kind {
            Kind::Crash | Kind::FastRestart | Kind::PowerOff => end(kind, cell, cells, scene),
            Kind::Pause => {
                let for_ns = scene.dice.duration(20_000_000, 1_500_000_000);
                cells.stop(cell, [true; THREADS], for_ns, scene);
            }
            Kind::Stall => {
                let mut threads = [false; THREADS];
                threads[scene.dice.index(cells.threads())] = true;
                let for_ns = scene.dice.duration(5_000_000, 800_000_000);
                cells.stop(cell, threads, for_ns, scene);
            }
            Kind::StopInBatch => {
                cells.stops = scene.dice.between(1, 20);
                self.mend_later(Mend::Batches, scene);
            }
            Kind::Partition => self.block(vec![(cell, other), (other, cell)], cells, scene),
            Kind::OneWay => self.block(vec![(cell, other)], cells, scene),
            Kind::Isolation => {
                let others = (0..count).filter(|other| *other != cell);
                let both = others.flat_map(|other| [(cell, other), (other, cell)]);
                self.block(both.collect(), cells, scene);
            }
            Kind::Reset => cells.reset_links([cell, other], scene),
            Kind::FalseBreak => self.break_falsely(cell, cells, scene),
            Kind::ControlCut => self.cut_control(cell, cells, scene),
            Kind::SlowLink => {
                cells.net.slow_ns[cell] = scene.dice.duration(2_000_000, 200_000_000);
                self.mend_later(Mend::Quick(cell), scene);
            }
            Kind::LostBeats => {
                cells.beats_lost = scene.dice.between(0, 600);
                cells.beats_late = scene.dice.between(0, 600);
                self.mend_later(Mend::Beats, scene);
            }
            Kind::Jump => cells.jump(cell, scene),
            Kind::CutOff => {
                cells.coordinator.cuts[cell] += 1;
                self.mend_later(Mend::Reconnect(cell), scene);
            }
            Kind::Coordinator => {
                cells.coordinator.weather = Weather {
                    answer_lost: scene.dice.between(0, 400),
                    late: scene.dice.between(0, 400),
                    lost: scene.dice.between(0, 300),
                    slow_ns: scene.dice.duration(1_000_000, 500_000_000),
                };
                self.mend_later(Mend::Coordinator, scene);
            }
            Kind::AtProposal | Kind::AtAdmission | Kind::AtPromotion => {
                self.await_change(kind, cell, cells, scene);
            }
            Kind::WithTail => self.leave_a_tail(cells, scene),
            Kind::AllEnd | Kind::AllOff => {
                (0..count).for_each(|cell| end(kind, cell, cells, scene));
            }
            Kind::StopInCall | Kind::DiskLost | Kind::BucketAway | Kind::BucketFails => {
                self.strike_below(kind, cell, cells, scene);
            }
        }
    }

    /// A fault of what lies below the cells.
    fn strike_below(&mut self, kind: Kind, cell: usize, cells: &mut Cells, scene: &mut Scene) {
        let count = cells.machines.len();
        match kind {
            Kind::StopInCall => {
                let calls = [8, 40, 200][scene.dice.index(3)];
                let calls = scene.dice.below(calls);
                if let Some(below) = &cells.machines[cell].below {
                    below.disk.stop_after(calls);
                    self.mend_later(Mend::Calls(cell), scene);
                }
            }
            Kind::DiskLost => losing::lose_disk(cells, cell, scene),
            Kind::BucketAway => {
                let is_one = scene.dice.per_mille(500);
                let away: Vec<_> = (0..count).filter(|it| !is_one || *it == cell).collect();
                losing::set_away(cells, &away, true);
                self.mend_later(Mend::Reach(away), scene);
            }
            Kind::BucketFails => {
                let per_mille = scene.dice.between(10, 400);
                if let Some(bucket) = losing::bucket(cells) {
                    bucket.fail(per_mille);
                }
                self.mend_later(Mend::Bucket, scene);
            }
            _ => {}
        }
    }

    /// One copy of three gets entries that another one does not get, and no more come. In a ring of
    /// two copies nothing is done.
    fn leave_a_tail(&mut self, cells: &mut Cells, scene: &mut Scene) {
        let map = cells.coordinator.map().clone();
        let has_two = map.ranges.iter().filter(|range| range.copies.len() > 1);
        let ranges: Vec<_> = has_two.collect();
        if ranges.is_empty() {
            return;
        }
        let range = ranges[scene.dice.index(ranges.len())];
        let primary = index_of(range.primary);
        let copy = index_of(range.copies[scene.dice.index(range.copies.len())]);
        self.block(vec![(primary, copy)], cells, scene);
        let delay_ns = scene.dice.duration(2_000_000, 120_000_000);
        scene.after(delay_ns, Event::GoesOff(primary));
    }

    /// A fault that comes with the next changes of the map.
    fn await_change(&mut self, kind: Kind, cell: usize, cells: &mut Cells, scene: &mut Scene) {
        match kind {
            Kind::AtProposal => {
                cells.ambushes = scene.dice.between(100, 900);
                self.mend_later(Mend::Proposals, scene);
            }
            Kind::AtPromotion => {
                cells.stops_deposed = true;
                self.mend_later(Mend::Depositions, scene);
                let map = cells.coordinator.map();
                let range = &map.ranges[scene.dice.index(map.ranges.len())];
                if let Some(copy) = range.copies.first() {
                    let (primary, copy) = (index_of(range.primary), index_of(*copy));
                    self.block(vec![(primary, copy), (copy, primary)], cells, scene);
                }
            }
            Kind::AtAdmission => {
                cells.net.slow_ns[cell] = scene.dice.duration(2_000_000, 100_000_000);
                cells.admissions = scene.dice.between(300, 1000);
                self.mend_later(Mend::Admissions(cell), scene);
            }
            _ => {}
        }
    }

    /// What happens to those who have proposed to admit a learner, or whose proposals are late.
    pub(crate) fn ambush(&mut self, cells: &mut Cells, scene: &mut Scene) {
        self.ambush_proposers(cells, scene);
        for (primary, learner) in std::mem::take(&mut cells.admitted) {
            if self.is_over {
                continue;
            }
            // What is on its way to the learner does not arrive.
            self.block(vec![(primary, learner)], cells, scene);
            let delay_ns = scene.dice.duration(2_000_000, 100_000_000);
            scene.after(delay_ns, Event::GoesOff(primary));
        }
    }

    /// A machine goes off, and comes back.
    pub(crate) fn goes_off(&self, cell: usize, cells: &mut Cells, scene: &mut Scene) {
        if !self.is_over {
            cells.crash(cell, true, scene);
            let delay_ns = scene.dice.duration(5_000_000, 2_000_000_000);
            scene.after(delay_ns, Event::Restart(cell));
        }
    }

    /// What happens to those whose proposals are late: they are cut off from all, or from the other
    /// cells, or end and start again at once, or nothing.
    fn ambush_proposers(&mut self, cells: &mut Cells, scene: &mut Scene) {
        for cell in std::mem::take(&mut cells.ambushed) {
            if self.is_over {
                continue;
            }
            let what = scene.dice.below(4);
            scene.say(|| format!("fault: cell {} proposes: {what}", cell + 1));
            if what == 0 {
                cells.coordinator.cuts[cell] += 1;
                self.mend_later(Mend::Reconnect(cell), scene);
            }
            if what < 2 {
                let others = (0..cells.machines.len()).filter(|other| *other != cell);
                let both = others.flat_map(|other| [(cell, other), (other, cell)]);
                self.block(both.collect(), cells, scene);
            }
            if what == 2 {
                cells.crash(cell, false, scene);
                let delay_ns = scene.dice.below(3_000_000);
                scene.after(delay_ns, Event::Restart(cell));
            }
        }
    }

    /// Some cells find the control connection to `cell` broken, and maybe its links too.
    fn break_falsely(&mut self, cell: usize, cells: &mut Cells, scene: &mut Scene) {
        for from in (0..cells.machines.len()).filter(|from| *from != cell) {
            if scene.dice.per_mille(300) {
                continue;
            }
            let life = cells.machines[from].process.as_ref().map(|process| process.life);
            if let Some(life) = life {
                cells.breaks(life, cell_id(cell), scene);
            }
            if scene.dice.per_mille(300) {
                cells.reset_links([from, cell], scene);
            }
        }
        if scene.dice.per_mille(500) {
            // Heartbeats do not repair at once what was found.
            let others = (0..cells.machines.len()).filter(|other| *other != cell);
            self.block(others.map(|other| (cell, other)).collect(), cells, scene);
        }
    }

    /// The control plane of `cell` is cut off from all others, which find its connections broken.
    /// So it is replaced before its leases end, knows nothing of that, and reaches its copies.
    fn cut_control(&mut self, cell: usize, cells: &mut Cells, scene: &mut Scene) {
        for other in (0..cells.machines.len()).filter(|other| *other != cell) {
            cells.net.block_control([cell, other], true);
            let life = cells.machines[other].process.as_ref().map(|process| process.life);
            if let Some(life) = life {
                cells.breaks(life, cell_id(cell), scene);
            }
        }
        cells.coordinator.cuts[cell] += 1;
        self.mend_later(Mend::Control(cell), scene);
    }

    fn block(&mut self, ways: Vec<(usize, usize)>, cells: &mut Cells, scene: &mut Scene) {
        ways.iter().for_each(|(from, to)| cells.net.block(*from, *to, true));
        scene.say(|| format!("fault: blocked {ways:?}"));
        self.mend_later(Mend::Unblock(ways), scene);
    }

    fn mend_later(&mut self, mend: Mend, scene: &mut Scene) {
        self.next += 1;
        self.mends.insert(self.next, mend);
        let delay_ns = scene.dice.duration(20_000_000, 2_500_000_000);
        scene.after(delay_ns, Event::Mend(self.next));
    }

    /// A fault ends.
    pub(crate) fn mend(&mut self, number: u64, cells: &mut Cells, scene: &mut Scene) {
        let Some(mend) = self.mends.remove(&number) else { return };
        scene.note("mend", &[number]);
        match mend {
            Mend::Unblock(ways) => {
                ways.iter().for_each(|(from, to)| cells.net.block(*from, *to, false));
            }
            Mend::Control(cell) => {
                let others = (0..cells.machines.len()).filter(|other| *other != cell);
                others.for_each(|other| cells.net.block_control([cell, other], false));
                reconnect(cell, cells, scene);
            }
            Mend::Quick(cell) => cells.net.slow_ns[cell] = 0,
            Mend::Beats => (cells.beats_lost, cells.beats_late) = (0, 0),
            Mend::Batches => cells.stops = 0,
            Mend::Reconnect(cell) => reconnect(cell, cells, scene),
            Mend::Proposals => cells.ambushes = 0,
            Mend::Depositions => cells.stops_deposed = false,
            Mend::Admissions(cell) => {
                cells.net.slow_ns[cell] = 0;
                cells.admissions = 0;
            }
            Mend::Coordinator => cells.coordinator.weather = Weather::default(),
            Mend::Reach(away) => losing::set_away(cells, &away, false),
            Mend::Bucket => {
                if let Some(bucket) = losing::bucket(cells) {
                    bucket.fail(0);
                }
                self.mend_later(Mend::Land, scene);
            }
            Mend::Land => {
                let count = scene.dice.between(1, 8);
                if let Some(bucket) =
                    losing::bucket(cells).filter(|bucket| bucket.land(count as usize))
                {
                    scene.say(|| format!("  late requests land: {:?}", bucket.tally()));
                    self.mend_later(Mend::Land, scene);
                }
            }
            Mend::Calls(cell) => {
                if let Some(below) = &cells.machines[cell].below {
                    below.disk.stop_never();
                }
            }
        }
    }

    /// All faults end, and no more come.
    pub(crate) fn end(&mut self, cells: &mut Cells, scene: &mut Scene) {
        self.is_over = true;
        for number in self.mends.keys().copied().collect::<Vec<_>>() {
            self.mend(number, cells, scene);
        }
        for cell in 0..cells.machines.len() {
            cells.machines[cell].stopped_ns = [scene.now_ns; THREADS];
            scene.after(scene.now_ns % 1_000_000, Event::Restart(cell));
        }
    }
}

/// A cell reaches the coordinator again, as far as one fault is concerned.
fn reconnect(cell: usize, cells: &mut Cells, scene: &mut Scene) {
    cells.coordinator.cuts[cell] -= 1;
    let version = cells.coordinator.map().version;
    scene.after(1_000_000, Event::MapComes(cell, version));
}

/// Stops a worker of a primary that `command` replaces: it finds that out together with what
/// has come in meanwhile.
pub(crate) fn stop_deposed(cells: &mut Cells, command: &Command, scene: &mut Scene) {
    let Command::Promote { at, .. } = *command else { return };
    let range = cells.coordinator.map().range(at.range);
    let Some(range) = range.filter(|range| range.stamp() == at) else { return };
    let old = index_of(range.primary);
    if cells.stops_deposed && cells.machines[old].process.is_some() {
        let mut threads = [false; THREADS];
        threads[scene.dice.index(cells.machines[old].shape.workers)] = true;
        let for_ns = scene.dice.duration(1_000_000, 300_000_000);
        cells.stop(old, threads, for_ns, scene);
    }
}

/// The process of a cell ends, or its machine goes off, and starts again.
fn end(kind: Kind, cell: usize, cells: &mut Cells, scene: &mut Scene) {
    cells.crash(cell, matches!(kind, Kind::PowerOff | Kind::AllOff), scene);
    let delay_ns = match kind {
        Kind::FastRestart => scene.dice.below(3_000_000),
        Kind::AllEnd | Kind::AllOff => scene.dice.duration(1_000_000, 1_000_000_000),
        _ => scene.dice.duration(5_000_000, 2_000_000_000),
    };
    scene.after(delay_ns, Event::Restart(cell));
}
