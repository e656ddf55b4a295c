//! A stream as a sequence of steps: which key, when, and the length of the value.
//!
//! Most keys are drawn by a Zipf law over `keys` numbers. A [`Disturbance`] changes that:
//!
//! ```text
//! Once    a share of the requests, in bursts, names keys that never come again
//! Loop    a share of the requests walks a range of its own, again and again
//! Drift   each rank passes to another key once a period, every rank at a time of its own
//! Flip    all ranks pass to other keys at once, once a period
//! Replace a share of the ranks pass at once to keys never named before, once a period
//! ```
//!
//! Keys outside the law are numbered from `keys` on. Length and lifetime follow from the key,
//! unless a stream is `resized`: then the length of a key changes every [`RESIZE_REQUESTS`]
//! requests. Invariant: the steps are a function of the description alone. Lengths are bytes,
//! times seconds.

use std::sync::Arc;

use crate::workload::{
    KEYS_MAX, Op, Popularity, Ratio, Request, Spread, Stream, Workload, WorkloadSpec, passed_key,
    passed_on,
};
use measure::rng::mix;

/// The length of every key.
const KEY_BYTES: u32 = 20;
/// The part of a stream that fills the server before hits are counted, as a divisor.
const WARMUP_PART: u64 = 3;
/// Requests after which the keys of a resized stream have other lengths.
const RESIZE_REQUESTS: u64 = 50_000;

/// What changes the law by which keys are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Nothing.
    None,
    /// `percent` of the requests, `burst` at a time, name keys that never come again.
    Once {
        /// Share of the requests.
        percent: u64,
        /// How many follow each other.
        burst: u64,
    },
    /// `percent` of the requests walk `keys` keys in order, again and again.
    Loop {
        /// Share of the requests.
        percent: u64,
        /// Keys of the walk.
        keys: u64,
    },
    /// Every rank passes to another key once in `requests`, each at its own time.
    Drift {
        /// The period.
        requests: u64,
    },
    /// All ranks pass to other keys together, once in `requests`.
    Flip {
        /// The period.
        requests: u64,
    },
    /// `percent` of the ranks pass together to keys that were never named, once in `requests`.
    Replace {
        /// The period.
        requests: u64,
        /// Share of the ranks, the same ones every time.
        percent: u64,
    },
}

/// The description of a stream.
///
/// ```
/// use load::replay::{Trace, find};
///
/// let spec = find("zipf-1.0").expect("a committed stream");
/// let step = Trace::new(spec)?.next().expect("two million steps");
/// assert!(step.at_s == 0 && step.request.key < spec.keys);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// What it is called; unique in the list.
    pub name: &'static str,
    /// Whether it is part of the short list.
    pub quick: bool,
    /// Memory to run it in, in MiB.
    pub memory_mib: u64,
    /// Requests, refills not counted.
    pub requests: u64,
    /// Keys under the law.
    pub keys: u64,
    /// The exponent of the law.
    pub zipf: f64,
    /// What changes it.
    pub disturbance: Disturbance,
    /// Gets for each set; refills are not counted.
    pub gets_per_set: u32,
    /// Lengths of values, as [`Spread`] reads them.
    pub value_bytes: &'static str,
    /// Whether lengths change over time.
    pub resized: bool,
    /// Lifetimes in seconds, as [`Spread`] reads them; 0 never expires.
    pub ttl_s: &'static str,
    /// Requests in one second of the stream's clock; 0 where nothing expires.
    pub pace: u64,
    /// The seed of the sequence.
    pub seed: u64,
}

/// One request, at a second of the stream's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Seconds since the stream began.
    pub at_s: u32,
    /// The request; for a get, length and lifetime are those of the refill.
    pub request: Request,
}

/// The steps of a stream, in order.
#[derive(Clone, Debug)]
pub struct Trace {
    spec: Spec,
    drawn: Stream,
    form: Arc<Workload>,
    value_bytes: Spread,
    at: u64,
    /// Requests that went outside the law so far.
    outside: u64,
}

impl Trace {
    /// The steps of `spec`, from the first.
    ///
    /// # Errors
    /// When a part of it exceeds a limit; the message names value, limit and remedy.
    pub fn new(spec: &Spec) -> Result<Self, String> {
        let value_bytes: Spread = spec.value_bytes.parse()?;
        let law = WorkloadSpec {
            keys: spec.keys,
            key_bytes: Spread::Fixed(KEY_BYTES),
            key_prefix: "hit-".to_string(),
            popularity: Popularity::Zipf(spec.zipf),
            ratio: Ratio::of(spec.gets_per_set, 1),
            value_bytes: value_bytes.clone(),
            ttl_s: spec.ttl_s.parse()?,
            seed: spec.seed,
        };
        let form = WorkloadSpec { keys: KEYS_MAX, popularity: Popularity::Uniform, ..law.clone() };
        let drawn = Stream::new(&Workload::new(&law)?, 0, 1);
        let form = Workload::new(&form)?;
        Ok(Self { spec: *spec, drawn, form, value_bytes, at: 0, outside: 0 })
    }

    /// The keys and values of all steps on the wire.
    #[must_use]
    pub fn form(&self) -> &Arc<Workload> {
        &self.form
    }

    /// The first step whose hit counts.
    #[must_use]
    pub fn measured_from(&self) -> u64 {
        self.spec.requests / WARMUP_PART
    }

