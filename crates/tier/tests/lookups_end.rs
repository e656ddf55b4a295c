//! The lookups as tables of cases, and beside threads that change what is looked up.
#![cfg(not(any(loom, shuttle)))]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use tier::{Begun, KeyHash, Lookups, MISSING_NS, Outcome, Ticket};

fn hash(number: u64) -> KeyHash {
    KeyHash::from_raw(u128::from(number) << 120 | u128::from(number))
}

fn start(lookups: &Lookups, number: u64, waiter: u16) -> Ticket {
    match lookups.begin(hash(number), waiter, 1) {
        Begun::Started(ticket) => ticket,
        begun => panic!("{begun:?}"),
    }
}

#[track_caller]
fn ends(lookups: &Lookups, ticket: Ticket, outcome: Outcome, waiters: &[u16], cancelled: bool) {
    let finished = lookups.finish(ticket, outcome, 1);
    assert!(finished.waiters.iter().eq(waiters.iter().copied()), "{finished:?}");
    assert_eq!(finished.is_cancelled, cancelled);
}

#[test]
fn one_lookup_is_under_way_and_all_waiters_are_returned_once() {
    let lookups = Lookups::new(10, 10);
    let ticket = start(&lookups, 1, 7);
    for waiter in [9, 3, 9, 7, 65_535] {
        assert!(matches!(lookups.begin(hash(1), waiter, 1), Begun::Joined));
    }
    assert!(lookups.admit(&ticket) && ticket.hash() == hash(1));
    ends(&lookups, ticket, Outcome::Loaded, &[3, 7, 9, 65_535], false);
    let ticket = start(&lookups, 1, 1);
    ends(&lookups, ticket, Outcome::Failed, &[1], false);
    assert!(!lookups.is_missing(hash(1), 1) && lookups.loading() == 0);
}

#[test]
fn a_key_that_is_missing_is_not_looked_up_for_two_seconds() {
    let lookups = Lookups::new(10, 10);
    let ticket = start(&lookups, 1, 0);
    ends(&lookups, ticket, Outcome::Missing, &[0], false);
    assert!(matches!(lookups.begin(hash(1), 0, MISSING_NS), Begun::Missing));
    assert!(lookups.is_missing(hash(1), MISSING_NS));
    assert!(!lookups.is_missing(hash(2), 1));
    assert!(!lookups.is_missing(hash(1), MISSING_NS + 1));
    let begun = lookups.begin(hash(1), 0, MISSING_NS + 1);
    assert!(matches!(begun, Begun::Started(_)));
}

#[test]
fn a_change_cancels_a_lookup_and_forgets_that_the_key_is_missing() {
    let lookups = Lookups::new(10, 10);
    let ticket = start(&lookups, 1, 0);
    let other = start(&lookups, 2, 0);
    lookups.changed(hash(1));
    assert!(!lookups.admit(&ticket) && lookups.admit(&other));
    ends(&lookups, ticket, Outcome::Missing, &[0], true);
    assert!(!lookups.is_missing(hash(1), 1));
    ends(&lookups, other, Outcome::Missing, &[0], false);
    lookups.changed(hash(1));
    assert!(lookups.is_missing(hash(2), 1));
    lookups.changed(hash(2));
    assert!(!lookups.is_missing(hash(2), 1));
}

#[test]
fn an_old_ticket_ends_nothing_of_a_newer_lookup() {
    let lookups = Lookups::new(2, 10);
    let old = start(&lookups, 1, 4);
    lookups.changed(hash(1));
    let new = start(&lookups, 1, 5);
    assert!(!lookups.admit(&old) && lookups.admit(&new));
    assert!(matches!(lookups.begin(hash(2), 0, 1), Begun::Busy), "both are under way below");
    ends(&lookups, old, Outcome::Missing, &[], true);
    assert!(lookups.admit(&new) && !lookups.is_missing(hash(1), 1));
    assert_eq!(lookups.loading(), 1);
    ends(&lookups, new, Outcome::Loaded, &[4, 5], false);
}

#[test]
fn a_flush_cancels_all_and_forgets_all() {
    let lookups = Lookups::new(100, 1000);
    for number in 0..50 {
        let ticket = start(&lookups, number, 0);
        ends(&lookups, ticket, Outcome::Missing, &[0], false);
    }
    let tickets: Vec<_> = (50..100).map(|number| start(&lookups, number, 0)).collect();
    lookups.changed_all();
    assert!((0..50).all(|number| !lookups.is_missing(hash(number), 1)));
    assert!(tickets.iter().all(|ticket| !lookups.admit(ticket)));
    for ticket in tickets {
        ends(&lookups, ticket, Outcome::Missing, &[0], true);
    }
    assert!((0..100).all(|number| !lookups.is_missing(hash(number), 1)));
}

#[test]
fn a_ticket_that_is_lost_leaves_nothing() {
    let lookups = Lookups::new(1, 10);
    let ticket = start(&lookups, 1, 6);
    assert!(matches!(lookups.begin(hash(1), 2, 1), Begun::Joined));
    assert!(matches!(lookups.begin(hash(2), 2, 1), Begun::Busy));
    drop(ticket);
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let _ticket = start(&lookups, 2, 8);
        panic!("of a thread that looks up");
    }));
    assert!(failed.is_err() && lookups.loading() == 0);
    assert!(lookups.take_abandoned().iter().eq([2, 6, 8]));
    assert!(lookups.take_abandoned().is_empty());
    let ticket = start(&lookups, 1, 0);
    ends(&lookups, ticket, Outcome::Loaded, &[0], false);
}

#[test]
fn lookups_and_missing_keys_are_bounded() {
    let lookups = Lookups::new(3, 1000);
    let bytes = lookups.bytes();
    let tickets: Vec<_> = (0..3).map(|number| start(&lookups, number, 0)).collect();
    assert!(matches!(lookups.begin(hash(3), 0, 1), Begun::Busy));
    assert!(matches!(lookups.begin(hash(2), 0, 1), Begun::Joined));
    drop(tickets);
    for number in 0..100_000 {
        let ticket = start(&lookups, number, 0);
        ends(&lookups, ticket, Outcome::Missing, &[0], false);
    }
    let missing = (0..100_000).filter(|number| lookups.is_missing(hash(*number), 1)).count();
    assert_eq!(missing, 1024, "as many as a thousand, in 256 shards");
    (0..256).for_each(|_| lookups.forget_old(MISSING_NS));
    assert!(lookups.is_missing(hash(99_999), 1), "its time was not over");
    (0..256).for_each(|_| lookups.forget_old(MISSING_NS + 1));
    assert!((0..100_000).all(|number| !lookups.is_missing(hash(number), 1)));
    assert_eq!(lookups.bytes(), bytes, "nothing was allocated for them");
}

#[test]
fn lookups_that_may_not_remember_still_end() {
    let lookups = Lookups::new(1, 0);
    let ticket = start(&lookups, 1, 0);
    ends(&lookups, ticket, Outcome::Missing, &[0], false);
    assert!(!lookups.is_missing(hash(1), 1));
    assert!(matches!(Lookups::new(0, 0).begin(hash(1), 0, 1), Begun::Busy));
}

#[test]
fn no_old_value_survives_beside_threads_that_change() {
    let mut sums = [0; 3];
    for seed in 0..30 {
        let cell = common::race(seed, 1 + seed as usize % 3, 10_000);
        let counts = [&cell.installed, &cell.refused, &cell.known];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count.load(Ordering::Relaxed);
        }
    }
    println!("{sums:?} installed, refused, known to be missing");
    assert!(sums[0] > 0, "nothing was tried");
}
