//! The member: a function of events and time.

use super::beats::Beats;
use super::choice::Choice;
use super::event::{Effect, Event, Granted, Heartbeat, Order};
use super::leases::{BEAT_NS, DEAF_NS, LEASE_NS, SHRINK_NS, SILENCE_NS};
use super::moving::Moving;
use super::newer::Newer;
use super::peers::{Peer, Peers};
use super::proposals::Proposals;
use super::sealed::Sealed;
use super::time::{RingTime, apart};
use crate::ids::{CellId, Incarnation, RangeId};
use crate::map::{Command, Map, Range, Stamp, Uneven, Why, uneven};
use base::Now;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a learner may be silent.
const LEARNER_SILENCE_NS: u64 = 2_000_000_000;

/// How long one may be silent of which nothing has arrived since it was named: it may have ended
/// before, unnoticed by a cell that shared no range with it.
pub(super) const NAMED_NS: u64 = 400_000_000;

/// A cell that is woken later than it has asked for by more than this was stopped itself: nobody is
/// blamed for the time. Less is what a busy machine takes.
const STOPPED_NS: u64 = 20_000_000;
// One that was stopped for less finds nobody silent whose latest heartbeat had arrived in time.
const _: () = assert!(2 * BEAT_NS + STOPPED_NS < SHRINK_NS);

/// A cell that is woken later than this may have a clock that has jumped, at any time since its
/// latest event. It excuses the others from that event on. Where it is late for less, that would
/// hide their silence on a machine that wakes it late every time.
const JUMPED_NS: u64 = 1_000_000_000;

/// Earlier primaries of a range, which hold leases that this cell has granted.
#[derive(Clone, Copy, Default)]
struct Hold {
    /// When the last of these leases ends.
    until_ns: u64,
    /// The earliest second that one of them may show meanwhile.
    shown_s: u32,
}

/// One cell as a member of its ring.
///
/// Invariants: while a proposal of its own may replace a primary, it grants that primary no lease.
/// It proposes to replace a primary only when every lease that it has granted has ended, or where
/// a second cell has found the primary's links broken too; then [`Member::hold_until_ns`] says when
/// they end.
pub struct Member {
    me: CellId,
    /// The life of this cell, where it is known: it proposes nothing before the map knows it.
    life: Option<Incarnation>,
    map: Arc<Map>,
    peers: Peers,
    proposals: Proposals,
    beats: Beats,
    newer: Newer,
    time: RingTime,
    /// Learners that have caught up, by range.
    ready: BTreeMap<RangeId, (Stamp, CellId)>,
    sealed: Sealed,
    /// Copies that take no more.
    refusing: BTreeMap<RangeId, (Stamp, CellId)>,
    choice: Choice,
    /// By range, what earlier primaries may still answer.
    holds: BTreeMap<RangeId, Hold>,
    /// By range that was lost, until when this cell does not even answer that it is empty: an
    /// earlier primary may still answer from what there was.
    lost: BTreeMap<RangeId, u64>,
    /// By range, the latest second that an earlier primary may have shown.
    shown_s: BTreeMap<RangeId, u32>,
    /// The copy that should be elsewhere by the map, and since when that is so.
    uneven: Option<(Uneven, u64)>,
    /// The version of the map for which this cell is ready to learn.
    ready_version: u64,
    /// Memory that is free in this cell.
    free_bytes: u64,
    /// When this life began.
    start_ns: u64,
    /// When an event must come at the latest, so that no rule is late.
    due_ns: u64,
    /// When the latest event came.
    handled_ns: u64,
}

