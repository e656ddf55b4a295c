//! How thorough a report is: the sizes, mixes and rates of its table, and the time per measurement.
//!
//! There are two forms, quick (minutes) and full (hours). Both fill a table of the same shape.
//! Sizes are bytes of a value; a mix is gets to sets.

use std::fmt;
use std::time::Duration;

/// A rate of the table, as a percentage of a lambda-max that was measured before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Percent of the contestant's own lambda-max.
    Own(u32),
    /// Percent of the slowest contestant's lambda-max: the same rate for all.
    Common(u32),
}

impl Level {
    /// The rate in requests per second; at least one.
    pub fn per_s(self, own_per_s: f64, slowest_per_s: f64) -> f64 {
        let (percent, base_per_s) = match self {
            Self::Own(percent) => (percent, own_per_s),
            Self::Common(percent) => (percent, slowest_per_s),
        };
        (base_per_s * f64::from(percent) / 100.0).round().max(1.0)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(percent) => write!(f, "{percent} % own"),
            Self::Common(percent) => write!(f, "{percent} % common"),
        }
    }
}

/// What is measured, and for how long. A record: it has no invariant.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// `quick` or `full`.
    pub name: &'static str,
    /// Bytes of a value.
    pub sizes: Vec<u32>,
    /// Gets to sets.
    pub mixes: Vec<&'static str>,
    /// Rates of the table.
    pub levels: Vec<Level>,
    /// Numbers of connections in the sweep of clients.
    pub clients: Vec<u64>,
    /// Numbers of workers in the sweep of workers.
    pub workers: Vec<u64>,
    /// Numbers of entries in the sweeps of the index.
    pub entries: Vec<u64>,
    /// Time for one cell of the table.
    pub cell: Duration,
    /// Time for one rate in the search for lambda-max.
    pub step: Duration,
    /// How often the plateau is measured.
    pub rounds: usize,
    /// Time for one run above lambda-max: long enough for counters.
    pub plateau: Duration,
    /// Time for one point of a sweep.
    pub point: Duration,
    /// Time before each measurement in which requests are sent and not measured.
    pub warmup: Duration,
    /// Whether our servers stand above a tier, with memory for a part of the keys.
    pub is_tiered: bool,
}

/// The most workers in the sweep; above four the number doubles at each step.
const WORKERS_MAX: u64 = 64;

/// Numbers of workers from 1 to `cores`.
fn workers(cores: usize) -> Vec<u64> {
    let most = (cores as u64).clamp(1, WORKERS_MAX);
    (1..=most).filter(|n| *n <= 4 || n.is_power_of_two()).collect()
}

impl Form {
    /// A few cells, each for a short time: minutes.
    pub fn quick(cores: usize) -> Self {
        Self {
            name: "quick",
            sizes: vec![1_000],
            mixes: vec!["9:1", "1:9"],
            levels: [90, 60, 30]
                .map(Level::Own)
                .into_iter()
                .chain([90, 30].map(Level::Common))
                .collect(),
            clients: vec![10, 40, 70, 100],
            workers: workers(cores),
            entries: vec![128 << 10, 256 << 10],
            cell: Duration::from_millis(1_500),
            step: Duration::from_millis(500),
            rounds: 5,
            plateau: Duration::from_secs(2),
            point: Duration::from_secs(1),
            warmup: Duration::from_millis(200),
            is_tiered: false,
        }
    }

    /// The same table above a tier, without the sweeps.
    pub fn above_a_tier(self) -> Self {
        let none = Vec::new();
        let (clients, workers) = (none.clone(), none.clone());
        Self { clients, workers, entries: none, is_tiered: true, ..self }
    }

    /// The whole table: hours.
    pub fn full(cores: usize) -> Self {
        let levels = [90, 60, 30];
        Self {
            name: "full",
            sizes: vec![100, 1_000, 10_000],
            mixes: vec!["9:1", "1:1", "1:9"],
            levels: levels.map(Level::Own).into_iter().chain(levels.map(Level::Common)).collect(),
            clients: (10..=100).step_by(10).collect(),
            entries: vec![128 << 10, 256 << 10, 512 << 10, 1 << 20],
            cell: Duration::from_secs(30),
            step: Duration::from_secs(1),
            plateau: Duration::from_secs(6),
            point: Duration::from_secs(3),
            warmup: Duration::from_millis(300),
            ..Self::quick(cores)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_shares_of_one_lambda_max_or_of_the_slowest() {
        for (level, per_s, text) in [
            (Level::Own(90), 900.0, "90 % own"),
            (Level::Common(30), 150.0, "30 % common"),
            (Level::Own(0), 1.0, "0 % own"),
        ] {
            assert_eq!(level.per_s(1_000.0, 500.0), per_s);
            assert_eq!(level.to_string(), text);
        }
    }

    #[test]
    fn workers_go_from_one_to_the_cores() {
        for (cores, expected) in
            [(0, vec![1]), (2, vec![1, 2]), (6, vec![1, 2, 3, 4]), (9, vec![1, 2, 3, 4, 8])]
        {
            assert_eq!(workers(cores), expected, "{cores}");
        }
    }

    #[test]
    fn the_full_form_has_the_whole_table() {
        let full = Form::full(2);
        assert_eq!((full.sizes.len(), full.mixes.len(), full.levels.len()), (3, 3, 6));
        assert!(full.cell >= Duration::from_secs(30));
        assert_eq!((full.clients[0], full.clients[9]), (10, 100));
        assert_eq!((full.entries[0], full.entries[3]), (131_072, 1_048_576));
    }
}
