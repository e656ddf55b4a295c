//! The committed streams. A row that is changed is another stream: give it another name.
//!
//! Most run in 64 MiB, memcached's own default, and their items take about seven times that: a
//! tenth to a fifth of them fit, where policies differ most. The few that would name too few keys
//! to fill 64 MiB run in less. Names are unique. Memory is MiB.

use super::trace::{Disturbance, Spec};
use Disturbance::{Drift, Flip, Loop, Once, Replace};

/// What most streams have in common: the start of a stream of one's own.
pub const BASE: Spec = Spec {
    name: "",
    quick: false,
    memory_mib: 64,
    requests: 2_000_000,
    keys: 1_200_000,
    zipf: 1.0,
    disturbance: Disturbance::None,
    gets_per_set: 30,
    value_bytes: "uniform:20-600",
    resized: false,
    ttl_s: "0",
    pace: 0,
    seed: 1,
};

/// What streams whose items expire have in common; they last twenty seconds.
const EXPIRING: Spec = Spec { pace: 100_000, ..BASE };

const fn zipf(name: &'static str, zipf: f64, seed: u64) -> Spec {
    Spec { name, zipf, seed, ..BASE }
}

const fn bent(name: &'static str, disturbance: Disturbance) -> Spec {
    Spec { name, disturbance, ..BASE }
}

const fn replace(requests: u64, percent: u64) -> Disturbance {
    Replace { requests, percent }
}

/// The whole working set is replaced half way.
const fn replaced(name: &'static str, zipf: f64, seed: u64) -> Spec {
    Spec { name, zipf, seed, disturbance: replace(BASE.requests / 2, 100), ..BASE }
}

const fn replaced_sized(
    name: &'static str,
    value_bytes: &'static str,
    keys: u64,
    seed: u64,
) -> Spec {
    Spec { value_bytes, keys, ..replaced(name, 0.9, seed) }
}

const fn sized(name: &'static str, value_bytes: &'static str, keys: u64) -> Spec {
    Spec { name, value_bytes, keys, ..BASE }
}

const fn mixed(name: &'static str, gets_per_set: u32, zipf: f64, seed: u64) -> Spec {
    Spec { name, gets_per_set, zipf, seed, ..BASE }
}

const fn expiring(name: &'static str, ttl_s: &'static str) -> Spec {
    Spec { name, ttl_s, ..EXPIRING }
}

const fn quick(spec: Spec) -> Spec {
    Spec { quick: true, ..spec }
}

/// Every stream.
pub const STREAMS: [Spec; 48] = [
    zipf("zipf-0.8", 0.8, 1),
    zipf("zipf-0.9", 0.9, 1),
    zipf("zipf-0.9-b", 0.9, 2),
    quick(zipf("zipf-1.0", 1.0, 1)),
    zipf("zipf-1.0-b", 1.0, 2),
    zipf("zipf-1.0-c", 1.0, 3),
    Spec { memory_mib: 32, ..zipf("zipf-1.1", 1.1, 1) },
    Spec { memory_mib: 16, ..zipf("zipf-1.2", 1.2, 1) },
    bent("scan-10", Once { percent: 10, burst: 1 }),
    quick(bent("scan-20", Once { percent: 20, burst: 1 })),
    bent("scan-30-bursts", Once { percent: 30, burst: 1_000 }),
    bent("scan-50", Once { percent: 50, burst: 1 }),
    Spec { zipf: 0.9, seed: 2, ..bent("scan-20-flat", Once { percent: 20, burst: 100 }) },
    bent("loop-20-fits", Loop { percent: 20, keys: 50_000 }),
    quick(bent("loop-20-large", Loop { percent: 20, keys: 150_000 })),
    bent("loop-50-large", Loop { percent: 50, keys: 250_000 }),
    bent("drift-slow", Drift { requests: 2_000_000 }),
    quick(bent("drift", Drift { requests: 500_000 })),
    bent("drift-fast", Drift { requests: 100_000 }),
    Spec { zipf: 0.9, seed: 2, ..bent("drift-flat", Drift { requests: 300_000 }) },
    bent("flip", Flip { requests: 500_000 }),
    replaced("replace-0.8", 0.8, 1),
    replaced("replace-0.9", 0.9, 1),
    quick(replaced("replace-1.0", 1.0, 3)),
    Spec { memory_mib: 32, ..replaced("replace-1.1", 1.1, 3) },
    Spec { disturbance: replace(1_000_000, 50), ..replaced("replace-half", 0.9, 3) },
    Spec { disturbance: replace(1_000_000, 70), ..replaced("replace-most", 1.0, 3) },
    Spec { disturbance: replace(700_000, 100), ..replaced("replace-twice-0.8", 0.8, 4) },
    Spec { disturbance: replace(700_000, 100), ..replaced("replace-twice-1.0", 1.0, 4) },
    Spec { keys: 500_000, ..replaced("replace-few", 0.9, 8) },
    Spec { gets_per_set: 1, ..replaced("replace-mix-1", 0.9, 9) },
    Spec { memory_mib: 32, ..replaced_sized("replace-tiny", "uniform:5-100", 3_000_000, 6) },
    replaced_sized("replace-large", "uniform:500-16000", 60_000, 7),
    mixed("mix-5", 5, 1.0, 4),
    mixed("mix-5-flat", 5, 0.9, 5),
    quick(mixed("mix-1", 1, 1.0, 6)),
    mixed("mix-1-flat", 1, 0.9, 7),
    Spec { resized: true, ..mixed("mix-5-resized", 5, 1.0, 8) },
    quick(Spec { resized: true, ..mixed("mix-1-resized", 1, 1.0, 9) }),
    Spec { memory_mib: 32, ..sized("size-tiny", "uniform:5-100", 3_000_000) },
    sized("size-300", "300", 1_200_000),
    quick(sized("size-uneven", "50:6,300:3,3000:1", 800_000)),
    sized("size-wide", "uniform:20-4000", 300_000),
    sized("size-large", "uniform:500-16000", 60_000),
    expiring("ttl-short", "1:1,2:1,3:1"),
    quick(expiring("ttl-mix", "0:2,2:1,8:1,100:1,5000:1")),
    Spec { gets_per_set: 5, ..expiring("ttl-mix-5", "0:2,2:1,8:1,100:1,5000:1") },
    Spec { zipf: 0.9, seed: 2, ..expiring("ttl-mix-flat", "2:1,5:1,100:1,5000:1") },
];

/// The stream of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    STREAMS.iter().find(|spec| spec.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Trace;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_rows_are_possible() {
        let names: HashSet<&str> = STREAMS.iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), STREAMS.len());
        for spec in &STREAMS {
            let smaller = Spec { keys: spec.keys.min(1_000), ..*spec };
            assert!(Trace::new(&smaller).is_ok(), "{}", spec.name);
            assert_eq!(find(spec.name).map(|found| found.seed), Some(spec.seed));
            assert_eq!(spec.pace > 0, spec.ttl_s != "0", "{}", spec.name);
        }
        assert!(find("none").is_none());
    }
}
