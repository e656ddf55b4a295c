//! What a run has done: a hash of all steps, and the steps as text where somebody reads them.

use measure::rng::mix;
use std::fmt::Write as _;

/// The steps of a run.
pub(crate) struct Trace {
    hash: u64,
    prints: bool,
    text: String,
}

impl Trace {
    pub(crate) fn new(prints: bool) -> Self {
        Self { hash: 0, prints, text: String::new() }
    }

    /// Whether steps are kept as text.
    pub(crate) fn prints(&self) -> bool {
        self.prints
    }

    /// Notes a step at `now_ns`: what it is, and its numbers.
    pub(crate) fn note(&mut self, now_ns: u64, what: &str, numbers: &[u64]) {
        let words = what.as_bytes().iter().map(|byte| u64::from(*byte));
        for number in [now_ns].into_iter().chain(words).chain(numbers.iter().copied()) {
            self.hash = mix(self.hash ^ number).wrapping_add(1);
        }
        if self.prints {
            self.write(now_ns, &format!("{what} {numbers:?}"));
        }
    }

    /// Adds a line of text where somebody reads it. It is no part of the hash.
    pub(crate) fn say(&mut self, now_ns: u64, line: impl FnOnce() -> String) {
        if self.prints {
            self.write(now_ns, &line());
        }
    }

    fn write(&mut self, now_ns: u64, line: &str) {
        let (ms, us) = (now_ns / 1_000_000, now_ns / 1000 % 1000);
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{ms:>7}.{us:03} {line}");
    }

    /// The hash of all steps.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The steps as text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}
