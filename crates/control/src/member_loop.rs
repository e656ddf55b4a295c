//! The loop of the member: events and time in, heartbeats, proposals, leases and maps out.

use crate::config::{Clock, Plane};
use crate::hub::{Hub, Hubs};
use crate::keeps::Keeps;
use crate::present::Present;
use crate::time::Warnings;
use crate::voting::Voting;
use base::Now;
use quorum::{Coordinator, Quorum};
use ring::{
    CellId, Change, Command, Effect, Event, Heartbeat, Incarnation, Map, Member, Outcome, Outlook,
    RangeId, Refusal, lost_after_ns,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// How often it is looked which cells run.
const PRESENT_NS: u64 = 100_000_000;
/// How often the member is given what the cell holds.
const MEMORY_NS: u64 = 100_000_000;
/// How often it is looked what a cell alone, or the leader of the agreement, is to do.
const RING_NS: u64 = 1_000_000_000;
/// How often the second of the ring is kept.
const KEEP_NS: u64 = 10_000_000_000;

/// The member of a cell, and what its effects are carried out by.
pub(crate) struct MemberLoop {
    pub(crate) me: CellId,
    pub(crate) incarnation: Incarnation,
    pub(crate) hubs: Hubs,
    pub(crate) keeps: Keeps,
    pub(crate) quorum: Arc<Quorum<Hub>>,
    /// Of the thread that the coordinator runs in.
    pub(crate) runtime: Handle,
    pub(crate) plane: Arc<dyn Plane>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether it has the time of the ring already: it has founded it.
    pub(crate) knows_time: bool,
    /// Whether it was noted that its disk has failed.
    pub(crate) has_noted: AtomicBool,
    /// The version of the map from which it is recovered, or was; the highest number: of none.
    pub(crate) recovers_from: Arc<AtomicU64>,
    /// Proposals come back by it.
    pub(crate) events: mpsc::Sender<Event>,
}

/// What wakes the loop.
struct Sources {
    incoming: mpsc::Receiver<Event>,
    /// Versions of maps from which an operator wants this cell to go on alone.
    recoveries: mpsc::Receiver<u64>,
    /// Why the map refuses this life of the cell.
    refused: mpsc::Receiver<Refusal>,
    maps: watch::Receiver<Arc<Map>>,
    ended: watch::Receiver<Option<String>>,
}

/// What has happened.
enum Woken {
    Event(Event),
    Map(Arc<Map>),
    Recover(u64),
    /// This life of the cell is over; with the reason, if there is one.
    End(Option<String>),
}

impl Sources {
    /// What happens next; at the latest at `tick_at`, that time has passed.
    async fn next(&mut self, tick_at: Instant) -> Woken {
        tokio::select! {
            event = self.incoming.recv() => event.map_or(Woken::End(None), Woken::Event),
            changed = self.maps.changed() => match changed {
                Err(_) => Woken::End(None),
                Ok(()) => Woken::Map(self.maps.borrow_and_update().clone()),
            },
            Some(version) = self.recoveries.recv() => Woken::Recover(version),
            Some(refusal) = self.refused.recv() => Woken::End(Some(refusal.to_string())),
            Ok(why) = self.ended.wait_for(Option::is_some) => {
                Woken::End(Some(why.clone().unwrap_or_default()))
            }
            () = sleep_until(tick_at) => Woken::Event(Event::Tick),
        }
    }
}

/// What the loop remembers from one event to the next.
#[derive(Default)]
struct Past {
    /// When the member is given next what the cell holds.
    holds_at_ns: u64,
    present: Present,
    present_at_ns: u64,
    keep_at_ns: u64,
    warnings: Warnings,
    voting: Voting,
    /// When it is looked next whether a later edition of commands can be used, and, where no leader
    /// is heard, which one to ask for the map.
    ring_at_ns: u64,
    asked: CellId,
    /// What the member has heard last: for which map this cell is ready, and whether it leads the
    /// agreement.
    heard: (u64, bool),
}

impl MemberLoop {
    /// Runs until nobody can send an event any more.
    pub(crate) async fn run(
        self,
        incoming: mpsc::Receiver<Event>,
        recoveries: mpsc::Receiver<u64>,
        refused: mpsc::Receiver<Refusal>,
    ) {
        let (mut maps, ended) = (self.quorum.watch(), self.quorum.ended());
        let first = maps.borrow_and_update().clone();
        if first.has_removed(self.me) {
            return self.plane.end(removed(self.me));
        }
        self.hubs.adopt(&first);
        self.record(&Map::new(first.ring, u32::MAX, 1), &first, true);
        let start = self.clock.now();
        let mut member = Member::new(self.me, first.clone(), self.knows_time, start);
        member = member.of_life(self.incarnation);
        let mut past = Past::default();
        past.present.meet(first.cells.keys().copied(), start.mono_ns);
        self.adopt(&mut member, first);
        let mut sources = Sources { incoming, recoveries, refused, maps, ended };
        loop {
            let wait_ns = member.wakes_at_ns().saturating_sub(self.clock.now().mono_ns);
            let woken = sources.next(Instant::now() + Duration::from_nanos(wait_ns)).await;
            self.report(&mut member, &mut past.heard);
            match woken {
                Woken::Event(event) => {
                    if let Event::Heard { from, heartbeat, .. } = &event {
                        self.plane.hear_ready(*from, heartbeat.ready_version);
                    }
                    self.handle(&mut member, event);
                }
                Woken::Map(map) if map.has_removed(self.me) => {
                    return self.plane.end(removed(self.me));
                }
                Woken::Map(map) => {
                    let before = member.map().clone();
                    self.hubs.adopt(&map);
                    past.present.meet(map.cells.keys().copied(), self.clock.now().mono_ns);
                    self.keeps.map(map.clone());
                    self.adopt(&mut member, map.clone());
                    // The log may be slow: what the map says is done before.
                    self.record(&before, &map, false);
                }
                Woken::Recover(version) => self.recover(&member, version),
                Woken::End(why) => return why.into_iter().for_each(|why| self.plane.end(why)),
            }
            self.look(&mut member, &mut past);
        }
    }

    /// Lets the member know of what comes with no event, if it is new.
    fn report(&self, member: &mut Member, heard: &mut (u64, bool)) {
        let leads = self.quorum.leader() == Some(self.me);
        let now = (self.plane.ready_version(), leads);
        if *heard != now {
            *heard = now;
            self.handle(member, Event::Ready(now.0));
            self.handle(member, Event::Leads(leads));
        }
    }

    /// Does what is due.
    fn look(&self, member: &mut Member, past: &mut Past) {
        let now = self.clock.now();
        if let Some(from) = member.asks_for_map(now) {
            let quorum = self.quorum.clone();
            self.runtime.spawn(async move { quorum.fetch(from).await });
        }
        if now.mono_ns >= past.holds_at_ns {
            past.holds_at_ns = now.mono_ns + MEMORY_NS;
            self.handle(member, Event::Memory(self.plane.memory()));
        }
        if now.mono_ns >= past.keep_at_ns && member.knows_time() {
            past.keep_at_ns = now.mono_ns + KEEP_NS;
            self.keeps.second(now.expiry_s);
        }
        if now.mono_ns >= past.ring_at_ns {
            past.ring_at_ns = now.mono_ns + RING_NS;
            self.use_edition(member.map());
            self.ask_any(&mut past.asked);
        }
        if now.mono_ns >= past.present_at_ns {
            past.present_at_ns = now.mono_ns + PRESENT_NS;
            self.say_present(member, now, &mut past.present);
            self.warn(member, now, &mut past.warnings);
            self.watch_voters(member, now, &mut past.voting);
        }
    }

    /// Has the ring use the commands that all its cells understand.
    fn use_edition(&self, map: &Map) {
        let edition = map.edition_to_use().filter(|_| self.quorum.leader() == Some(self.me));
        if let Some(edition) = edition {
            let quorum = self.quorum.clone();
            self.runtime.spawn(async move { propose(&quorum, Command::Use { edition }).await });
        }
    }

    /// Asks one cell after the other for its map, while no leader of the agreement is heard: this
    /// one may have been removed, and only those that were, too, send it anything any more.
    fn ask_any(&self, asked: &mut CellId) {
        if self.quorum.follows() {
            return;
        }
        let others = self.hubs.calls.known();
        let next = others.iter().find(|cell| *cell > asked).or_else(|| others.first());
        if let Some(cell) = next.copied() {
            *asked = cell;
            let quorum = self.quorum.clone();
            self.runtime.spawn(async move { quorum.fetch(cell).await });
        }
    }

    /// Lets an operator know of voters that are missing.
    fn watch_voters(&self, member: &Member, now: Now, voting: &mut Voting) {
        let has_map = !member.map().cells.is_empty();
        let name = |cell| match self.hubs.beats.address(cell) {
            _ if cell == self.me => format!("cell {cell}, which is this one"),
            Some(address) => format!("cell {cell} at {address}"),
            None => format!("cell {cell}"),
        };
        let line = voting.due(&self.quorum.voters(), (has_map, now.mono_ns), name);
        line.into_iter().for_each(|line| self.plane.note(line));
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
        let (mut effects, now) = (Vec::new(), self.clock.now());
        member.handle(event, now, &mut effects);
        // Before anything is answered: who takes over answers by the second that it may show.
        if member.knows_time() {
            self.clock.raise(member.ceiling_s());
        }
        // Before anything is sent: a lease that ends with a proposal has ended here first.
        for range in member.map().ranges.iter().filter(|range| range.primary == self.me) {
            self.plane.extend(range.id, range.epoch, member.may_answer_until_ns(range.id, now));
        }
        for primary in member.map().primaries_copied_by(self.me) {
            self.plane.granted(primary, member.granted_by(primary));
        }
        for effect in effects {
            match effect {
                Effect::Follow { second } => self.clock.follow(second),
                Effect::Take { second } => {
                    self.clock.take(second);
                    self.serve(member);
                }
                Effect::Beat { to, heartbeat } => {
                    let led = member.map().ranges.iter().filter(|it| it.primary == self.me);
                    let mut copied = led.filter(|it| it.copies.contains(&to));
                    let serves = copied.all(|range| self.plane.serves(range));
                    self.hubs.beats.beat(to, Heartbeat { serves, ..heartbeat });
                }
                Effect::Unseal { at } => self.plane.unseal(at),
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
        // It is asked again until the map shows it.
        if self.recovers_from.load(Ordering::Acquire) == version {
            return;
        }
        let (voters, now) = (self.quorum.voters(), self.clock.now());
        let living: Vec<_> = voters.iter().filter(|it| !member.is_lost(**it, now)).collect();
        if member.map().version != version {
            self.plane.note("it is not recovered: the map has changed meanwhile".to_owned());
        } else if living.len() * 2 > voters.len() {
            let lost_after_s = lost_after_ns(member.map().cells.len()) / 1_000_000_000;
            let (living, all, seconds) = (living.len(), voters.len(), lost_after_s);
            self.plane.note(format!(
                "it is not recovered: {living} of {all} voters were heard within {seconds} s"
            ));
        } else {
            let (quorum, plane, me) = (self.quorum.clone(), self.plane.clone(), self.me);
            let recovers_from = self.recovers_from.clone();
            recovers_from.store(version, Ordering::Release);
            self.runtime.spawn(async move {
                plane.note(match quorum.recover(version).await {
                    Ok(_) => format!("cell {me} goes on from map {version} as the only voter"),
                    Err(error) => {
                        recovers_from.store(u64::MAX, Ordering::Release);
                        format!("it is not recovered: {error}")
                    }
                });
            });
        }
    }

    /// Says to the coordinator which cells run, so that the leader keeps the right voters.
    fn say_present(&self, member: &Member, now: Now, present: &mut Present) {
        let cells = member.map().cells.keys().copied();
        let heard: BTreeSet<_> = cells.filter(|cell| member.hears(*cell, now)).collect();
        let leader = self.quorum.leader();
        present.hear(heard.iter().copied(), now.mono_ns);
        let others = heard.iter().filter(|cell| **cell != self.me);
        let free_bytes = others.map(|cell| (*cell, member.free_bytes(*cell))).collect();
        self.plane.see(Outlook {
            heard,
            free_bytes,
            leader,
            voters: self.quorum.voters(),
            apart: member.apart(now),
            wall_ahead_s: self.wall_ahead_s(now),
        });
        if let Err(failure) = self.quorum.storage()
            && !self.has_noted.swap(true, Ordering::AcqRel)
        {
            self.plane.note(format!("this cell votes no more: {failure}"));
        }
        let due = present.due(member.map().version, leader, now.mono_ns);
        if let Some((present, under_way)) = due {
            let quorum = self.quorum.clone();
            self.runtime.spawn(async move {
                under_way.ends(quorum.set_present(&present).await);
            });
        }
    }
}

/// Why `cell` ends: it is in the ring no more.
fn removed(cell: CellId) -> String {
    format!(
        "the ring has no cell {cell} any more: it was removed, or has joined after the map from \
         which the ring was recovered; give it a new directory to have it join as another one"
    )
}

/// Proposes `command`. The call has a deadline.
pub(crate) async fn propose(quorum: &Quorum<Hub>, command: Command) -> Outcome {
    match quorum.propose(command).await {
        quorum::Outcome::Verdict(verdict) => Outcome::Decided(verdict),
        quorum::Outcome::Unknown => Outcome::Unknown,
        quorum::Outcome::Unavailable(_) => Outcome::Unavailable,
    }
}
