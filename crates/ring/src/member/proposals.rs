//! The proposals of a member: for each range at most one, until its outcome is certain.
//!
//! ```text
//! propose --> Decided: over, once the own map shows it
//!         --> Unavailable: over
//!         --> Unknown --> Settle, of the same state of the range
//!                          applied: the first one can come no more
//!                          refused: the range has changed, by the first one or another; over,
//!                                   once the own map shows that
//! ```

use super::event::Outcome;
use crate::agreement::Agreement;
use crate::ids::{CellId, RangeId};
use crate::map::{Command, Map, Range, Refusal, Stamp, Verdict};
use std::collections::BTreeMap;

/// How long a member waits before it proposes again what failed.
const AGAIN_NS: u64 = 20_000_000;

/// A proposal whose outcome is not certain, or not yet in the own map.
struct Open {
    at: Stamp,
    /// How many recoveries there were before: what was decided and not seen is gone with the next.
    recoveries: u64,
    /// Whom it would replace.
    replaces: Option<CellId>,
    /// Whether it ends what this cell has led: it hands the range over, divides it, or makes one
    /// of it and the next one.
    is_of_sealed: bool,
    state: State,
}

enum State {
    /// On its way.
    Proposed,
    /// To be settled, at this time.
    Unsettled(u64),
    /// Over as soon as the own map has this version.
    Applied(u64),
    /// Over as soon as the range is another than it was, or at this time. Where it was refused
    /// because the range has changed, only the own map ends it: that change may be what was
    /// proposed before.
    Refused(u64),
}

/// The open proposals.
#[derive(Default)]
pub(super) struct Proposals(BTreeMap<RangeId, Open>);

impl Proposals {
    pub(super) fn is_open(&self, range: RangeId) -> bool {
        self.0.contains_key(&range)
    }

    /// Whether a proposal may replace the primary `cell`: no lease is granted to it.
    pub(super) fn may_replace(&self, cell: CellId) -> bool {
        self.0.values().any(|open| open.replaces == Some(cell))
    }

    /// Notes `command` about `range`, which has none in `map`.
    pub(super) fn open(&mut self, map: &Map, range: &Range, command: &Command) {
        let promotes = matches!(command, Command::Promote { .. });
        let replaces = promotes.then_some(range.primary);
        let recoveries = Agreement::recoveries(map.version);
        let is_of_sealed = matches!(
            command,
            Command::HandOver { .. } | Command::Split { .. } | Command::Merge { .. }
        );
        let (at, state) = (range.stamp(), State::Proposed);
        self.0.insert(range.id, Open { at, recoveries, replaces, is_of_sealed, state });
    }

    /// What came of a proposal. Returns what was to be handed over, divided, or made one with the
    /// next one, where it is certain that it is not.
    pub(super) fn ended(&mut self, range: RangeId, outcome: Outcome, now_ns: u64) -> Option<Stamp> {
        let open = self.0.get_mut(&range)?;
        let was_unsettled = matches!(open.state, State::Unsettled(_));
        open.state = match outcome {
            Outcome::Decided(Verdict::Applied { version, .. }) => State::Applied(version),
            Outcome::Decided(Verdict::Refused(Refusal::Changed)) => State::Refused(u64::MAX),
            Outcome::Decided(Verdict::Refused(_)) => State::Refused(now_ns + AGAIN_NS),
            Outcome::Unavailable if !was_unsettled => State::Refused(now_ns + AGAIN_NS),
            Outcome::Unknown | Outcome::Unavailable => State::Unsettled(now_ns + AGAIN_NS),
        };
        let is_certain = outcome == Outcome::Unavailable && !was_unsettled;
        (open.is_of_sealed && is_certain).then_some(open.at)
    }

    /// Forgets those that are over, as `map` shows.
    pub(super) fn adopt(&mut self, map: &Map, now_ns: u64) {
        self.0.retain(|id, open| match open.state {
            State::Proposed | State::Unsettled(_) => true,
            State::Applied(version) => map.version < version,
            State::Refused(until_ns) => {
                now_ns < until_ns
                    && Agreement::recoveries(map.version) == open.recoveries
                    && map.range(*id).is_some_and(|range| range.stamp() == open.at)
            }
        });
    }

    /// When one is to be settled, or is over, if time alone decides that.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let due_ns = |open: &Open| match open.state {
            State::Unsettled(due_ns) | State::Refused(due_ns) => Some(due_ns),
            State::Proposed | State::Applied(_) => None,
        };
        self.0.values().filter_map(due_ns).min()
    }

    /// The settlements that are due.
    pub(super) fn settle(&mut self, now_ns: u64, mut propose: impl FnMut(RangeId, Command)) {
        for (id, open) in &mut self.0 {
            if let State::Unsettled(due_ns) = &mut open.state
                && *due_ns <= now_ns
            {
                // Until its outcome comes.
                *due_ns = u64::MAX;
                propose(*id, Command::Settle { at: open.at });
            }
        }
    }
}
