//! The stream of requests: an endless iterator that is a function of seed and lane.
//!
//! A lane is one independent walker, such as a thread of the generator. Invariant: the requests of
//! lane `i` of `n` do not depend on replies, on time or on the other lanes. Lengths are bytes,
//! lifetimes seconds.

use std::str::FromStr;
use std::sync::Arc;

use super::keys::KeyForm;
use super::limits::{KEYS_MAX, VALUE_BYTES_MAX};
use super::popularity::{Popularity, Sampler};
use super::spread::Spread;
use super::values::Values;
use measure::rng::{Rng, mix};

/// Keeps the lifetimes of items independent of their lengths.
const TTL_SALT: u64 = 0x74_746C;

/// The longest lifetime; memcached takes a larger number for a date.
const TTL_S_MAX: u32 = 30 * 24 * 60 * 60;

/// The greatest weight of a kind of request; four of them stay below 2^32.
const WEIGHT_MAX: u32 = 1_000_000_000;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads the key.
    Get,
    /// Stores the key's value.
    Set,
    /// Removes the key.
    Delete,
    /// Reads the key and, whether or not its value is there, stores it again.
    Modify,
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

/// The weights of the kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Weight of gets.
    pub gets: u32,
    /// Weight of sets.
    pub sets: u32,
    /// Weight of deletes.
    pub deletes: u32,
    /// Weight of reads that are followed by a write of their key.
    pub modifies: u32,
}

impl Ratio {
    /// A weight for gets and one for sets.
    #[must_use]
    pub const fn of(gets: u32, sets: u32) -> Self {
        Self { gets, sets, deletes: 0, modifies: 0 }
    }

    fn kinds(self) -> [(Op, u32); 4] {
        [
            (Op::Get, self.gets),
            (Op::Set, self.sets),
            (Op::Delete, self.deletes),
            (Op::Modify, self.modifies),
        ]
    }

    /// The only kind of request, if there is no other.
    fn only(self) -> Option<Op> {
        let mut kinds = self.kinds().into_iter().filter(|(_, weight)| *weight > 0);
        let first = kinds.next().map(|(op, _)| op);
        if kinds.next().is_some() { None } else { first }
    }

    fn total(self) -> u64 {
        self.kinds().iter().map(|(_, weight)| u64::from(*weight)).sum()
    }

    /// The kind at `point`, which lies below the total.
    #[inline]
    fn at(self, point: u64) -> Op {
        let sets_from = u64::from(self.gets);
        let deletes_from = sets_from + u64::from(self.sets);
        if point < sets_from {
            Op::Get
        } else if point < deletes_from {
            Op::Set
        } else if point < deletes_from + u64::from(self.deletes) {
            Op::Delete
        } else {
            Op::Modify
        }
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text:?}: a ratio is GETS:SETS[:DELETES[:MODIFIES]], for example 9:1 or 8:1:1")
        };
        let mut weights = [0; 4];
        let parts: Vec<&str> = text.split(':').collect();
        if !(2..=weights.len()).contains(&parts.len()) {
            return Err(wrong());
        }
        for (weight, part) in weights.iter_mut().zip(parts) {
            *weight = part.parse().ok().filter(|weight| *weight <= WEIGHT_MAX).ok_or_else(wrong)?;
        }
        let [gets, sets, deletes, modifies] = weights;
        let ratio = Self { gets, sets, deletes, modifies };
        if ratio.total() == 0 {
            return Err(format!("{text:?} requests nothing; choose one weight above 0"));
        }
        Ok(ratio)
    }
}

/// The parts of a workload.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// The number of keys.
    pub keys: u64,
    /// The lengths of keys.
    pub key_bytes: Spread,
    /// What each key begins with.
    pub key_prefix: String,
    /// Which key a request names.
    pub popularity: Popularity,
    /// The weights of the kinds of requests.
    pub ratio: Ratio,
    /// The lengths of values.
    pub value_bytes: Spread,
    /// The lifetimes of items, in seconds; 0 is for ever.
    pub ttl_s: Spread,
    /// Names the whole sequence.
    pub seed: u64,
}

