//! The stream of requests: an endless iterator that is a function of seed and lane.
//!
//! A lane is one independent walker, such as a thread of the generator. What lane `i` of `n`
//! asks for does not depend on replies, on time or on the other lanes.

use std::str::FromStr;
use std::sync::Arc;

use super::popularity::Sampler;
use super::{KEYS_MAX, KeyForm, Popularity, Spread, VALUE_BYTES_MAX, Values};
use crate::rng::{Rng, mix};

/// Keeps the lifetimes of items independent of their lengths.
const TTL_SALT: u64 = 0x74_746C;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads the key.
    Get,
    /// Stores the key's value.
    Set,
}

/// One request, as numbers; the bytes follow from [`KeyForm`] and [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub op: Op,
    /// The number of its key, below the number of keys.
    pub key: u64,
    /// The length of the value that belongs to the key.
    pub value_bytes: u32,
    /// The lifetime that the key is stored with; 0 is for ever.
    pub ttl_s: u32,
}

/// How many gets stand against how many sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Weight of gets.
    pub gets: u32,
    /// Weight of sets.
    pub sets: u32,
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: a ratio is written GETS:SETS, for example 9:1");
        let (gets, sets) = text.split_once(':').ok_or_else(wrong)?;
        let (Ok(gets), Ok(sets)) = (gets.parse(), sets.parse()) else { return Err(wrong()) };
        if gets == 0 && sets == 0 {
            return Err(format!("{text:?} asks for nothing; one side must be above 0"));
        }
        Ok(Self { gets, sets })
    }
}

/// Everything that a workload is made of.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// How many keys there are.
    pub keys: u64,
    /// The length of each key.
    pub key_bytes: usize,
    /// What each key begins with.
    pub key_prefix: String,
    /// Which key is asked for.
    pub popularity: Popularity,
    /// Gets against sets.
    pub ratio: Ratio,
    /// The lengths of values.
    pub value_bytes: Spread,
    /// The lifetimes of items, in seconds; 0 is for ever.
    pub ttl_s: Spread,
    /// Names the whole sequence.
    pub seed: u64,
}

/// A workload ready to be walked; cheap to share between threads.
#[derive(Clone, Debug)]
pub struct Workload {
    /// How keys look on the wire.
    pub keys: KeyForm,
    /// What values hold.
    pub values: Values,
    keys_count: u64,
    sampler: Sampler,
    ratio: Ratio,
    value_bytes: Spread,
    ttl_s: Spread,
    seed: u64,
}

impl Workload {
    /// Builds the tables of `spec`.
    ///
    /// # Errors
    /// When a part of it exceeds a limit; the message names value, limit and remedy.
    pub fn new(spec: &WorkloadSpec) -> Result<Arc<Self>, String> {
        if spec.keys == 0 || spec.keys > KEYS_MAX {
            return Err(format!("{} keys: choose from 1 to {KEYS_MAX}", spec.keys));
        }
        let value_bytes_max = spec.value_bytes.max();
        if value_bytes_max > VALUE_BYTES_MAX {
            return Err(format!("values of {value_bytes_max} bytes: at most {VALUE_BYTES_MAX}"));
        }
        Ok(Arc::new(Self {
            keys: KeyForm::new(&spec.key_prefix, spec.key_bytes, spec.keys)?,
            values: Values::new(spec.seed, value_bytes_max),
            keys_count: spec.keys,
            sampler: Sampler::new(spec.popularity, spec.keys),
            ratio: spec.ratio,
            value_bytes: spec.value_bytes.clone(),
            ttl_s: spec.ttl_s.clone(),
            seed: spec.seed,
        }))
    }

    /// The same keys and values, each stored once in order: what fills a server before a run.
    #[must_use]
    pub fn filling(&self) -> Arc<Self> {
        Arc::new(Self {
            sampler: Sampler::new(Popularity::Sequential, self.keys_count),
            ratio: Ratio { gets: 0, sets: 1 },
            ..self.clone()
        })
    }

    /// How many keys there are.
    #[must_use]
    pub fn keys_count(&self) -> u64 {
        self.keys_count
    }

    /// The length of the value that belongs to `key`.
    #[inline]
    #[must_use]
    pub fn value_bytes(&self, key: u64) -> u32 {
        self.value_bytes.of(mix(self.seed ^ key))
    }