impl Member {
    /// The member of `cell` in the ring of `map`. `knows_time`: `now` has the second of the ring.
    /// Otherwise it is learned from others, and nothing may be served before.
    #[must_use]
    pub fn new(me: CellId, map: Arc<Map>, knows_time: bool, now: Now) -> Self {
        let mut peers = Peers::default();
        peers.adopt(&map, me, now.mono_ns);
        let lost = map.ranges.iter().filter(|range| range.losses > 0);
        let lost = lost.map(|range| (range.id, now.mono_ns + SILENCE_NS)).collect();
        Self {
            me,
            life: None,
            map,
            peers,
            proposals: Proposals::default(),
            beats: Beats::default(),
            newer: Newer::default(),
            time: RingTime::new(knows_time, now),
            ready: BTreeMap::new(),
            sealed: Sealed::default(),
            refusing: BTreeMap::new(),
            choice: Choice::default(),
            holds: BTreeMap::new(),
            lost,
            shown_s: BTreeMap::new(),
            uneven: None,
            ready_version: 0,
            free_bytes: 0,
            start_ns: now.mono_ns,
            due_ns: now.mono_ns,
            handled_ns: now.mono_ns,
        }
    }

    /// The same in this life. Before the map knows it, the cell proposes nothing: what the map says
    /// of it is about an earlier life.
    #[must_use]
    pub fn of_life(self, life: Incarnation) -> Self {
        Self { life: Some(life), ..self }
    }

    /// Its map.
    #[must_use]
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// Takes in an event, and adds what is to be done to `effects`. `now` has the own second of the
    /// cell, whether or not it may be shown.
    pub fn handle(&mut self, event: Event, now: Now, effects: &mut Vec<Effect>) {
        let late_ns = now.mono_ns.saturating_sub(self.due_ns);
        if late_ns > JUMPED_NS {
            self.peers.excuse(now.mono_ns - self.handled_ns);
        } else if late_ns > STOPPED_NS {
            self.peers.excuse(late_ns);
        }
        self.handled_ns = now.mono_ns;
        let said_s = self.time.said_s();
        let broken = self.peers.broken();
        self.time.passes(now);
        let mut has_heard = false;
        match event {
            Event::Map(map) => self.adopt(map, now),
            Event::Heard { from, incarnation, heartbeat } => {
                has_heard = self.hear((from, incarnation), heartbeat, now, effects);
            }
            Event::Leads(leads) => self.time.leads(leads, now),
            Event::Broken(cell) => self.peers.breaks(cell),
            Event::Proposed { range, outcome } => {
                if let Some(at) = self.proposals.ended(range, outcome, now.mono_ns) {
                    let given_up = self.sealed.gives_up(at, &self.map);
                    effects.extend(given_up.map(|at| Effect::Unseal { at }));
                }
            }
            Event::CaughtUp { at, cell } => {
                // One that comes late may be about an earlier time in which it was a learner.
                if self.map.range(at.range).is_some_and(|range| range.stamp() == at) {
                    self.ready.insert(at.range, (at, cell));
                }
            }
            Event::Refuses { at, cell } => {
                self.refusing.insert(at.range, (at, cell));
                let range = self.map.range(at.range);
                // Of a cell whose journal counts it means that the primary can do without.
                if range.is_none_or(|range| !range.journals.contains(&cell)) {
                    self.choice.refuses(at.range, cell, now.mono_ns);
                }
            }
            Event::Ordered(order) => self.order(order, now, effects),
            Event::Sealed { at } => self.sealed.seals(at, &self.map),
            Event::Ready(version) => self.ready_version = version,
            Event::Memory(memory) => {
                self.free_bytes = memory.free_bytes;
                self.choice.holds(memory);
            }
            Event::Tick => {}
        }
        self.time.decide(self.peers.none_knows_time(now.mono_ns), now, effects);
        self.proposals.adopt(&self.map, now.mono_ns);
        self.choice.look((&self.map, self.me, &self.peers), now.mono_ns);
        self.propose(now, effects);
        self.raise_time(now);
        // Others may have to know before they show it, or before this cell leads with their leases.
        if self.time.said_s() != said_s {
            self.beats.hurry();
        }
        // Two that know of a broken link replace a primary, so it counts when it was broken.
        if self.peers.broken() != broken {
            self.beats.hurry_to_all();
        }
        if self.beats.are_due(now.mono_ns, has_heard) {
            self.beat(now, effects);
        }
        let holds_ns = self.holds.values().map(|hold| hold.until_ns);
        let begins_ns = self.lost.values().copied().chain(holds_ns);
        let begins_ns = begins_ns.filter(|until| *until > now.mono_ns).min();
        let rules = [self.peers.due_ns(now.mono_ns), self.proposals.due_ns(), begins_ns];
        let beats_ns = self.beats.next_ns();
        self.due_ns = rules.into_iter().flatten().fold(beats_ns, u64::min);
    }

