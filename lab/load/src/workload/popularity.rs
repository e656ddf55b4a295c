//! Which key the next request names.
//!
//! ```text
//! uniform          every key alike
//! zipf:S           key of rank r with weight 1 / r^S, exactly, by Vose's alias table
//! hotset[:K%:R%]   K percent of the keys take R percent of the requests, alike inside each part
//! sequential       one key after another, again and again
//! scan:P%[:S]      P percent of the requests walk all keys in order, the others follow zipf:S
//! drift:N[:S]      zipf:S, each rank passing to another key once in N requests
//! latest[:S]       zipf:S over the age of keys: a set stores the next key, gets prefer the newest
//! ```
//!
//! Where they are omitted, S is 0.99 and the hot set is 10 % of the keys for 90 % of the requests.
//! The newest key of `latest` follows the oldest: keys form a circle, so their number stays the
//! same, and a set stores the oldest key again.
//!
//! Ranks are scattered over the key numbers, so that popular keys are not neighbours in any order
//! that a server keeps. A draw costs one random number and at most one read of the table.
//! Invariant: what a lane draws depends on the seed, its number and the draws before, never on
//! time.

use std::str::FromStr;
use std::sync::Arc;

use measure::rng::{Rng, mix};

/// The largest exponent accepted: above it one key takes nearly all requests.
const ZIPF_EXPONENT_MAX: f64 = 10.0;
/// The exponent of laws that are named without one, as in YCSB.
const ZIPF_EXPONENT: f64 = 0.99;
/// The distance between keys that follow each other at one rank; prime, so that every key has its
/// turn.
const DRIFT_STRIDE: u64 = 7_368_787;

/// The shape of the choice between keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// Every key alike.
    Uniform,
    /// Weight 1 / rank^exponent.
    Zipf(f64),
    /// A share of the keys takes a share of the requests, both in (0, 1).
    HotSet {
        /// Share of the keys that is hot.
        keys: f64,
        /// Share of the requests that goes to them.
        requests: f64,
    },
    /// In order, each once before any twice.
    Sequential,
    /// A Zipf law disturbed by a walk over all keys.
    Scan {
        /// Share of the requests that walks, in (0, 1).
        share: f64,
        /// Exponent of the law that the others follow.
        exponent: f64,
    },
    /// A Zipf law whose ranks pass from key to key.
    Drift {
        /// Requests, all lanes together, in which each rank passes on once.
        requests: u64,
        /// Exponent of the law.
        exponent: f64,
    },
    /// A Zipf law over the age of keys, by this exponent.
    Latest(f64),
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split(':').collect::<Vec<_>>()[..] {
            ["uniform"] => Ok(Self::Uniform),
            ["sequential"] => Ok(Self::Sequential),
            ["zipf", exponent] => exponent_of(exponent).map(Self::Zipf),
            ["scan", share] => Self::scan(share, ZIPF_EXPONENT),
            ["scan", share, exponent] => Self::scan(share, exponent_of(exponent)?),
            ["drift", requests] => Self::drift(requests, ZIPF_EXPONENT),
            ["drift", requests, exponent] => Self::drift(requests, exponent_of(exponent)?),
            ["latest"] => Ok(Self::Latest(ZIPF_EXPONENT)),
            ["latest", exponent] => exponent_of(exponent).map(Self::Latest),
            ["hotset"] => Ok(Self::HotSet { keys: 0.1, requests: 0.9 }),
            ["hotset", keys, requests] => {
                Ok(Self::HotSet { keys: share(keys)?, requests: share(requests)? })
            }
            _ => Err(format!(
                "{text:?} is none of uniform, zipf:S, hotset:K%:R%, sequential, scan:P%, drift:N, \
                 latest; for example zipf:0.99 or hotset:10%:90%"
            )),
        }
    }
}

impl Popularity {
    fn scan(text: &str, exponent: f64) -> Result<Self, String> {
        Ok(Self::Scan { share: share(text)?, exponent })
    }