    /// The lifetime that `key` is stored with, in seconds.
    #[inline]
    #[must_use]
    pub fn ttl_s(&self, key: u64) -> u32 {
        self.ttl_s.of(mix(self.seed ^ key ^ (TTL_SALT << 40)))
    }
}

/// The requests of one lane, without end.
#[derive(Clone, Debug)]
pub struct Stream {
    workload: Arc<Workload>,
    sampler: Sampler,
    rng: Rng,
}

impl Stream {
    /// The walk of `lane` among `lanes` over `workload`.
    #[must_use]
    pub fn new(workload: &Arc<Workload>, lane: u64, lanes: u64) -> Self {
        Self {
            workload: Arc::clone(workload),
            sampler: workload.sampler.lane(lane, lanes.max(1)),
            rng: Rng::new(workload.seed, lane),
        }
    }

    /// The kind of the next request; its key is drawn apart, so one get can ask for many keys.
    #[inline]
    pub fn op(&mut self) -> Op {
        let Ratio { gets, sets } = self.workload.ratio;
        // A pure workload draws no number, so its keys are those of the sampler alone.
        let get = match (gets, sets) {
            (_, 0) => true,
            (0, _) => false,
            _ => self.rng.below(u64::from(gets) + u64::from(sets)) < u64::from(gets),
        };
        if get { Op::Get } else { Op::Set }
    }

    /// The next key number.
    #[inline]
    pub fn key(&mut self) -> u64 {
        self.sampler.draw(&mut self.rng)
    }
}

impl Iterator for Stream {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        let op = self.op();
        let key = self.key();
        let value_bytes = self.workload.value_bytes(key);
        Some(Request { op, key, value_bytes, ttl_s: self.workload.ttl_s(key) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> WorkloadSpec {
        WorkloadSpec {
            keys: 1_000,
            key_bytes: 20,
            key_prefix: "key".into(),
            popularity: Popularity::Zipf(1.0),
            ratio: Ratio { gets: 9, sets: 1 },
            value_bytes: Spread::Uniform(10, 900),
            ttl_s: Spread::Uniform(0, 60),
            seed: 5,
        }
    }

    fn walk(spec: &WorkloadSpec, lane: u64, count: usize) -> Vec<Request> {
        Stream::new(&Workload::new(spec).unwrap(), lane, 2).take(count).collect()
    }

    #[test]
    fn the_seed_names_the_sequence() {
        let first = walk(&spec(), 0, 1_000);
        assert_eq!(first, walk(&spec(), 0, 1_000));
        assert_ne!(first, walk(&spec(), 1, 1_000));
        assert_ne!(first, walk(&WorkloadSpec { seed: 6, ..spec() }, 0, 1_000));
    }

    #[test]
    fn ratio_lengths_and_lifetimes_hold() {
        let walked = walk(&spec(), 0, 50_000);
        let sets = walked.iter().filter(|request| request.op == Op::Set).count();
        assert!((4_700..5_300).contains(&sets), "{sets}");
        let workload = Workload::new(&spec()).unwrap();
        for request in walked {
            assert!(request.key < 1_000 && (10..=900).contains(&request.value_bytes));
            assert_eq!(request.value_bytes, workload.value_bytes(request.key));
            assert!(request.ttl_s <= 60);
        }
    }

    #[test]
    fn filling_stores_every_key_once() {
        let workload = Workload::new(&spec()).unwrap().filling();
        let walked: Vec<Request> = Stream::new(&workload, 0, 1).take(1_000).collect();
        assert!(walked.iter().enumerate().all(|(i, r)| r.op == Op::Set && r.key == i as u64));
    }

    #[test]
    fn ratios_parse() {
        assert_eq!("9:1".parse(), Ok(Ratio { gets: 9, sets: 1 }));
        for text in ["", "1", "1:", "0:0", "-1:1"] {
            assert!(text.parse::<Ratio>().is_err(), "{text}");
        }
    }

    #[test]
    fn limits_are_named() {
        for (spec, word) in [
            (WorkloadSpec { keys: 0, ..spec() }, "from 1"),
            (WorkloadSpec { keys: KEYS_MAX + 1, key_bytes: 40, ..spec() }, "from 1"),
            (WorkloadSpec { value_bytes: Spread::Fixed(u32::MAX), ..spec() }, "at most"),
        ] {
            let error = Workload::new(&spec).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