    /// Takes in a heartbeat. Returns whether it is the latest of a sender whose others come as
    /// often as the own ones.
    fn hear(
        &mut self,
        (from, incarnation): (CellId, Incarnation),
        heartbeat: Heartbeat,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let heartbeat = self.of_this_life(heartbeat, now);
        let (second, heard_ns) = (heartbeat.expiry_s, heartbeat.heard_ns);
        let at = (now.mono_ns, self.map.version);
        self.newer.hear(from, heartbeat.map_version, self.map.version, now.mono_ns);
        let is_latest = self.peers.hear(from, incarnation, heartbeat, at);
        if is_latest {
            let is_fresh = heard_ns > 0 && now.mono_ns - heard_ns < LEASE_NS;
            self.time.hear(second, is_fresh, effects);
        }
        is_latest && self.peers.sends_all(from)
    }

    /// When an event must come, and the map of another cell be asked for, at the latest, in
    /// nanoseconds of the monotonic clock: with the next heartbeats, or when something follows from
    /// time alone. Rules of a second and more are looked at with each heartbeat.
    #[must_use]
    pub fn wakes_at_ns(&self) -> u64 {
        self.newer.due_ns().unwrap_or(u64::MAX).min(self.due_ns)
    }

    /// The cell to ask now for its map, which is newer than that of this one. [`Event::Map`]
    /// follows if it answers.
    pub fn asks_for_map(&mut self, now: Now) -> Option<CellId> {
        self.newer.asks(now.mono_ns)
    }

    /// Until when this cell may answer as the primary of `range`, in nanoseconds of the monotonic
    /// clock; 0 if it may not. Alone it always may: nobody else can become the primary. Where the
    /// range was lost, it may not even say that nothing is there before the earlier leases have
    /// ended; nor may it answer before if an earlier primary may show an earlier second.
    #[must_use]
    pub fn may_answer_until_ns(&self, range: RangeId, now: Now) -> u64 {
        let led = self.map.range(range).filter(|range| range.primary == self.me);
        let Some(range) = led else { return 0 };
        if self.lost.get(&range.id).is_some_and(|until_ns| now.mono_ns < *until_ns) {
            return 0;
        }
        if self.time.ceiling_s() < self.shows_from_s(range.id) {
            return 0;
        }
        let held = self.holds.get(&range.id).filter(|hold| now.mono_ns < hold.until_ns);
        if held.is_some_and(|hold| hold.shown_s < self.time.ceiling_s()) {
            return 0;
        }
        self.granters(range).map(|cell| self.lease_until_ns(cell)).min().unwrap_or(u64::MAX)
    }

    /// What `primary`, whose changes this cell copies, has granted it. Its own reads rest on that:
    /// it answers them as a copy.
    #[must_use]
    pub fn granted_by(&self, primary: CellId) -> Granted {
        let granted = |peer: &Peer| Granted {
            from_ns: peer.served_from_ns.unwrap_or(0),
            map_version: self.map.version,
            shown_s: peer.shown_s,
            may_show_s: self.time.shown_by_others_s(),
        };
        self.peers.get(primary).map(granted).unwrap_or_default()
    }

    /// The second that this cell must be able to show before it answers as the primary of `range`:
    /// an earlier one may have shown it, and an item that a client has found expired stays expired.
    #[must_use]
    pub fn shows_from_s(&self, range: RangeId) -> u32 {
        self.shown_s.get(&range).copied().unwrap_or(0)
    }