    fn drift(text: &str, exponent: f64) -> Result<Self, String> {
        match text.parse() {
            Ok(requests) if requests > 0 => Ok(Self::Drift { requests, exponent }),
            _ => Err(format!("{text:?} requests are no period; write drift:N with N above 0")),
        }
    }
}

fn exponent_of(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= ZIPF_EXPONENT_MAX => Ok(s),
        _ => Err(format!("zipf exponent {text:?} must be above 0 and at most {ZIPF_EXPONENT_MAX}")),
    }
}

/// The key that `drawn` has passed to, `at` requests after the start, when each rank passes on
/// once in `period` requests, each at a time of its own.
#[inline]
pub(crate) fn passed_key(drawn: u64, at: u64, period: u64, keys: u64) -> u64 {
    passed_on(drawn, (at + mix(drawn) % period) / period, keys)
}

/// The key that has taken the place of `drawn` after `passes` passes.
#[inline]
pub(crate) fn passed_on(drawn: u64, passes: u64, keys: u64) -> u64 {
    (drawn + passes * DRIFT_STRIDE) % keys
}

/// A percentage strictly between 0 and 100, as a fraction.
fn share(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        _ => Err(format!("{text:?} is no share above 0% and below 100%")),
    }
}

/// A bijection of the numbers below `keys` that puts neighbours far apart.
#[derive(Clone, Copy, Debug)]
struct Scatter {
    stride: u64,
    keys: u64,
}

impl Scatter {
    fn new(keys: u64) -> Self {
        // A stride without common factor visits every key once.
        let mut stride = ((keys as f64 * 0.618_033_988_749_895) as u64).max(1);
        while gcd(stride, keys) != 1 {
            stride += 1;
        }
        Self { stride, keys }
    }

    /// The bijection that leaves every number where it is.
    fn none(keys: u64) -> Self {
        Self { stride: 1, keys }
    }

    #[inline]
    fn key(self, rank: u64) -> u64 {
        rank * self.stride % self.keys
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A slot of the alias table: itself below the threshold, else the other key.
#[derive(Clone, Copy, Debug)]
struct Slot {
    threshold: u32,
    other: u32,
}

/// What is shared by all lanes that draw from one popularity.
#[derive(Clone, Debug)]
enum Table {
    Uniform,
    Alias(Arc<[Slot]>),
    HotSet { scatter: Scatter, hot: u64, hot_share: u32 },
    Sequential,
    Scan { slots: Arc<[Slot]>, share: u32 },
    Drift { slots: Arc<[Slot]>, period: u64 },
    Latest(Arc<[Slot]>),
}

/// Draws from an alias table of `keys` slots.
#[inline]
fn draw_slot(slots: &[Slot], rng: &mut Rng) -> u64 {
    let (slot, fraction) = rng.below_with_fraction(slots.len() as u64);
    let Slot { threshold, other } = slots[slot as usize];
    if fraction < threshold { slot } else { u64::from(other) }
}

/// Draws key numbers below the number of keys.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    keys: u64,
    table: Table,
    /// The next key of a walking lane (drift: the number of its requests so far), and the distance
    /// between its keys.
    at: u64,
    step: u64,
}

impl Sampler {
    pub(super) fn new(popularity: Popularity, keys: u64) -> Self {
        let zipf = |exponent| alias_table(Scatter::new(keys), exponent).into();
        let bits = |share: f64| (share * f64::from(u32::MAX)) as u32;
        let table = match popularity {
            Popularity::Uniform => Table::Uniform,
            Popularity::Sequential => Table::Sequential,
            Popularity::Zipf(exponent) => Table::Alias(zipf(exponent)),
            Popularity::HotSet { keys: share, requests } => Table::HotSet {
                scatter: Scatter::new(keys),
                hot: ((keys as f64 * share).round() as u64).clamp(1, keys),
                hot_share: bits(requests),
            },
            Popularity::Scan { share, exponent } => {
                Table::Scan { slots: zipf(exponent), share: bits(share) }
            }
            Popularity::Drift { requests, exponent } => {
                Table::Drift { slots: zipf(exponent), period: requests }
            }
            Popularity::Latest(exponent) => {
                Table::Latest(alias_table(Scatter::none(keys), exponent).into())
            }
        };
        Self { keys, table, at: 0, step: 1 }
    }