/// A workload with its tables, shared by all lanes.
///
/// ```
/// use load::workload::{Op, Popularity, Ratio, Spread, Stream, Workload, WorkloadSpec};
///
/// let workload = Workload::new(&WorkloadSpec {
///     keys: 1_000,
///     key_bytes: Spread::Fixed(20),
///     key_prefix: "key".to_string(),
///     popularity: Popularity::Zipf(0.99),
///     ratio: Ratio::of(9, 1),
///     value_bytes: Spread::Fixed(300),
///     ttl_s: Spread::Fixed(0),
///     seed: 1,
/// })?;
/// let first = Stream::new(&workload, 0, 1).next().expect("a stream is endless");
/// assert!(first.key < 1_000 && matches!(first.op, Op::Get | Op::Set));
/// assert_eq!(Stream::new(&workload, 0, 1).next(), Some(first), "the seed names the sequence");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Workload {
    /// How keys look on the wire.
    pub keys: KeyForm,
    /// What values hold.
    pub values: Values,
    keys_count: u64,
    sampler: Sampler,
    ratio: Ratio,
    /// The one kind of a workload that has no other: no number is drawn for it, so its keys are
    /// those of the sampler alone.
    only: Option<Op>,
    total: u64,
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
        let ttl_s_max = spec.ttl_s.max();
        if ttl_s_max > TTL_S_MAX {
            return Err(format!(
                "a lifetime of {ttl_s_max} s: above {TTL_S_MAX} (30 days) memcached takes it for a \
                 date; choose at most that, or 0 for ever"
            ));
        }
        Ok(Arc::new(Self {
            keys: KeyForm::new(&spec.key_prefix, &spec.key_bytes, spec.keys, spec.seed)?,
            values: Values::new(spec.seed, value_bytes_max),
            keys_count: spec.keys,
            sampler: Sampler::new(spec.popularity, spec.keys),
            ratio: spec.ratio,
            only: spec.ratio.only(),
            total: spec.ratio.total(),
            value_bytes: spec.value_bytes.clone(),
            ttl_s: spec.ttl_s.clone(),
            seed: spec.seed,
        }))
    }

    /// The same workload over the keys with these numbers, in place of the first ones.
    ///
    /// # Errors
    /// When there are fewer numbers than keys, or the keys cannot hold them.
    pub fn only(&self, mut numbers: Vec<u64>) -> Result<Arc<Self>, String> {
        if (numbers.len() as u64) < self.keys_count {
            let (keys, listed) = (self.keys_count, numbers.len());
            return Err(format!("{listed} numbers for {keys} keys: lower --keys, or list more"));
        }
        numbers.truncate(self.keys_count as usize);
        Ok(Arc::new(Self { keys: self.keys.clone().only(numbers)?, ..self.clone() }))
    }

    /// Keys and values of a trace: any 64-bit number names a key, and the trace states lengths.
    ///
    /// # Errors
    /// When the prefix is too long, or `value_bytes_max` above its limit.
    pub fn of_trace(key_prefix: &str, value_bytes_max: u32, seed: u64) -> Result<Self, String> {
        /// Digits of the largest number.
        const DIGITS: usize = 20;
        let key_bytes = Spread::Fixed((key_prefix.len() + DIGITS) as u32);
        if value_bytes_max > VALUE_BYTES_MAX {
            return Err(format!("values of {value_bytes_max} bytes: at most {VALUE_BYTES_MAX}"));
        }
        Ok(Self {
            keys: KeyForm::new(key_prefix, &key_bytes, u64::MAX, seed)?,
            values: Values::new(seed, value_bytes_max),
            keys_count: u64::MAX,
            sampler: Sampler::new(Popularity::Sequential, KEYS_MAX),
            ratio: Ratio::of(1, 0),
            only: Some(Op::Get),
            total: 1,
            value_bytes: Spread::Fixed(0),
            ttl_s: Spread::Fixed(0),
            seed,
        })
    }

    /// The same keys and values, each stored once in order, to fill a server before a run.
    #[must_use]
    pub fn filling(&self) -> Arc<Self> {
        Arc::new(Self {
            sampler: Sampler::new(Popularity::Sequential, self.keys_count),
            only: Some(Op::Set),
            ..self.clone()
        })
    }

    /// The length of the longest value.
    #[must_use]
    pub fn value_bytes_max(&self) -> u32 {
        self.value_bytes.max()
    }

    /// Whether any of its requests stores a value.
    #[must_use]
    pub fn stores(&self) -> bool {
        match self.only {
            Some(op) => matches!(op, Op::Set | Op::Modify),
            None => self.ratio.sets + self.ratio.modifies > 0,
        }
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

/// The endless requests of one lane; [`Workload`] has an example.
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

    /// The kind of the next request; keys are drawn separately, so that one get can have many.
    #[inline]
    pub fn op(&mut self) -> Op {
        match self.workload.only {
            Some(op) => op,
            None => self.workload.ratio.at(self.rng.below(self.workload.total)),
        }
    }

    /// The next key number of a request that reads, removes or changes.
    #[inline]
    pub fn key(&mut self) -> u64 {
        self.sampler.draw(&mut self.rng)
    }

    /// The next key number of a request that stores.
    #[inline]
    pub fn stored_key(&mut self) -> u64 {
        self.sampler.draw_stored(&mut self.rng)
    }

    /// A number that `spread` draws, such as how many keys the next get asks for.
    #[inline]
    pub fn number(&mut self, spread: &Spread) -> u32 {
        match spread {
            Spread::Fixed(number) => *number,
            spread => spread.of(self.rng.next_u64()),
        }
    }
}

impl Iterator for Stream {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        let op = self.op();
        let key = if op == Op::Set { self.stored_key() } else { self.key() };
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
            key_bytes: Spread::Fixed(20),
            key_prefix: "key".into(),
            popularity: Popularity::Zipf(1.0),
            ratio: Ratio::of(9, 1),
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
    fn every_kind_has_its_share() {
        let ratio = "6:2:1:1".parse().unwrap();
        let walked = walk(&WorkloadSpec { ratio, ..spec() }, 0, 100_000);
        for (op, share) in
            [(Op::Get, 60_000), (Op::Set, 20_000), (Op::Delete, 10_000), (Op::Modify, 10_000)]
        {
            let count = walked.iter().filter(|request| request.op == op).count();
            assert!(count.abs_diff(share) < 600, "{op:?}: {count}");
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
        assert_eq!("9:1".parse(), Ok(Ratio::of(9, 1)));
        assert_eq!("8:1:1".parse(), Ok(Ratio { deletes: 1, ..Ratio::of(8, 1) }));
        assert_eq!("5:0:0:5".parse(), Ok(Ratio { modifies: 5, ..Ratio::of(5, 0) }));
        for text in ["", "1", "1:", "0:0", "-1:1", "1:1:1:1:1", "0:0:0:0", "9999999999:1"] {
            assert!(text.parse::<Ratio>().is_err(), "{text}");
        }
    }

    #[test]
    fn limits_are_named() {
        for (spec, word) in [
            (WorkloadSpec { keys: 0, ..spec() }, "from 1"),
            (WorkloadSpec { keys: KEYS_MAX + 1, key_bytes: Spread::Fixed(40), ..spec() }, "from 1"),
            (WorkloadSpec { value_bytes: Spread::Fixed(u32::MAX), ..spec() }, "at most"),
        ] {
            let error = Workload::new(&spec).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