    /// Whether it has the time of the ring. Until then it may serve nothing.
    #[must_use]
    pub fn knows_time(&self) -> bool {
        self.time.is_known()
    }

    /// The latest second that requests may be shown.
    #[must_use]
    pub fn ceiling_s(&self) -> u32 {
        self.time.ceiling_s()
    }

    /// The cells whose time is so far from that of this one that neither follows the other, and by
    /// how many seconds each is ahead.
    #[must_use]
    pub fn apart(&self, now: Now) -> Vec<(CellId, i64)> {
        let own_s = self.time.said_s();
        let seconds = self.peers.seconds(now.mono_ns).filter(|_| own_s != 0);
        seconds.filter_map(|(cell, second)| Some((cell, apart(own_s, second)?))).collect()
    }

    /// Until when this cell commits nothing as the primary of `range`: an earlier primary may still
    /// hold a lease that this cell has granted, in this life or in the one before.
    #[must_use]
    pub fn hold_until_ns(&self, range: RangeId) -> u64 {
        // An earlier life of this cell may have granted a lease just before it ended.
        let of_earlier_ns = self.start_ns + SILENCE_NS;
        self.holds.get(&range).map_or(0, |hold| hold.until_ns).max(of_earlier_ns)
    }

    /// Whether a heartbeat of `cell` has arrived recently.
    #[must_use]
    pub fn hears(&self, cell: CellId, now: Now) -> bool {
        cell == self.me || self.peers.get(cell).is_some_and(|peer| peer.is_heard(now.mono_ns))
    }

    /// How long `cell` was not heard, in nanoseconds.
    #[cfg(test)]
    pub(super) fn silent_ns(&self, cell: CellId, now: Now) -> u64 {
        self.peers.get(cell).map_or(0, |peer| peer.silent_ns(now.mono_ns))
    }

    /// Memory that is free in `cell`, in bytes, as it has said last.
    #[must_use]
    pub fn free_bytes(&self, cell: CellId) -> u64 {
        self.peers.get(cell).map_or(0, |peer| peer.free_bytes)
    }

    /// Whether no heartbeat of `cell` has arrived for [`LOST_NS`](super::LOST_NS), and the time in
    /// which it sends some to those that share no range with it; not even one that does not count.
    #[must_use]
    pub fn is_lost(&self, cell: CellId, now: Now) -> bool {
        let peer = self.peers.get(cell);
        cell != self.me && peer.is_none_or(|peer| peer.is_lost(now.mono_ns))
    }

    /// Whether `cell` holds nothing of what the map of `version` makes it learn.
    #[must_use]
    pub fn is_ready(&self, cell: CellId, version: u64) -> bool {
        self.peers.get(cell).is_some_and(|peer| peer.ready_version >= version)
    }

