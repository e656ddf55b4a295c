//! What a member knows of the other cells.
//!
//! Those that share a range with it hear it each time, and are missed soon. The others hear it in
//! turn, a few at a time: they are missed later, by as much as two turns take.

use super::beats::slack_ns;
use super::event::Heartbeat;
use super::leases::{BEAT_NS, FIRST_NS, LEASE_NS, LOST_NS, SHRINK_NS, SILENCE_NS};
use crate::ids::{CellId, Incarnation};
use crate::map::Map;
use std::collections::BTreeMap;

/// Without a heartbeat of any cell for so long, a cell may be deaf.
const NONE_NS: u64 = SHRINK_NS - BEAT_NS - BEAT_NS / 2;
const _: () = assert!(NONE_NS > BEAT_NS);

/// What is known of one cell, in its present life.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) incarnation: Incarnation,
    /// Whether a range names both cells.
    shares: bool,
    /// Since when.
    shares_since_ns: u64,
    /// How much longer it may be silent than one that sends its heartbeats here each time.
    slack_ns: u64,
    /// When a heartbeat arrived last whose sender hears this cell, or when it is missed at the
    /// earliest.
    pub(super) heard_at_ns: u64,
    /// When a heartbeat arrived last, even one that does not count; before, when it became known.
    arrived_at_ns: u64,
    /// The `sent_ns` of its latest heartbeat.
    sent_ns: u64,
    /// The `sent_ns` of its latest heartbeat that `heard_at_ns` is from. No later one is echoed as
    /// a lease: the lease ends before the silence is long enough.
    counted_ns: u64,
    /// The sending of the own heartbeat by which it has granted a lease.
    lease_from_ns: Option<u64>,
    /// The same, of heartbeats in which it says that it may answer for what this cell copies.
    pub(super) served_from_ns: Option<u64>,
    /// What its latest heartbeat says, if that went by a newer map than the own one.
    ahead: Option<Ahead>,
    /// The version of the map for which it is ready to learn.
    pub(super) ready_version: u64,
    /// Memory that is free there, as it has said last.
    pub(super) free_bytes: u64,
    /// The latest second that it has said; 0 if it knows none.
    pub(super) second: u32,
    /// The latest second that it has shown, as it has said last.
    pub(super) shown_s: u32,
    /// Its link is broken.
    pub(super) is_broken: bool,
    /// Whose links it says are broken.
    suspects: Vec<CellId>,
    /// Whether any heartbeat of this life has arrived, and since it was missed.
    is_known: bool,
}

/// What a heartbeat says that goes by a newer map than the own one: as if it came with that map.
/// Where the map changes often, most of them arrive before it.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    map_version: u64,
    /// The own heartbeat by which it grants a lease; `None`: it grants none.
    lease_from_ns: Option<u64>,
    serves: bool,
    second: u32,
}

impl Peer {
    /// Takes in what its latest heartbeat says, if the own map of `version` is as new as its own.
    fn follows(&mut self, version: u64) {
        if let Some(said) = self.ahead.take_if(|said| said.map_version <= version) {
            // One with a newer map may lead what this cell leads by its own, and need not show in
            // that range what it says: it keeps to what was said before.
            self.second = said.second;
            self.lease_from_ns = self.lease_from_ns.max(said.lease_from_ns);
            let served_from_ns = said.lease_from_ns.filter(|_| said.serves);
            self.served_from_ns = self.served_from_ns.max(served_from_ns);
        }
    }

    fn new(incarnation: Incarnation, now_ns: u64) -> Self {
        Self {
            incarnation,
            shares: false,
            shares_since_ns: 0,
            slack_ns: 0,
            heard_at_ns: now_ns + FIRST_NS - SILENCE_NS,
            arrived_at_ns: now_ns,
            sent_ns: 0,
            counted_ns: 0,
            lease_from_ns: None,
            served_from_ns: None,
            ahead: None,
            ready_version: 0,
            free_bytes: 0,
            second: 0,
            shown_s: 0,
            is_broken: false,
            suspects: Vec::new(),
            is_known: false,
        }
    }

