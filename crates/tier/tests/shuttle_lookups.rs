//! The lookups under shuttle: random orders of steps that read, change, flush and evict.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p tier --test shuttle_lookups`
#![cfg(shuttle)]

mod common;

use common::race;
use shuttle::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Orders tried by each test: `SHUTTLE_ORDERS`, or enough for a few seconds.
fn orders() -> usize {
    std::env::var("SHUTTLE_ORDERS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// How often something happened in all orders.
#[derive(Default)]
struct Sums {
    installed: AtomicU64,
    refused: AtomicU64,
    known: AtomicU64,
}

fn try_orders(loading_max: usize, steps: u64) {
    let (seed, sums) = (Arc::new(AtomicU64::new(1)), Arc::new(Sums::default()));
    let all = sums.clone();
    let order = move || {
        let cell = race(seed.fetch_add(1, Ordering::Relaxed), loading_max, steps);
        let add = |sum: &AtomicU64, count| sum.fetch_add(count, Ordering::Relaxed);
        add(&all.installed, cell.installed.load(Ordering::Relaxed));
        add(&all.refused, cell.refused.load(Ordering::Relaxed));
        add(&all.known, cell.known.load(Ordering::Relaxed));
    };
    shuttle::check_random(order.clone(), orders() / 2);
    shuttle::check_pct(order, orders() / 2, 4);
    let [installed, refused, known] =
        [&sums.installed, &sums.refused, &sums.known].map(|sum| sum.load(Ordering::Relaxed));
    println!("{installed} installed, {refused} refused, {known} known to be missing");
    assert!(installed > 0 && refused > 0 && known > 0, "nothing was tried");
}

#[test]
fn an_installed_value_is_never_older_than_a_change() {
    try_orders(4, 6);
}

#[test]
fn so_it_is_with_one_lookup_at_a_time() {
    try_orders(1, 5);
}