    fn adopt(&mut self, map: Arc<Map>, now: Now) {
        if map.version <= self.map.version {
            return;
        }
        let old = self.map.clone();
        for range in &map.ranges {
            let known = old.overlapping(range);
            for other in known.clone().filter(|known| known.id != range.id) {
                self.takes_over(other.id, range.id);
            }
            // The first map of a cell that has started may have no ranges yet.
            let is_lost = range.losses > known.clone().map(|it| it.losses).max().unwrap_or(0);
            for before in known.filter(|known| known.epoch < range.epoch) {
                if range.primary == self.me {
                    self.shown_s.insert(range.id, self.time.shown_by_others_s());
                }
                // One that has handed it over had stopped before.
                let has_stopped = range.follows(before);
                // Also where another cell leads it now: this one may follow soon.
                if let Some(peer) = self.peers.get(before.primary).filter(|_| !has_stopped) {
                    let until_ns = peer.heard_at_ns.min(now.mono_ns) + SILENCE_NS;
                    let hold = self.holds.entry(range.id).or_default();
                    let is_over = hold.until_ns <= now.mono_ns;
                    let earlier_s = if is_over { u32::MAX } else { hold.shown_s };
                    hold.shown_s = peer.shown_s.min(earlier_s);
                    hold.until_ns = until_ns.max(hold.until_ns);
                }
            }
            if is_lost {
                self.lost.insert(range.id, self.hold_until_ns(range.id));
            }
        }
        self.peers.adopt(&map, self.me, now.mono_ns);
        let stands = |id: &RangeId, at: Stamp| map.range(*id).is_some_and(|it| it.stamp() == at);
        self.ready.retain(|id, (at, _)| stands(id, *at));
        self.refusing.retain(|id, (at, _)| stands(id, *at));
        self.sealed.adopt(&map);
        self.holds.retain(|id, _| map.range(*id).is_some());
        self.lost.retain(|id, _| map.range(*id).is_some());
        self.shown_s.retain(|id, _| map.range(*id).is_some());
        let since = |it: &Uneven| self.uneven.filter(|(before, _)| before == it);
        self.uneven = uneven(&map).map(|it| since(&it).unwrap_or((it, now.mono_ns)));
        self.map = map;
        self.newer.adopt();
        self.beats.hurry();
    }

    /// `range` was a part of `other`, or that is a part of it now: what earlier primaries of that
    /// may still answer, they may answer of it.
    fn takes_over(&mut self, other: RangeId, range: RangeId) {
        if let Some(hold) = self.holds.get(&other).copied() {
            let own = self.holds.entry(range).or_insert(hold);
            own.until_ns = own.until_ns.max(hold.until_ns);
            own.shown_s = own.shown_s.min(hold.shown_s);
        }
        if let Some(until_ns) = self.lost.get(&other).copied() {
            let own_ns = self.lost.entry(range).or_default();
            *own_ns = until_ns.max(*own_ns);
        }
        if let Some(second) = self.shown_s.get(&other).copied() {
            let own_s = self.shown_s.entry(range).or_default();
            *own_s = second.max(*own_s);
        }
    }

    /// Until when `cell` has granted a lease; 0 if it has granted none, or has not said a second
    /// yet that was shown here.
    fn lease_until_ns(&self, cell: CellId) -> u64 {
        let follows = |peer: &&Peer| self.time.is_followed_by(peer.second);
        self.peers.get(cell).filter(follows).map_or(0, Peer::lease_until_ns)
    }

    /// `heartbeat` without what an earlier life of this cell has sent: that one had other leases.
    fn of_this_life(&self, mut heartbeat: Heartbeat, now: Now) -> Heartbeat {
        for sent_ns in [&mut heartbeat.echo_ns, &mut heartbeat.heard_ns] {
            if !(self.start_ns..=now.mono_ns).contains(sent_ns) {
                *sent_ns = 0;
            }
        }
        heartbeat
    }

    /// Who may replace this cell as the primary of `range`.
    fn granters(&self, range: &Range) -> impl Iterator<Item = CellId> {
        range.copies.iter().chain(&range.journals).copied().chain(self.admitting(range))
    }

    /// Raises the second that may be shown to what all that may replace this cell have said, and
    /// to what those have shown that it replaces and that may still answer.
    fn raise_time(&mut self, now: Now) {
        let led = self.map.ranges.iter().filter(|range| range.primary == self.me);
        let said = led.clone().flat_map(|range| self.granters(range));
        let said = said.map(|it| self.peers.get(it).map_or(0, |peer| peer.second));
        let holds = led.filter_map(|range| self.holds.get(&range.id));
        let shown = holds.filter(|hold| now.mono_ns < hold.until_ns).map(|hold| hold.shown_s);
        let seconds: Vec<_> = said.chain(shown).collect();
        self.time.raise(seconds.into_iter());
    }