    /// Until when its lease lasts; 0 if it has granted none.
    pub(super) fn lease_until_ns(&self) -> u64 {
        self.lease_from_ns.map_or(0, |from_ns| from_ns + LEASE_NS)
    }

    /// How long it was not heard.
    pub(super) fn silent_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.heard_at_ns)
    }

    /// How long no heartbeat of it has arrived, not even one that does not count.
    pub(super) fn absent_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.arrived_at_ns)
    }

    /// Whether anything of it has arrived since a range names both cells.
    pub(super) fn has_answered(&self) -> bool {
        self.arrived_at_ns > self.shares_since_ns
    }

    /// The second that it says now, as far as is known; 0 if it knows none. One that shares no
    /// range says it rarely.
    fn second_now(&self, now_ns: u64) -> u32 {
        let passed_s = u32::try_from(self.absent_ns(now_ns) / 1_000_000_000).unwrap_or(u32::MAX);
        if self.second == 0 { 0 } else { self.second.saturating_add(passed_s) }
    }

    /// Whether it is heard now.
    pub(super) fn is_heard(&self, now_ns: u64) -> bool {
        let silent_ns = self.silent_ns(now_ns);
        self.is_known && !self.is_broken && silent_ns < SHRINK_NS + self.slack_ns
    }

    /// Whether no heartbeat of it has arrived for [`LOST_NS`], and for as long as it may be silent
    /// besides.
    pub(super) fn is_lost(&self, now_ns: u64) -> bool {
        self.absent_ns(now_ns) >= LOST_NS + self.slack_ns
    }

    /// Whether it hears this cell each time: it shares a range with it, or has not said yet that it
    /// knows the time.
    fn hears_all(&self) -> bool {
        self.shares || self.second == 0
    }

    /// Sets whether the two cells share a range, among `cells`.
    fn sets_shares(&mut self, shares: bool, cells: usize, now_ns: u64) {
        if shares && !self.shares {
            // It begins to hear this cell each time when it has that map, too.
            self.heard_at_ns = self.heard_at_ns.max(now_ns);
            self.shares_since_ns = now_ns;
        }
        // One that is missed already is not heard because it may be silent for longer now.
        self.is_known &= shares || !self.shares || self.is_heard(now_ns);
        self.shares = shares;
        self.slack_ns = if shares { 0 } else { slack_ns(cells) };
    }
}

/// All other cells.
#[derive(Default)]
pub(super) struct Peers(BTreeMap<CellId, Peer>);

impl Peers {
    /// The cells of `map` without `me`. One that has started again is a new one.
    pub(super) fn adopt(&mut self, map: &Map, me: CellId, now_ns: u64) {
        let sharing = map.sharing_with(me);
        self.0.retain(|id, _| map.cells.contains_key(id));
        for (id, cell) in map.cells.iter().filter(|(id, _)| **id != me) {
            let life = cell.started.incarnation;
            let peer = self.0.entry(*id).or_insert_with(|| Peer::new(life, now_ns));
            if peer.incarnation < life {
                *peer = Peer::new(life, now_ns);
            }
            peer.follows(map.version);
            peer.sets_shares(sharing.contains(id), map.cells.len(), now_ns);
        }
    }

    pub(super) fn get(&self, cell: CellId) -> Option<&Peer> {
        self.0.get(&cell)
    }

    /// Of the latest heartbeats of `cell`, the time of sending: of any, and of one that counts.
    pub(super) fn latest_ns(&self, cell: CellId) -> (u64, u64) {
        self.get(cell).map_or((0, 0), |peer| (peer.sent_ns, peer.counted_ns))
    }

