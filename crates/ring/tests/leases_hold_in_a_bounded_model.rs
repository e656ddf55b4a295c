//! Every state of a small ring: no read is older than what was acknowledged or shown, nothing that
//! was acknowledged is lost while a cell in sync lives, and epochs rise. Each rule is found missing
//! when it is left out.
//!
//! Each row has bounds of its own: a breakage shows after up to thirty steps, and within bounds
//! that are wide in all directions no search comes so far. `MODEL_STATES` sets how many states are
//! looked at for one row with all rules; 400,000 without it. `MODEL_STATES=20000000` takes minutes.

mod bounded;

use bounded::{Bounds, Ring, Rule};
use stateright::{Checker, HasDiscoveries, Model};

/// States of one row, if the environment does not say.
const STATES: usize = 400_000;
/// States after which a rule that is left out counts as not missed.
const STATES_MAX: usize = 8_000_000;

const LEAST: Bounds = Bounds::LEAST;
/// A cell alone, which admits another one.
const LEARNS: Bounds = Bounds { present: 1, learns: 1, changes: 3, beats: 2, ..LEAST };

/// A rule, and bounds within which it is missed.
const RULES: [(Rule, Bounds); 20] = [
    (Rule::ServesUnderALease, LEAST),
    (Rule::ReadsTheClockLast, LEAST),
    (Rule::LeaseIsShorter, Bounds { ticks: 2, deviations: 1, ..LEAST }),
    (Rule::CountsFromSending, Bounds { ticks: 4, ..LEAST }),
    (Rule::EchoesWhatCounts, Bounds { ticks: 4, deaf_beats: 1, ..LEAST }),
    (Rule::UnknownStaysOpen, Bounds { ticks: 4, unknowns: 1, ..LEARNS }),
    (Rule::ChangedStaysOpen, Bounds { ticks: 4, unknowns: 1, ..LEARNS }),
    (Rule::ReadSettlesNothing, Bounds { ticks: 4, unknowns: 1, ..LEARNS }),
    (Rule::DropNeedsCommit, Bounds { ticks: 4, drops: 1, ..LEAST }),
    (Rule::OnlyInSyncIsPromoted, Bounds { ticks: 4, changes: 2, ..LEARNS }),
    (
        Rule::BeginsEmpty,
        Bounds { present: 2, ticks: 0, suspicions: 1, drops: 1, changes: 4, ..LEARNS },
    ),
    (Rule::Holds, Bounds { ticks: 3, suspicions: 1, ..LEAST }),
    (
        Rule::HoldsForItsLifeBefore,
        Bounds { ticks: 1, suspicions: 1, crashes: 1, changes: 2, ..LEAST },
    ),
    (
        Rule::EmptyWaits,
        Bounds { ticks: 0, suspicions: 1, crashes: 1, changes: 2, beats: 3, ..LEAST },
    ),
    (Rule::CountsBeforeJoining, Bounds { ticks: 1, suspicions: 1, ..LEARNS }),
    (Rule::LeaseOfWhoIsAdmitted, Bounds { ticks: 4, ..LEARNS }),
    // An older primary sends to the newer one, which has a copy of its own.
    (Rule::EntriesOfTheEpoch, Bounds { present: 2, ticks: 0, suspicions: 2, changes: 4, ..LEARNS }),
    (Rule::AllCopiesHaveIt, Bounds { ticks: 1, suspicions: 1, ..LEAST }),
    (Rule::LossIsProven, Bounds { present: 1, ticks: 4, ..LEAST }),
    (
        Rule::ExchangesTails,
        Bounds {
            present: 3,
            copies: 3,
            tails: true,
            ticks: 0,
            suspicions: 1,
            crashes: 1,
            changes: 2,
            beats: 2,
            ..LEAST
        },
    ),
];

/// What was found wrong within `states`, and by which steps.
fn wrong(bounds: Bounds, without: &'static [Rule], states: usize) -> Option<String> {
    let checker = Ring { bounds, without }.checker().target_state_count(states);
    let checker = checker.finish_when(HasDiscoveries::Any).spawn_bfs().join();
    println!("{without:?}: {} states", checker.unique_state_count());
    let found = checker.discoveries().into_iter().next();
    found.map(|(name, path)| format!("not true: {name}, after {:?}", path.into_actions()))
}

#[test]
fn with_all_rules_nothing_contradicts_what_was_acknowledged_or_shown() {
    let states = std::env::var("MODEL_STATES").ok().and_then(|states| states.parse().ok());
    for (_, bounds) in RULES {
        assert_eq!(wrong(bounds, &[], states.unwrap_or(STATES)), None, "{bounds:?}");
    }
}

#[test]
fn each_rule_is_missed() {
    for (rule, bounds) in RULES {
        let without: &'static [Rule] = Box::leak(Box::new([rule]));
        let found = wrong(bounds, without, STATES_MAX);
        assert!(found.is_some(), "nothing is wrong without {rule:?}");
    }
}

/// A new primary holds back what it changes until the old leases have ended, even those that it
/// should not have granted. So who proposes may grant a lease, as long as that rule is kept.
#[test]
fn that_the_primary_stops_first_is_missed_where_nothing_is_held_back() {
    let bounds = Bounds { ticks: 4, ..LEAST };
    assert!(wrong(bounds, &[Rule::PrimaryStopsFirst, Rule::Holds], STATES_MAX).is_some());
    assert_eq!(wrong(bounds, &[Rule::Holds], STATES_MAX), None);
    assert_eq!(wrong(bounds, &[Rule::PrimaryStopsFirst], STATES_MAX), None);
}