    /// The learner of `range` that may be a copy already: its admission is on its way.
    fn admitting(&self, range: &Range) -> Option<CellId> {
        let is_ready = self.ready.contains_key(&range.id) && self.proposals.is_open(range.id);
        range.learner.filter(|_| is_ready)
    }

    fn beat(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let (suspects, second) = (self.peers.broken(), self.time.says());
        // One that does not know the time waits for answers.
        let asks_all = !self.time.is_known();
        let receivers = self.peers.receivers().map(|(cell, hears)| (cell, hears || asks_all));
        for to in self.beats.receivers(receivers) {
            let (heard_ns, counted_ns) = self.peers.latest_ns(to);
            let echo_ns = if self.proposals.may_replace(to) { 0 } else { counted_ns };
            let heartbeat = Heartbeat {
                sent_ns: now.mono_ns,
                echo_ns,
                heard_ns,
                map_version: self.map.version,
                ready_version: self.ready_version,
                free_bytes: self.free_bytes,
                expiry_s: second,
                shown_s: self.time.ceiling_s(),
                // Its sender knows.
                serves: false,
                suspects: suspects.clone(),
            };
            effects.push(Effect::Beat { to, heartbeat });
        }
    }

    fn propose(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.proposals.settle(now.mono_ns, |range, command| {
            effects.push(Effect::Propose { range, command });
        });
        let map = self.map.clone();
        let known = map.cells.get(&self.me).map(|cell| cell.started.incarnation);
        if self.life.is_some_and(|life| known != Some(life)) {
            return;
        }
        for range in &map.ranges {
            if self.proposals.is_open(range.id) {
                continue;
            }
            if let Some(command) = self.wants(range, now) {
                self.proposals.open(&map, range, &command);
                effects.push(Effect::Propose { range: range.id, command });
            }
        }
    }

    /// Proposes what an operator wants of a range, unless that has changed, or a proposal about it
    /// is open. Of a range that is to be forgiven no cell that has it may live, unless it waits for
    /// that: then this cell leads it.
    fn order(&mut self, order: Order, now: Now, effects: &mut Vec<Effect>) {
        let at = order.at();
        let range = self.map.range(at.range).filter(|range| range.stamp() == at);
        let is_lost = |cell: CellId| self.is_lost(cell, now);
        let are_lost = |range: &Range| {
            range.waits_for_operator
                || range.in_sync().chain(range.journals.iter().copied()).all(is_lost)
        };
        let may_unite = |range: &Range| range.primary == self.me && self.are_ready(range);
        let (command, may_be) = match order {
            Order::Forgive { at } => {
                (Command::Forgive { at, cell: self.me }, range.is_some_and(are_lost))
            }
            Order::Move { at, cell, from } => (Command::Move { at, cell, from }, true),
            Order::Divide { at, into } => (Command::Divide { at, into }, true),
            Order::Unite { at, with } => {
                (Command::Unite { at, with }, range.is_some_and(may_unite))
            }
        };
        if let Some(range) = range.filter(|range| may_be && !self.proposals.is_open(range.id)) {
            self.proposals.open(&self.map, range, &command);
            effects.push(Effect::Propose { range: at.range, command });
        }
    }

    /// What this cell wants of `range`.
    fn wants(&self, range: &Range, now: Now) -> Option<Command> {
        if range.waits_for_operator {
            None
        } else if range.primary == self.me {
            let first = self.drops(range, now).or_else(|| self.sealed.proposes(range, &self.map));
            first.or_else(|| self.admits(range, now)).or_else(|| {
                let among = (&*self.map, self.me, &self.peers);
                let cell = self.choice.of(range, among, now.mono_ns);
                let learns = |cell| Command::Learn { at: range.stamp(), cell };
                cell.map(learns).or_else(|| self.moves(range, now))
            })
        } else if range.copies.contains(&self.me)
            || range.journals.contains(&self.me) && self.are_silent(&range.copies, now)
        {
            let why = self.is_gone(range.primary, now)?;
            Some(Command::Promote { at: range.stamp(), cell: self.me, why })
        } else {
            None
        }
    }