    /// All were not heard for a time in which this cell could not hear them.
    pub(super) fn excuse(&mut self, time_ns: u64) {
        for peer in self.0.values_mut() {
            peer.heard_at_ns += time_ns;
            peer.arrived_at_ns += time_ns;
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = CellId> {
        self.0.keys().copied()
    }

    /// All cells, and whether each hears this one each time.
    pub(super) fn receivers(&self) -> impl Iterator<Item = (CellId, bool)> {
        self.0.iter().map(|(id, peer)| (*id, peer.hears_all()))
    }

    /// Whether `cell` sends its heartbeats here each time.
    pub(super) fn sends_all(&self, cell: CellId) -> bool {
        self.get(cell).is_some_and(|peer| peer.slack_ns == 0)
    }

    /// Takes in a heartbeat. `version` is that of the own map: a cell with a newer one may have a
    /// part in it that its lease would contradict. Returns whether it is the latest of its sender.
    pub(super) fn hear(
        &mut self,
        from: CellId,
        incarnation: Incarnation,
        heartbeat: Heartbeat,
        (now_ns, version): (u64, u64),
    ) -> bool {
        let Some(peer) = self.0.get_mut(&from).filter(|peer| peer.incarnation == incarnation)
        else {
            return false;
        };
        if heartbeat.sent_ns <= peer.sent_ns {
            return false;
        }
        peer.sent_ns = heartbeat.sent_ns;
        peer.arrived_at_ns = peer.arrived_at_ns.max(now_ns);
        peer.is_broken = false;
        peer.is_known = true;
        peer.ready_version = heartbeat.ready_version;
        peer.free_bytes = heartbeat.free_bytes;
        peer.shown_s = heartbeat.shown_s;
        let mut lease_from_ns = None;
        // One that does not hear this cell is as good as silent: a link may be dead one way.
        if now_ns.saturating_sub(heartbeat.heard_ns) < LEASE_NS + peer.slack_ns {
            // Once it was heard, it is missed at once.
            let before_ns = if peer.counted_ns > 0 { peer.heard_at_ns } else { 0 };
            peer.heard_at_ns = before_ns.max(now_ns);
            peer.counted_ns = heartbeat.sent_ns;
            lease_from_ns = (heartbeat.echo_ns > 0).then_some(heartbeat.echo_ns);
        }
        let Heartbeat { map_version, serves, expiry_s: second, .. } = heartbeat;
        peer.ahead = Some(Ahead { map_version, lease_from_ns, serves, second });
        peer.follows(version);
        peer.suspects = heartbeat.suspects;
        true
    }

    /// When the next one that shares a range is silent for so long that something follows, if
    /// nothing comes of it.
    pub(super) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        let ends = |peer: &Peer| [SHRINK_NS, SILENCE_NS].map(|silence| peer.heard_at_ns + silence);
        let sharing = self.0.values().filter(|peer| peer.shares);
        sharing.flat_map(ends).filter(|end_ns| *end_ns > now_ns).min()
    }

    /// Whether all are heard, and none knows the time of the ring.
    pub(super) fn none_knows_time(&self, now_ns: u64) -> bool {
        self.0.values().all(|peer| peer.is_heard(now_ns) && peer.second == 0)
    }

    /// The cells that are heard, with the second that each says now.
    pub(super) fn seconds(&self, now_ns: u64) -> impl Iterator<Item = (CellId, u32)> {
        let heard = self.0.iter().filter(move |(_, peer)| peer.is_heard(now_ns));
        heard.map(move |(id, peer)| (*id, peer.second_now(now_ns)))
    }

    /// Whether of several other cells no heartbeat has arrived for a while. It is a little shorter
    /// than the time after which one of them is silent: the others may have been heard a heartbeat
    /// later than that one.
    pub(super) fn hears_none(&self, now_ns: u64) -> bool {
        let is_silent = |peer: &Peer| peer.absent_ns(now_ns) >= NONE_NS;
        self.0.len() > 1 && self.0.values().all(is_silent)
    }

    pub(super) fn breaks(&mut self, cell: CellId) {
        if let Some(peer) = self.0.get_mut(&cell) {
            peer.is_broken = true;
        }
    }

    /// The cells whose links are broken.
    pub(super) fn broken(&self) -> Vec<CellId> {
        self.0.iter().filter(|(_, peer)| peer.is_broken).map(|(id, _)| *id).collect()
    }

    /// Whether a cell that is heard says that the link to `cell` is broken.
    pub(super) fn is_suspected(&self, cell: CellId, now_ns: u64) -> bool {
        let accuses = |peer: &Peer| peer.is_heard(now_ns) && peer.suspects.contains(&cell);
        self.0.iter().any(|(id, peer)| *id != cell && accuses(peer))
    }
}
