//! How often each thing has happened, by its name.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// It has happened once more.
    pub fn add(&mut self, name: &'static str) {
        self.add_times(name, 1);
    }

    /// It has happened `times` more.
    pub fn add_times(&mut self, name: &'static str, times: u64) {
        *self.0.entry(name).or_default() += times;
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, times)| self.add_times(name, *times));
    }

    /// How often it has happened.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, times)| writeln!(f, "{times:>9}  {name}"))
    }
}