    /// Whether none of these cells is heard any more.
    fn are_silent(&self, cells: &[CellId], now: Now) -> bool {
        let is_silent = |cell: &CellId| {
            let peer = self.peers.get(*cell);
            peer.is_some_and(|peer| peer.silent_ns(now.mono_ns) >= SILENCE_NS)
        };
        cells.iter().all(is_silent)
    }

    /// Why a primary is to be replaced, if it is: its leases have ended, or two cells find it
    /// broken.
    fn is_gone(&self, primary: CellId, now: Now) -> Option<Why> {
        let peer = self.peers.get(primary)?;
        if peer.silent_ns(now.mono_ns) >= SILENCE_NS {
            return Some(Why::Silent);
        }
        let is_broken = peer.is_broken && self.peers.is_suspected(primary, now.mono_ns);
        is_broken.then_some(Why::Broken)
    }

    fn drops(&self, range: &Range, now: Now) -> Option<Command> {
        let refuses = self.refusing.get(&range.id).map(|(_, cell)| *cell);
        let asked = range.expects();
        let copy_ns = if self.peers.hears_none(now.mono_ns) { DEAF_NS } else { SHRINK_NS };
        let lost = |cell: CellId| {
            let Some(peer) = self.peers.get(cell) else { return Some(Why::Silent) };
            let is_copy = range.copies.contains(&cell);
            let most_ns = match (is_copy, peer.has_answered()) {
                (true, _) => copy_ns,
                (false, true) => LEARNER_SILENCE_NS,
                (false, false) => NAMED_NS,
            };
            if peer.is_broken {
                return Some(Why::Broken);
            }
            let is_silent = peer.silent_ns(now.mono_ns) >= most_ns;
            let fits =
                asked != Some(cell) || self.choice.fits(cell, (&self.map, self.me, &self.peers));
            let refuses = refuses == Some(cell) || !fits;
            is_silent.then_some(Why::Silent).or(refuses.then_some(Why::Refuses))
        };
        if let Some(cell) = refuses.filter(|cell| range.journals.contains(cell)) {
            return Some(Command::Drop { at: range.stamp(), cell, why: Why::Ended });
        }
        let mut others = range.copies.iter().copied().chain(range.learner).chain(asked);
        let lost = others.find_map(|cell| Some((cell, lost(cell)?)));
        let replaced = range.releases().map(|cell| (cell, Why::Replaced));
        let (cell, why) = lost.or(replaced)?;
        Some(Command::Drop { at: range.stamp(), cell, why })
    }

    /// What this cell, which leads `range`, orders so that it comes to be where it should be.
    fn moves(&self, range: &Range, now: Now) -> Option<Command> {
        let (map, me) = (&*self.map, self.me);
        let (peers, choice, now_ns) = (&self.peers, &self.choice, now.mono_ns);
        let moving = Moving { map, me, peers, choice, now_ns, uneven: self.uneven };
        moving.order(range, |lower| self.are_ready(lower))
    }

    /// Whether this cell, and the copies of `lower`, which it leads, have begun with all that the
    /// map says. None of them has to know later what two ranges were that become one.
    fn are_ready(&self, lower: &Range) -> bool {
        let version = self.map.version;
        let are_ready = lower.copies.iter().all(|cell| self.is_ready(*cell, version));
        self.ready_version >= version && are_ready
    }

    fn admits(&self, range: &Range, now: Now) -> Option<Command> {
        let (_, cell) = self.ready.get(&range.id)?;
        let has_lease = self.lease_until_ns(*cell) > now.mono_ns;
        has_lease.then(|| Command::Admit { at: range.stamp(), cell: *cell })
    }

    /// Until when `cell` is not asked to learn `range`, which it has refused.
    #[cfg(test)]
    pub(super) fn rests_until_ns(&self, range: RangeId, cell: CellId) -> u64 {
        self.choice.rests_until_ns(range, cell)
    }
}
