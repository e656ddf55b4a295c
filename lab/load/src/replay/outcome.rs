//! What a replay has found so far.
//!
//! A get that was answered by an error line is neither a hit nor a miss. Bound: eight complaints.

use serde::Serialize;

/// The most complaints kept; they are examples, not a list.
const COMPLAINTS_MAX: usize = 8;

/// What a replay found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Gets that were counted.
    pub gets: u64,
    /// Of these, how many hit.
    pub hits: u64,
    /// Gets that were answered by an error line: neither hits nor misses.
    pub failed_gets: u64,
    /// Sets that were not stored, refills included.
    pub refused: u64,
    /// Values that were not those of their key.
    pub wrong_values: u64,
    /// Values of another length than their request's, as an earlier request may have stored.
    pub other_lengths: u64,
    /// The first few different faults of the server, word for word.
    pub complaints: Vec<String>,
    /// Bytes of items that the server states it holds, overhead included: the mean of the samples.
    pub held_bytes: u64,
    /// Items held, likewise.
    pub held_items: u64,
    /// The most memory of the server that was ever resident; 0 when its process is not known.
    pub rss_bytes_max: u64,
    /// The time it took.
    pub elapsed_s: f64,
}

impl Outcome {
    /// Hits by gets.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }

    /// Whether the server did everything as requested, as far as was checked.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failed_gets + self.refused + self.wrong_values == 0
    }

    /// Keeps a fault of the server word for word unless it is known or there are enough.
    pub(super) fn complain(&mut self, complaint: String) {
        if self.complaints.len() < COMPLAINTS_MAX && !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }

    /// What the server did wrong, kind by kind; empty when it is clean.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let kinds = [
            (self.failed_gets, "gets were answered by an error and are neither hits nor misses"),
            (self.refused, "sets were refused"),
            (self.wrong_values, "values were not those of their key"),
        ];
        let seen = kinds.iter().filter(|(count, _)| *count > 0);
        let mut faults: Vec<String> = seen.map(|(count, what)| format!("{count} {what}")).collect();
        if !self.is_clean() {
            faults.push(format!("the server replied: {}", self.complaints.join("; ")));
        }
        faults
    }
}
