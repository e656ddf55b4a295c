//! The time of the ring at one cell: which second it takes, follows, and may show.
//!
//! ```text
//! started again --a fresh heartbeat of a cell that knows--> knows
//!               --it leads the agreement, and nobody else knows--> knows: its own second
//! knows --a later second, at most two ahead--> follows it; further apart: keeps its own
//! ```
//!
//! Seconds are lower bounds: a second that a cell has said has begun there. A primary shows a
//! second only when each copy in sync has said it, or a later one. So a cell that replaces it shows
//! no earlier one, and an item that a client has found expired stays expired. A copy that is
//! further than [`APART_S`] away is not waited for, or one wrong clock would stop that of others.
//! What a cell has said, the primary that it replaces may have shown: so in a range that it takes
//! over it answers nothing before it may show that second itself.

use super::event::Effect;
use base::Now;

/// A cell whose second is further from that of another does not follow it.
pub const APART_S: u32 = 2;

/// So long the leader of the agreement asks others for the time before it takes its own.
const ALONE_NS: u64 = 1_000_000_000;

/// How far the second of another cell is ahead of `own_s`, where that is too far to follow.
pub(super) fn apart(own_s: u32, second: u32) -> Option<i64> {
    let is_apart = second != 0 && own_s.abs_diff(second) > APART_S;
    is_apart.then(|| i64::from(second) - i64::from(own_s))
}

/// What a cell knows of the time of the ring.
pub(super) struct RingTime {
    is_known: bool,
    /// The own second.
    own_s: u32,
    /// The latest second that requests may be shown.
    ceiling_s: u32,
    /// The latest second that this cell has said to others.
    spoken_s: u32,
    /// Since when this cell has led the agreement.
    leads_since_ns: Option<u64>,
}

