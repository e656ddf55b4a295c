//! How many requests per second are due, and how that changes during a run.
//!
//! ```text
//! 50k                     always 50,000 per second
//! 10k..100k/60s           from 10,000 to 100,000 in a straight line within 60 s, then level
//! steps:10k,20k,50k/10s   10 s at each rate; the last one stays
//! ```
//!
//! A curve is a sequence of legs; within a leg the rate is a straight line. The area under the
//! curve
//! is the number of requests; due times divide that area. Time begins with the measured window:
//! the first rate holds during the warm-up. Invariant: a leg begins where the one before ends, and
//! the last one has no end. Times are nanoseconds, rates requests per second.

use std::fmt;
use std::str::FromStr;

use measure::units::{count, duration};

/// Fastest rate accepted, in requests per second.
pub const RATE_MAX: f64 = 1e9;

/// The most steps of a curve.
const STEPS_MAX: usize = 1_000;

/// A stretch of time in which the rate is a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Leg {
    /// Where it ends; infinite for the last.
    pub end_ns: f64,
    /// The rate at its beginning.
    begin: f64,
    /// Where it begins.
    pub begin_ns: f64,
    /// Change of the rate per nanosecond.
    slope: f64,
}

impl Leg {
    fn rate_at(&self, at_ns: f64) -> f64 {
        self.begin + (at_ns - self.begin_ns) * self.slope
    }

    /// The time from `at_ns` until `requests` are due, as if the leg had no end.
    #[inline]
    pub fn time_ns(&self, at_ns: f64, requests: f64) -> f64 {
        if self.slope == 0.0 {
            return requests * 1e9 / self.begin;
        }
        // The positive root of slope / 2 * t^2 + rate * t = requests, in the form that does not
        // cancel; a falling line that never reaches the area has none.
        let rate = self.rate_at(at_ns);
        let square = rate * rate + 2.0 * self.slope * requests * 1e9;
        if square < 0.0 { f64::INFINITY } else { 2.0 * requests * 1e9 / (rate + square.sqrt()) }
    }

    /// How many requests are due from `at_ns` to the end of the leg.
    #[inline]
    pub fn requests_from(&self, at_ns: f64) -> f64 {
        self.requests(at_ns, self.end_ns)
    }

    /// How many requests are due between two times inside the leg.
    pub fn requests(&self, from_ns: f64, to_ns: f64) -> f64 {
        (to_ns - from_ns) * (self.rate_at(from_ns) + self.rate_at(to_ns)) / 2e9
    }
}

/// The rate over time.
///
/// ```
/// use load::rate::RateCurve;
///
/// let curve: RateCurve = "10k..20k/10s".parse()?;
/// assert_eq!((curve.at(5e9), curve.mean(20e9)), (15_000.0, 17_500.0));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RateCurve {
    text: String,
    legs: Vec<Leg>,
}

impl RateCurve {
    /// Always `rate` requests per second.
    #[must_use]
    pub fn constant(rate: f64) -> Self {
        Self::of(format!("{rate}"), &[(rate, rate, f64::INFINITY)])
    }

    /// A curve of (first rate, last rate, nanoseconds) one after another.
    fn of(text: String, parts: &[(f64, f64, f64)]) -> Self {
        let mut legs = Vec::new();
        let mut begin_ns = 0.0;
        for (begin, end, time_ns) in parts.iter().copied() {
            let slope = if begin == end { 0.0 } else { (end - begin) / time_ns };
            let end_ns = begin_ns + time_ns;
            legs.push(Leg { end_ns, begin, begin_ns, slope });
            begin_ns = end_ns;
        }
        Self { text, legs }
    }

    /// The legs, with the first rate holding for `warmup_ns` before them.
    pub(crate) fn legs_after(&self, warmup_ns: f64) -> Vec<Leg> {
        let begin = self.legs[0].begin;
        let warmup = Leg { end_ns: warmup_ns, begin, begin_ns: 0.0, slope: 0.0 };
        let later = self.legs.iter().map(|leg| Leg {
            end_ns: leg.end_ns + warmup_ns,
            begin_ns: leg.begin_ns + warmup_ns,
            ..*leg
        });
        std::iter::once(warmup).filter(|leg| leg.end_ns > 0.0).chain(later).collect()
    }

    /// Checks the limit of every leg.
    ///
    /// # Errors
    /// Names the first rate that is out of its range.
    pub fn check(&self) -> Result<(), String> {
        let possible = |rate: f64| rate > 0.0 && rate <= RATE_MAX;
        match self.legs.iter().find(|leg| !possible(leg.begin)) {
            None => Ok(()),
            Some(leg) => Err(format!(
                "{} requests per second: must be above 0 and at most {RATE_MAX}",
                leg.begin
            )),
        }
    }