    /// The same popularity for `lane` of `lanes`: walking lanes divide the keys among them.
    pub(super) fn lane(&self, lane: u64, lanes: u64) -> Self {
        let mut own = Self { at: lane % self.keys, step: lanes, ..self.clone() };
        if let Table::Drift { period, .. } = &mut own.table {
            *period = (*period / lanes).max(1);
            own.at = 0;
        }
        own
    }

    /// The next key of the lane in order.
    #[inline]
    fn walk(&mut self) -> u64 {
        let key = self.at;
        self.at = (self.at + self.step) % self.keys;
        key
    }

    /// The key of a request that stores.
    #[inline]
    pub(super) fn draw_stored(&mut self, rng: &mut Rng) -> u64 {
        match self.table {
            Table::Latest(_) => {
                self.walk();
                self.at
            }
            _ => self.draw(rng),
        }
    }

    #[inline]
    pub(super) fn draw(&mut self, rng: &mut Rng) -> u64 {
        match &self.table {
            Table::Uniform => rng.below(self.keys),
            Table::Alias(slots) => draw_slot(slots, rng),
            Table::HotSet { scatter, hot, hot_share } => {
                let is_hot = (rng.next_u64() >> 32) as u32 <= *hot_share;
                let cold = self.keys - hot;
                let rank =
                    if is_hot || cold == 0 { rng.below(*hot) } else { hot + rng.below(cold) };
                scatter.key(rank)
            }
            Table::Sequential => self.walk(),
            Table::Scan { slots, share } => {
                let walks = (rng.next_u64() >> 32) as u32 <= *share;
                if walks { self.walk() } else { draw_slot(slots, rng) }
            }
            Table::Drift { slots, period } => {
                let key = passed_key(draw_slot(slots, rng), self.at, *period, self.keys);
                self.at += 1;
                key
            }
            Table::Latest(slots) => (self.at + self.keys - draw_slot(slots, rng)) % self.keys,
        }
    }
}

/// Vose's construction over the scattered ranks: every slot holds at most two keys, and together
/// the slots hold each key in proportion to its weight.
fn alias_table(scatter: Scatter, exponent: f64) -> Vec<Slot> {
    let keys = scatter.keys;
    let mut weight = vec![0.0; keys as usize];
    let mut sum = 0.0;
    for rank in 0..keys {
        let w = ((rank + 1) as f64).powf(-exponent);
        weight[scatter.key(rank) as usize] = w;
        sum += w;
    }
    let scale = keys as f64 / sum;
    let (mut poor, mut rich) = (Vec::new(), Vec::new());
    for (key, w) in weight.iter_mut().enumerate() {
        *w *= scale;
        if *w < 1.0 { poor.push(key as u32) } else { rich.push(key as u32) }
    }
    let mut slots: Vec<Slot> =
        (0..keys as u32).map(|key| Slot { threshold: u32::MAX, other: key }).collect();
    while let (Some(small), Some(large)) = (poor.pop(), rich.last().copied()) {
        let kept = weight[small as usize];
        slots[small as usize] =
            Slot { threshold: (kept * f64::from(u32::MAX)) as u32, other: large };
        weight[large as usize] -= 1.0 - kept;
        if weight[large as usize] < 1.0 {
            rich.pop();
            poor.push(large);
        }
    }
    slots
}

#[cfg(test)]
#[path = "popularity_test.rs"]
mod tests;
