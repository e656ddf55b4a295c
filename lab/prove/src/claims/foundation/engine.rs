//! The engine alone: what a very large value costs its neighbours, and how stores scale.
//!
//! Both are benches of the engine's crate that print JSON; see their own pages.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::claim::{Claim, Measured};
use crate::claims::engine::{BENCH_MAX, Scale, bench};
use crate::lab::Lab;

/// Seconds of reads beside large values, and in the full form.
const LARGE_S: [u64; 2] = [10, 60];
/// How many times longer the slowest thousandth may take in the bucket of the large value.
const TIMES_MAX: f64 = 2.0;
/// Turns of one thread and of two, and in the full form.
const ROUNDS: [u64; 2] = [9, 31];
/// The share that must be reached of the factor of two engines that share nothing.
const SHARE_MIN: f64 = 0.9;
/// The workloads of the bench `scale` that are compared.
const STORES: [&str; 2] = ["stores", "stores_apart"];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("large.get", "engine: GETs in the bucket of a 256 MiB SET, beside other GETs")
        .bar("p99.9 <= 2x")
        .by(large),
    Claim::new("scale.set", "engine: two threads, allocating SETs, memory full")
        .bar(">= 0.9x the factor of two engines that share nothing")
        .by(stores),
];

/// What the bench `large` prints.
#[derive(Deserialize)]
struct Large {
    stored: u64,
    refused: u64,
    store_p50_ns: u64,
    store_longest_ns: u64,
    near: Reads,
    far: Reads,
    waited_ns: u64,
    missed: u64,
}

#[derive(Deserialize)]
struct Reads {
    count: u64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    longest_ns: u64,
}

impl Reads {
    fn line(&self, name: &str) -> String {
        format!(
            "{name}: p50 {} ns, p99 {:.1} us, p99.9 {:.1} us, longest {:.1} ms, {} reads",
            self.p50_ns,
            self.p99_ns as f64 / 1e3,
            self.p999_ns as f64 / 1e3,
            self.longest_ns as f64 / 1e6,
            self.count
        )
    }
}

impl Large {
    fn judged(&self) -> Measured {
        let factor = self.near.p999_ns as f64 / self.far.p999_ns as f64;
        let [near_us, far_us] = [&self.near, &self.far].map(|reads| reads.p999_ns as f64 / 1e3);
        let text = format!("{factor:.1}x: {near_us:.1} us in its bucket, {far_us:.1} us elsewhere");
        let details = vec![
            self.near.line("in the bucket of the large value"),
            self.far.line("in other buckets"),
            format!(
                "{} large values stored, {:.0} ms each in the middle, {:.0} ms at most; {} refused",
                self.stored,
                self.store_p50_ns as f64 / 1e6,
                self.store_longest_ns as f64 / 1e6,
                self.refused
            ),
            format!(
                "{:.0} ms without a core taken off; {} small values evicted and stored again",
                self.waited_ns as f64 / 1e6,
                self.missed
            ),
        ];
        if self.stored == 0 {
            return Measured::not("no large value was stored").with_details(details);
        }
        Measured::new(text, factor, factor <= TIMES_MAX).with_details(details)
    }
}

fn large(lab: &Lab) -> Result<Measured> {
    let seconds = lab.form(LARGE_S);
    let large: Large = bench(lab, "large", &[&seconds.to_string()], BENCH_MAX)?;
    Ok(large.judged())
}

fn stores(lab: &Lab) -> Result<Measured> {
    let rounds = lab.form(ROUNDS).to_string();
    let scale: Scale = bench(lab, "scale", &[&rounds, STORES[0], STORES[1]], BENCH_MAX)?;
    judged_stores(&scale).context("the bench scale")
}

fn judged_stores(scale: &Scale) -> Result<Measured> {
    let (one, apart) = (scale.factor(STORES[0])?, scale.factor(STORES[1])?);
    let share = one / apart;
    let text = format!("{share:.2}x: {one:.2}x in one engine, {apart:.2}x in two");
    Ok(Measured::new(text, share, share >= SHARE_MIN).with_details(scale.lines()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn a_bucket_that_waits_for_its_large_value_fails() {
        let said = |near: u64, stored: u64| -> Large {
            let reads = |p999: u64| {
                format!(
                    r#"{{"count": 9, "p50_ns": 1, "p99_ns": 2, "p999_ns": {p999},
                        "longest_ns": 9, "p99999_ns": 9}}"#
                )
            };
            let said = format!(
                r#"{{"stored": {stored}, "refused": 0, "store_p50_ns": 1, "store_longest_ns": 2,
                    "near": {}, "far": {}, "waited_ns": 0, "missed": 0, "seconds": 1}}"#,
                reads(near),
                reads(100)
            );
            serde_json::from_str(&said).unwrap()
        };
        assert_eq!(said(200, 5).judged().verdict, Verdict::Pass);
        assert_eq!(said(201, 5).judged().verdict, Verdict::Fail);
        assert!(matches!(said(100, 0).judged().verdict, Verdict::NotMeasured(_)));
    }

    #[test]
    fn stores_are_held_against_two_engines_that_share_nothing() {
        let scale = |one: f64| -> Scale {
            let workload = |name: &str, factor: f64| {
                format!(
                    r#"{{"name": "{name}", "one_per_s": 1.0, "two_per_s": {factor},
                        "factor": {factor}, "shared_writes_per_hit": null, "torn_per_hit": null}}"#
                )
            };
            let both = [workload("stores", one), workload("stores_apart", 2.0)].join(",");
            serde_json::from_str(&format!(r#"{{"workloads": [{both}]}}"#)).unwrap()
        };
        assert_eq!(judged_stores(&scale(1.8)).unwrap().verdict, Verdict::Pass);
        assert_eq!(judged_stores(&scale(1.79)).unwrap().verdict, Verdict::Fail);
        let nothing: Scale = serde_json::from_str(r#"{"workloads": []}"#).unwrap();
        assert!(judged_stores(&nothing).is_err());
    }
}