    /// Requests per second, `at_ns` after the beginning of the window.
    #[must_use]
    pub fn at(&self, at_ns: f64) -> f64 {
        let leg = self.legs.iter().find(|leg| at_ns < leg.end_ns);
        leg.or(self.legs.last()).map_or(0.0, |leg| leg.rate_at(at_ns))
    }

    /// The mean rate of a window.
    #[must_use]
    pub fn mean(&self, window_ns: f64) -> f64 {
        if window_ns <= 0.0 {
            return self.at(0.0);
        }
        let mut requests = 0.0;
        for leg in &self.legs {
            let end_ns = leg.end_ns.min(window_ns);
            if end_ns > leg.begin_ns {
                requests += leg.requests(leg.begin_ns, end_ns);
            }
        }
        requests * 1e9 / window_ns
    }
}

impl fmt::Display for RateCurve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A rate within the limit.
fn rate(text: &str) -> Result<f64, String> {
    let rate = count(text)?;
    RateCurve::constant(rate).check().map(|()| rate)
}

/// A time above 0, in nanoseconds.
fn time_ns(text: &str) -> Result<f64, String> {
    let time = duration(text)?;
    if time.is_zero() {
        return Err(format!(
            "{text:?}: a change of rate takes time; choose a time above 0, such as 10s"
        ));
    }
    Ok(time.as_nanos() as f64)
}

impl FromStr for RateCurve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(steps) = text.strip_prefix("steps:") {
            let (rates, time) = steps
                .split_once('/')
                .ok_or_else(|| format!("{text:?}: steps are written steps:10k,20k,50k/10s"))?;
            let each_ns = time_ns(time)?;
            let rates = rates.split(',').map(rate).collect::<Result<Vec<f64>, _>>()?;
            if rates.len() > STEPS_MAX {
                return Err(format!("{} steps: at most {STEPS_MAX}", rates.len()));
            }
            let last = rates.len() - 1;
            let time_ns = |nth| if nth == last { f64::INFINITY } else { each_ns };
            let parts: Vec<_> =
                rates.iter().enumerate().map(|(nth, rate)| (*rate, *rate, time_ns(nth))).collect();
            return Ok(Self::of(text.to_string(), &parts));
        }
        if let Some((first, rest)) = text.split_once("..") {
            let (last, time) = rest
                .split_once('/')
                .ok_or_else(|| format!("{text:?}: a ramp is written 10k..100k/60s"))?;
            let (first, last) = (rate(first)?, rate(last)?);
            let parts = [(first, last, time_ns(time)?), (last, last, f64::INFINITY)];
            return Ok(Self::of(text.to_string(), &parts));
        }
        rate(text).map(|rate| Self { text: text.to_string(), ..Self::constant(rate) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_parse_and_hold_their_rates() {
        const S: f64 = 1e9;
        for (text, points, mean_of_20_s) in [
            ("50k", &[(0.0, 50_000.0), (99.0, 50_000.0)][..], 50_000.0),
            ("10k..20k/10s", &[(0.0, 10_000.0), (5.0, 15_000.0), (30.0, 20_000.0)], 17_500.0),
            ("20k..10k/20s", &[(10.0, 15_000.0), (20.0, 10_000.0)], 15_000.0),
            ("steps:1k,2k,4k/5s", &[(4.9, 1_000.0), (5.0, 2_000.0), (60.0, 4_000.0)], 2_750.0),
        ] {
            let curve: RateCurve = text.parse().unwrap();
            for (at_s, rate) in points {
                assert!((curve.at(at_s * S) - rate).abs() < 1e-6, "{text} at {at_s} s");
            }
            assert!((curve.mean(20.0 * S) - mean_of_20_s).abs() < 1e-6, "{text}");
            assert_eq!(curve.to_string(), text);
        }
    }

    #[test]
    fn time_and_area_are_inverse() {
        for text in ["1k..9k/8s", "9k..1k/8s", "5k"] {
            let curve: RateCurve = text.parse().unwrap();
            let leg = curve.legs[0];
            for (at_ns, requests) in [(0.0, 1.0), (1e9, 500.0), (2e9, 3_000.0)] {
                let time_ns = leg.time_ns(at_ns, requests);
                let area = leg.requests(at_ns, at_ns + time_ns);
                assert!((area - requests).abs() < 1e-6 * requests, "{text}: {area} {requests}");
            }
        }
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e9] {
            assert!(RateCurve::constant(rate).check().is_err(), "{rate}");
        }
        let falling: RateCurve = "9k..1k/8s".parse().unwrap();
        assert_eq!(falling.legs[0].time_ns(0.0, 1e9), f64::INFINITY);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("", "no number"),
            ("0", "above 0"),
            ("2000M", "at most"),
            ("1k..2k", "10k..100k/60s"),
            ("1k..2k/0s", "takes time"),
            ("steps:1k,2k", "steps:10k"),
            ("steps:/5s", "no number"),
            ("1k..2k/5d", "no unit"),
        ] {
            let error = text.parse::<RateCurve>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