impl RingTime {
    /// That of a cell that knows it, or is to learn it from others.
    pub(super) fn new(is_known: bool, now: Now) -> Self {
        let ceiling_s = if is_known { now.expiry_s } else { 0 };
        Self { is_known, own_s: now.expiry_s, ceiling_s, spoken_s: 0, leads_since_ns: None }
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// What this cell says: 0 if it does not know.
    pub(super) fn said_s(&self) -> u32 {
        if self.is_known { self.own_s } else { 0 }
    }

    /// This cell says its second to others now.
    pub(super) fn says(&mut self) -> u32 {
        self.spoken_s = self.said_s();
        self.spoken_s
    }

    /// The latest second that a primary may have shown of which this cell was a copy.
    pub(super) fn shown_by_others_s(&self) -> u32 {
        self.spoken_s
    }

    pub(super) fn ceiling_s(&self) -> u32 {
        self.ceiling_s
    }

    /// Time has passed.
    pub(super) fn passes(&mut self, now: Now) {
        self.own_s = now.expiry_s;
    }

    pub(super) fn leads(&mut self, leads: bool, now: Now) {
        let since_ns = self.leads_since_ns.unwrap_or(now.mono_ns);
        self.leads_since_ns = leads.then_some(since_ns);
    }

    /// Another cell says `second`; `is_fresh`: not long ago.
    pub(super) fn hear(&mut self, second: u32, is_fresh: bool, effects: &mut Vec<Effect>) {
        match self.is_known {
            _ if second == 0 => {}
            false if is_fresh => self.take(second, effects),
            true if second > self.own_s && second - self.own_s <= APART_S => {
                self.own_s = second;
                effects.push(Effect::Follow { second });
            }
            _ => {}
        }
    }

    /// Takes the own second where nobody can know a better one: this cell leads the agreement, and
    /// either `none_knows` of the others, or none that knows has been heard for a while.
    pub(super) fn decide(&mut self, none_knows: bool, now: Now, effects: &mut Vec<Effect>) {
        let Some(since_ns) = self.leads_since_ns.filter(|_| !self.is_known) else { return };
        if none_knows || now.mono_ns.saturating_sub(since_ns) >= ALONE_NS {
            self.take(now.expiry_s, effects);
        }
    }

    fn take(&mut self, second: u32, effects: &mut Vec<Effect>) {
        (self.is_known, self.own_s, self.ceiling_s) = (true, second, second);
        effects.push(Effect::Take { second });
    }

    /// Raises what may be shown to what all that may replace this cell have said.
    pub(super) fn raise(&mut self, said: impl Iterator<Item = u32>) {
        if self.is_known {
            let near = said.filter(|second| apart(self.own_s, *second).is_none());
            let second = near.min().unwrap_or(self.own_s).min(self.own_s);
            self.ceiling_s = self.ceiling_s.max(second);
        }
    }

    /// Whether a cell that has said `second` may replace this one: nothing was shown of a later
    /// second, or its clock is another one.
    pub(super) fn is_followed_by(&self, second: u32) -> bool {
        second >= self.ceiling_s || apart(self.own_s, second).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(own_s: u32) -> Now {
        Now { mono_ns: 0, expiry_s: own_s }
    }

    #[test]
    fn a_later_second_is_followed_only_from_near() {
        let cases = [
            (1_000, None),
            (999, None),
            (1_001, Some(1_001)),
            (1_002, Some(1_002)),
            (1_003, None),
            (4_600, None),
            (0, None),
        ];
        for (second, follows) in cases {
            for is_fresh in [true, false] {
                let (mut time, mut effects) = (RingTime::new(true, at(1_000)), Vec::new());
                time.hear(second, is_fresh, &mut effects);
                let wanted: Vec<_> =
                    follows.map(|second| Effect::Follow { second }).into_iter().collect();
                assert_eq!(effects, wanted, "{second}");
            }
        }
    }

    #[test]
    fn a_cell_that_has_started_again_takes_the_second_of_the_ring_whatever_its_own_is() {
        for second in [1, 999, 1_001, 4_600] {
            let (mut time, mut effects) = (RingTime::new(false, at(1_000)), Vec::new());
            assert_eq!(time.said_s(), 0);
            time.hear(second, false, &mut effects);
            time.hear(0, true, &mut effects);
            assert!(effects.is_empty() && !time.is_known(), "an old or unknown second is nothing");
            time.hear(second, true, &mut effects);
            assert_eq!(effects, [Effect::Take { second }]);
            assert_eq!((time.said_s(), time.ceiling_s()), (second, second));
        }
    }

    #[test]
    fn where_nobody_knows_the_leader_of_the_agreement_takes_its_own() {
        let ns = |mono_ns| Now { mono_ns, expiry_s: 1_000 };
        let cases = [
            (false, true, 9 * ALONE_NS, false),
            (true, false, ALONE_NS - 1, false),
            (true, false, ALONE_NS, true),
            (true, true, 0, true),
        ];
        for (leads, none_knows, after_ns, takes) in cases {
            let (mut time, mut effects) = (RingTime::new(false, ns(0)), Vec::new());
            time.leads(leads, ns(0));
            time.leads(leads, ns(after_ns));
            time.decide(none_knows, ns(after_ns), &mut effects);
            assert_eq!(time.is_known(), takes, "{leads} {none_knows} {after_ns}");
        }
    }

    #[test]
    fn a_second_is_shown_when_all_that_may_replace_this_cell_have_said_it() {
        let mut time = RingTime::new(true, at(1_000));
        let cases: [(u32, &[u32], u32); 7] = [
            (1_001, &[1_000, 1_001], 1_000),
            (1_001, &[1_001, 1_001], 1_001),
            (1_002, &[1_003], 1_002),
            // Nobody may replace it.
            (1_003, &[], 1_003),
            // It is not taken back.
            (1_004, &[1_002], 1_003),
            // The clock of the other is wrong.
            (1_010, &[1_004, 4_600], 1_010),
            (1_011, &[1_010, 4_600], 1_010),
        ];
        for (own_s, said, shown) in cases {
            time.passes(at(own_s));
            time.raise(said.iter().copied());
            assert_eq!(time.ceiling_s(), shown, "{own_s} {said:?}");
        }
        assert!(time.is_followed_by(1_010) && !time.is_followed_by(1_009));
        assert!(time.is_followed_by(1_000), "too far away to wait for");
    }
}
