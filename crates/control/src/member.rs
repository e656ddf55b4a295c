//! The loop of the member: events and time in, heartbeats, proposals, leases and maps out.

use crate::config::{Clock, Plane};
use crate::hub::Hub;
use crate::known::Known;
use crate::time::{KeptTime, Warnings};
use base::Now;
use quorum::{Coordinator, Quorum};
use ring::{
    CellId, Change, Command, Effect, Event, Incarnation, LOST_NS, Map, Member, Outcome, Outlook,
    RangeId,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

/// How often the member looks at the time.
const TICK: Duration = Duration::from_millis(10);
/// How often the coordinator is given the cells that run.
const PRESENT_NS: u64 = 100_000_000;
/// How often the member is given what the cell holds.
const MEMORY_NS: u64 = 100_000_000;
/// How often the second of the ring is kept.
const KEEP_NS: u64 = 10_000_000_000;
/// A cell counts as one that runs for this time after it was heard: who votes does not change with
/// each pause.
const ABSENT_NS: u64 = 5_000_000_000;

/// The member of a cell, and what its effects are carried out by.
pub(crate) struct Loop {
    pub(crate) me: CellId,
    pub(crate) incarnation: Incarnation,
    pub(crate) hub: Hub,
    pub(crate) known: Known,
    pub(crate) quorum: Arc<Quorum<Hub>>,
    /// Of the thread that the coordinator runs in.
    pub(crate) runtime: Handle,
    pub(crate) plane: Arc<dyn Plane>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether it has the time of the ring already: it has founded it.
    pub(crate) knows_time: bool,
    pub(crate) kept_time: KeptTime,
    /// Whether it was noted that its disk has failed.
    pub(crate) has_noted: AtomicBool,
    /// Proposals come back by it.
    pub(crate) events: mpsc::Sender<Event>,
}

impl Loop {
    /// Runs until nobody can send an event any more.
    pub(crate) async fn run(
        self,
        mut incoming: mpsc::Receiver<Event>,
        mut recoveries: mpsc::Receiver<u64>,
    ) {
        let mut ended = self.quorum.ended();
        let mut maps = self.quorum.watch();
        let first = maps.borrow_and_update().clone();
        self.hub.adopt(&first);
        self.record(&Map::new(first.ring, u32::MAX, 1), &first, true);
        let mut member = Member::new(self.me, first.clone(), self.knows_time, self.clock.now());
        self.adopt(&mut member, first);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let start_ns = self.clock.now().mono_ns;
        let cells = member.map().cells.keys();
        // At first all may run.
        let mut heard: BTreeMap<_, _> = cells.map(|cell| (*cell, start_ns)).collect();
        let (mut memory_at_ns, mut present_at_ns, mut keep_at_ns) = (0, 0, 0);
        let mut warnings = Warnings::default();
        let is_arranging = Arc::new(AtomicBool::new(false));
        loop {
            let event = tokio::select! {
                event = incoming.recv() => match event {
                    None => return,
                    Some(event) => event,
                },
                changed = maps.changed() => match changed {
                    Err(_) => return,
                    Ok(()) => {
                        let map = maps.borrow_and_update().clone();
                        self.hub.adopt(&map);
                        self.record(member.map(), &map, false);
                        self.keep(map.clone());
                        self.adopt(&mut member, map);
                        Event::Tick
                    }
                },
                Some(version) = recoveries.recv() => {
                    self.recover(&member, version);
                    Event::Tick
                }
                Ok(why) = ended.wait_for(Option::is_some) => {
                    let why = why.clone().unwrap_or_default();
                    self.plane.end(why);
                    return;
                }
                _ = ticks.tick() => Event::Ready(self.plane.ready_version()),
            };
            if let Event::Heard { from, heartbeat, .. } = &event {
                self.plane.hear_ready(*from, heartbeat.ready_version);
            }
            let is_tick = matches!(event, Event::Ready(_));
            self.handle(&mut member, event);
            if is_tick {
                self.look(&mut member, &mut memory_at_ns);
            }
            let now = self.clock.now();
            if let Some(from) = member.asks_for_map(now) {
                let quorum = self.quorum.clone();
                self.runtime.spawn(async move { quorum.fetch(from).await });
            }
            if now.mono_ns >= keep_at_ns && member.knows_time() {
                keep_at_ns = now.mono_ns + KEEP_NS;
                self.keep_time(now.expiry_s);
            }
            if now.mono_ns >= present_at_ns && !is_arranging.swap(true, Ordering::AcqRel) {
                present_at_ns = now.mono_ns + PRESENT_NS;
                self.say_present(&member, now, &mut heard, is_arranging.clone());
                self.warn(&member, now, &mut warnings);
            }
        }
    }

    /// Tells the member what it cannot know: whether this cell leads the agreement, and from time
    /// to time what it holds.
    fn look(&self, member: &mut Member, memory_at_ns: &mut u64) {
        let leads = self.quorum.leader() == Some(self.me);
        self.handle(member, Event::Leads(leads));
        let now_ns = self.clock.now().mono_ns;
        if now_ns >= *memory_at_ns {
            *memory_at_ns = now_ns + MEMORY_NS;
            self.handle(member, Event::Memory(self.plane.memory()));
        }
    }

    /// Passes on what has changed between two maps: the commands that were applied, or, where the
    /// map came as a whole, the difference.
    fn record(&self, before: &Map, after: &Map, is_old: bool) {
        if after.version == before.version {
            return;
        }
        let mut changes = self.quorum.changes_since(before.version);
        changes.retain(|change| change.version <= after.version);
        let first = changes.first().map(|change| change.before);
        let last = changes.last().map(|change| change.version);
        if (first, last) != (Some(before.version), Some(after.version)) {
            changes = vec![Change::of(before, after, None)];
        }
        changes.into_iter().for_each(|change| self.plane.record(change, is_old));
    }

    /// Keeps `map` in the directory, in the thread that waits for disks.
    fn keep(&self, map: Arc<Map>) {
        let (known, plane) = (self.known.clone(), self.plane.clone());
        self.runtime.spawn(async move {
            if let Err(error) = known.write(&map) {
                plane.note(format!("the map cannot be kept in the directory of the cell: {error}"));
            }
        });
    }

    /// Keeps the second of the ring, likewise.
    fn keep_time(&self, second: u32) {
        let (kept, plane) = (self.kept_time.clone(), self.plane.clone());
        self.runtime.spawn(async move {
            if let Err(error) = kept.write(second) {
                plane
                    .note(format!("the time cannot be kept in the directory of the cell: {error}"));
            }
        });
    }

    /// Lets an operator know of clocks that are wrong.
    fn warn(&self, member: &Member, now: Now, warnings: &mut Warnings) {
        if member.knows_time() {
            let lines = warnings.due(&member.apart(now), self.wall_ahead_s(now), now.mono_ns);
            lines.into_iter().for_each(|line| self.plane.note(line));
        }
    }

    /// How far the clock of the machine is ahead of the time of the ring.
    fn wall_ahead_s(&self, now: Now) -> i64 {
        i64::from(self.clock.wall_s()) - i64::from(now.expiry_s)
    }

    /// Goes by `map`.
    fn adopt(&self, member: &mut Member, map: Arc<Map>) {
        self.handle(member, Event::Map(map));
        self.serve(member);
    }

    /// Lets the plane go by the map of the member, if it may: this life of the cell is in it, and
    /// the time of the ring is known. Until then others may still take it for the one before.
    fn serve(&self, member: &Member) {
        let map = member.map().clone();
        let is_mine = |cell: &ring::Cell| cell.started.incarnation == self.incarnation;
        if !member.knows_time() || !map.cells.get(&self.me).is_some_and(is_mine) {
            return;
        }
        let holds = map.ranges.iter().map(|range| (range.id, member.hold_until_ns(range.id)));
        let holds: BTreeMap<RangeId, u64> = holds.collect();
        self.plane.adopt(map, holds);
    }

    fn handle(&self, member: &mut Member, event: Event) {
        let mut effects = Vec::new();
        member.handle(event, self.clock.now(), &mut effects);
        // Before anything is answered: who takes over answers by the second that it may show.
        if member.knows_time() {
            self.clock.raise(member.ceiling_s());
        }
        // Before anything is sent: a lease that ends with a proposal has ended here first.
        for range in member.map().ranges.iter().filter(|range| range.primary == self.me) {
            self.plane.extend(range.id, range.epoch, member.may_answer_until_ns(range.id));
        }
        for effect in effects {
            match effect {
                Effect::Follow { second } => self.clock.follow(second),
                Effect::Take { second } => {
                    self.clock.take(second);
                    self.serve(member);
                }
                Effect::Beat { to, heartbeat } => self.hub.beat(to, heartbeat),
                Effect::Propose { range, command } => {
                    let (quorum, events) = (self.quorum.clone(), self.events.clone());
                    self.runtime.spawn(async move {
                        let outcome = propose(&quorum, command).await;
                        let _ = events.send(Event::Proposed { range, outcome }).await;
                    });
                }
            }
        }
    }

    /// Goes on alone from the map of `version`, unless more than half of the voters may live.
    fn recover(&self, member: &Member, version: u64) {
        let (voters, now) = (self.quorum.voters(), self.clock.now());
        let living: Vec<_> = voters.iter().filter(|it| !member.is_lost(**it, now)).collect();
        if member.map().version != version {
            self.plane.note("it is not recovered: the map has changed meanwhile".to_owned());
        } else if living.len() * 2 > voters.len() {
            let (living, all, seconds) = (living.len(), voters.len(), LOST_NS / 1_000_000_000);
            self.plane.note(format!(
                "it is not recovered: {living} of {all} voters were heard within {seconds} s"
            ));
        } else {
            let (quorum, plane, me) = (self.quorum.clone(), self.plane.clone(), self.me);
            self.runtime.spawn(async move {
                plane.note(match quorum.recover(version).await {
                    Ok(_) => format!("cell {me} goes on from map {version} as the only voter"),
                    Err(error) => format!("it is not recovered: {error}"),
                });
            });
        }
    }

    /// Says to the coordinator which cells run, so that the leader keeps the right voters.
    fn say_present(
        &self,
        member: &Member,
        now: Now,
        heard: &mut BTreeMap<CellId, u64>,
        is_arranging: Arc<AtomicBool>,
    ) {
        let cells = member.map().cells.keys().copied();
        heard.extend(cells.filter(|cell| member.hears(*cell, now)).map(|it| (it, now.mono_ns)));
        heard.retain(|_, at_ns| now.mono_ns.saturating_sub(*at_ns) < ABSENT_NS);
        let present: Vec<_> = heard.keys().copied().collect();
        let cells = member.map().cells.keys().copied();
        self.plane.see(Outlook {
            heard: cells.filter(|cell| member.hears(*cell, now)).collect(),
            leader: self.quorum.leader(),
            voters: self.quorum.voters(),
            apart: member.apart(now),
            wall_ahead_s: self.wall_ahead_s(now),
        });
        if let Err(failure) = self.quorum.storage()
            && !self.has_noted.swap(true, Ordering::AcqRel)
        {
            self.plane.note(format!("this cell votes no more: {failure}"));
        }
        let quorum = self.quorum.clone();
        self.runtime.spawn(async move {
            quorum.set_present(&present).await;
            is_arranging.store(false, Ordering::Release);
        });
    }
}

/// Proposes `command`. The call has a deadline.
pub(crate) async fn propose(quorum: &Quorum<Hub>, command: Command) -> Outcome {
    match quorum.propose(command).await {
        quorum::Outcome::Verdict(verdict) => Outcome::Decided(verdict),
        quorum::Outcome::Unknown => Outcome::Unknown,
        quorum::Outcome::Unavailable(_) => Outcome::Unavailable,
    }
}
