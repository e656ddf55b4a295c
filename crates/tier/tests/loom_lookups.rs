//! The lookups under loom: every order of few steps, with the memory orders that the processor may
//! choose.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tier --test loom_lookups`
#![cfg(loom)]

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;
use tier::{Begun, KeyHash, Lookups, Outcome};

/// Tries every order of: one thread begins a lookup and looks at the log; this one appends a change
/// to the log, and then calls `tell`.
fn one_of_both_sees_the_other(tell: fn(&Lookups, KeyHash)) {
    loom::model(move || {
        let (lookups, log) = (Lookups::new(1, 0), Arc::new(AtomicU64::new(0)));
        let hash = KeyHash::from_raw(5);
        let (other, seen) = (lookups.clone(), log.clone());
        let begins = thread::spawn(move || {
            let Begun::Started(ticket) = other.begin(hash, 0, 1) else { panic!("the first one") };
            // No order between threads follows from this access.
            (ticket, seen.load(Ordering::Relaxed))
        });
        log.store(1, Ordering::Relaxed);
        tell(&lookups, hash);
        let (ticket, seen) = begins.join().expect("no panic");
        let admitted = lookups.admit(&ticket);
        assert!(seen == 1 || !admitted, "neither has seen the other");
        let finished = lookups.finish(ticket, Outcome::Missing, 1);
        assert_eq!(finished.is_cancelled, !admitted);
    });
}

#[test]
fn a_change_and_a_lookup_that_begins_do_not_miss_each_other() {
    one_of_both_sees_the_other(|lookups, hash| lookups.changed(hash));
}

#[test]
fn a_change_of_all_keys_and_a_lookup_that_begins_do_not_miss_each_other() {
    one_of_both_sees_the_other(|lookups, _| lookups.changed_all());
}