    /// The number of steps.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.spec.requests
    }

    fn key(&mut self) -> u64 {
        let Spec { keys, disturbance, .. } = self.spec;
        let outside = match disturbance {
            Disturbance::Once { percent, burst } => self.at / burst % 100 < percent,
            // A stride without common factor with 100 spreads the share evenly.
            Disturbance::Loop { percent, .. } => self.at * 37 % 100 < percent,
            _ => false,
        };
        if outside {
            let number = self.outside;
            self.outside += 1;
            return keys
                + match disturbance {
                    Disturbance::Loop { keys, .. } => number % keys,
                    _ => number,
                };
        }
        let drawn = self.drawn.key();
        match disturbance {
            Disturbance::Drift { requests } => passed_key(drawn, self.at, requests, keys),
            Disturbance::Flip { requests } => passed_on(drawn, self.at / requests, keys),
            Disturbance::Replace { requests, percent } if mix(drawn) % 100 < percent => {
                drawn + keys * (self.at / requests)
            }
            _ => drawn,
        }
    }
}

impl Iterator for Trace {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.at == self.spec.requests {
            return None;
        }
        let op = self.drawn.op();
        let key = self.key();
        let value_bytes = if self.spec.resized {
            let age = self.at / RESIZE_REQUESTS;
            self.value_bytes.of(mix(self.spec.seed ^ key ^ mix(age)))
        } else {
            self.form.value_bytes(key)
        };
        let ttl_s = self.form.ttl_s(key);
        let at_s = self.at.checked_div(self.spec.pace).unwrap_or(0) as u32;
        self.at += 1;
        Some(Step { at_s, request: Request { op, key, value_bytes, ttl_s } })
    }
}

/// Whether a step reads.
pub(super) fn is_get(step: &Step) -> bool {
    step.request.op == Op::Get
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn spec(disturbance: Disturbance) -> Spec {
        Spec {
            name: "test",
            quick: false,
            memory_mib: 64,
            requests: 20_000,
            keys: 1_000,
            zipf: 1.0,
            disturbance,
            gets_per_set: 4,
            value_bytes: "uniform:10-100",
            resized: false,
            ttl_s: "0:1,5:1",
            pace: 1_000,
            seed: 3,
        }
    }

    fn steps(spec: &Spec) -> Vec<Step> {
        Trace::new(spec).unwrap().collect()
    }

    #[test]
    fn a_stream_is_a_function_of_its_description() {
        let plain = spec(Disturbance::None);
        assert_eq!(steps(&plain), steps(&plain));
        assert_ne!(steps(&plain), steps(&Spec { seed: 4, ..plain }));
        let walked = steps(&plain);
        assert_eq!(walked.len(), 20_000);
        assert_eq!(walked[19_999].at_s, 19);
        let sets = walked.iter().filter(|step| !is_get(step)).count();
        assert!((3_700..4_300).contains(&sets), "{sets}");
        assert_eq!(steps(&Spec { pace: 0, ..plain })[19_999].at_s, 0);
    }

    #[test]
    fn shares_outside_the_law_hold() {
        for (disturbance, distinct) in [
            (Disturbance::Once { percent: 30, burst: 7 }, 6_000),
            (Disturbance::Loop { percent: 30, keys: 50 }, 50),
        ] {
            let walked = steps(&spec(disturbance));
            let mut seen: HashMap<u64, u64> = HashMap::new();
            for step in walked.iter().filter(|step| step.request.key >= 1_000) {
                *seen.entry(step.request.key).or_default() += 1;
            }
            let share = seen.values().sum::<u64>();
            assert!((5_900..=6_100).contains(&share), "{disturbance:?}: {share}");
            assert!(seen.len().abs_diff(distinct) < 100, "{disturbance:?}: {}", seen.len());
        }
    }

    #[test]
    fn popularity_passes_to_other_keys() {
        let hottest = |steps: &[Step]| {
            let mut seen: HashMap<u64, u64> = HashMap::new();
            for step in steps {
                *seen.entry(step.request.key).or_default() += 1;
            }
            seen.into_iter().max_by_key(|(_, count)| *count).unwrap().0
        };
        for (disturbance, moved) in [
            (Disturbance::None, false),
            (Disturbance::Drift { requests: 10_000 }, true),
            (Disturbance::Flip { requests: 10_000 }, true),
        ] {
            let walked = steps(&spec(disturbance));
            let (first, last) = (hottest(&walked[..1_000]), hottest(&walked[19_000..]));
            assert_eq!(first != last, moved, "{disturbance:?}");
            assert!(walked.iter().all(|step| step.request.key < 1_000));
        }
    }

    #[test]
    fn a_share_of_the_ranks_is_replaced_by_keys_never_named_before() {
        for percent in [0, 30, 100] {
            let walked = steps(&spec(Disturbance::Replace { requests: 8_000, percent }));
            for (number, period) in walked.chunks(8_000).enumerate() {
                let (from, keys) = (1_000 * number as u64, |step: &&Step| step.request.key);
                let new = period.iter().filter(|step| keys(step) >= 1_000).count() as u64;
                assert!(period.iter().all(|step| keys(&step) < from + 1_000));
                assert!(period.iter().all(|step| !(1_000..from.max(1_000)).contains(&keys(&step))));
                let share = if number == 0 { 0 } else { percent };
                assert!((new * 100 / period.len() as u64).abs_diff(share) <= 12, "{share}: {new}");
            }
        }
    }

    #[test]
    fn lengths_change_where_they_should() {
        let lengths = |resized| {
            let walked = steps(&Spec { resized, requests: 120_000, ..spec(Disturbance::None) });
            let mut seen: HashMap<u64, std::collections::HashSet<u32>> = HashMap::new();
            for Step { request, .. } in walked {
                seen.entry(request.key).or_default().insert(request.value_bytes);
            }
            seen.values().map(std::collections::HashSet::len).max().unwrap()
        };
        assert_eq!((lengths(false), lengths(true)), (1, 3));
    }
}
