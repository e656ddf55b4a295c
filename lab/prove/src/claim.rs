//! A claim: what is promised, the bar it must reach, and how it is measured.
//!
//! A claim has three ends, never two: it passes, it fails, or it was not measured and says why.
//! Whatever could not be measured counts against the proof; an error while measuring is "not
//! measured", never "pass".

use serde::{Deserialize, Serialize};

use crate::bench::Lab;

/// How a claim is measured; an error is "not measured".
pub type Measure = fn(&Lab) -> anyhow::Result<Measured>;

/// Whom the measurement compares us with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Nobody: the bar is absolute.
    Nobody,
    /// The newest memcached; another one standing in proves nothing.
    NewestMemcached,
}

/// One promise.
#[derive(Clone, Copy)]
pub struct Claim {
    /// Short and stable: `cpu.get.1`; what `--only` matches the beginning of.
    pub id: &'static str,
    /// The promise in words.
    pub claim: &'static str,
    /// What must be reached.
    pub bar: &'static str,
    /// Whom we are compared with.
    pub peer: Peer,
    /// How.
    pub measure: Measure,
}

/// How a claim ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The bar was reached.
    Pass,
    /// It was not.
    Fail,
    /// Nothing is known, for the reason given.
    NotMeasured(String),
}

impl Verdict {
    /// The verdict in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::NotMeasured(_) => "not measured",
        }
    }
}

/// What a measurement found.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measured {
    /// The finding in one short line.
    pub text: String,
    /// The number that was held against the bar.
    pub number: Option<f64>,
    /// How it ended.
    pub verdict: Verdict,
    /// Lines that a reader who doubts wants to see.
    pub details: Vec<String>,
}

impl Measured {
    /// A finding with its verdict.
    pub fn new(text: impl Into<String>, number: f64, holds: bool) -> Self {
        let verdict = if holds { Verdict::Pass } else { Verdict::Fail };
        Self { text: text.into(), number: Some(number), verdict, details: Vec::new() }
    }

    /// Nothing was found out.
    pub fn not(reason: impl Into<String>) -> Self {
        let verdict = Verdict::NotMeasured(reason.into());
        Self { text: "-".to_owned(), number: None, verdict, details: Vec::new() }
    }

    /// Adds lines for the reader who doubts.
    pub fn with_details(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }
}

impl Claim {
    /// A claim whose bar is absolute.
    pub const fn alone(
        id: &'static str,
        claim: &'static str,
        bar: &'static str,
        measure: Measure,
    ) -> Self {
        Self { id, claim, bar, peer: Peer::Nobody, measure }
    }

    /// Measures the claim; never fails, an error is "not measured".
    pub fn measured(&self, lab: &Lab) -> Measured {
        let measured = (self.measure)(lab);
        let measured = measured.unwrap_or_else(|error| Measured::not(format!("{error:#}")));
        match (self.peer, lab.stand_in()) {
            (Peer::NewestMemcached, Some(stand_in)) => measured.against(&stand_in),
            _ => measured,
        }
    }
}

impl Measured {
    /// The same finding, held against a peer that is not the one the bar names.
    fn against(self, stand_in: &str) -> Self {
        let verdict = match self.verdict {
            Verdict::NotMeasured(reason) => Verdict::NotMeasured(reason),
            Verdict::Pass | Verdict::Fail => Verdict::NotMeasured(format!("against {stand_in}")),
        };
        Self { verdict, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_proves_nothing_but_keeps_the_number() {
        let measured = Measured::new("2.0x", 2.0, true).against("memcached 1.6.18");
        assert_eq!(measured.number, Some(2.0));
        assert_eq!(measured.verdict, Verdict::NotMeasured("against memcached 1.6.18".to_owned()));
    }

    #[test]
    fn a_reason_is_not_hidden_by_the_stand_in() {
        let measured = Measured::not("no valgrind").against("memcached 1.6.18");
        assert_eq!(measured.verdict, Verdict::NotMeasured("no valgrind".to_owned()));
    }
}
