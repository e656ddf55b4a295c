//! A claim: what is promised, the bar it must reach, and how it is measured.
//!
//! A claim ends in one of three ways: it passes, it fails, or it was not measured and says why.
//! What could not be measured counts against the proof. An error while measuring is "not measured",
//! never "pass".
//!
//! A claim that the README promises has the words of the promise too. Neighbours with the same
//! words are one row there. A claim that may be missed names the decision that explains it.

use serde::{Deserialize, Serialize};

use crate::lab::Lab;

/// How a claim is measured; an error is "not measured".
pub type Measure = fn(&Lab) -> anyhow::Result<Measured>;

/// What a claim is, before it is measured.
#[derive(Clone, Copy)]
pub struct Claim {
    /// Short and stable: `cpu.get.1`; what `--only` matches the beginning of.
    pub id: &'static str,
    /// What is measured.
    pub claim: &'static str,
    /// What must be reached.
    pub bar: &'static str,
    /// The promise in a user's words, as the README has it; empty where it has none.
    pub promise: &'static str,
    /// The page on why it may be missed, in `docs/decisions`; empty where there is none.
    pub decision: &'static str,
    is_beside_memcached: bool,
    measure: Measure,
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

    /// A finding of yes or no.
    pub fn yes(holds: bool, yes: impl Into<String>, no: impl Into<String>) -> Self {
        let text = if holds { yes.into() } else { no.into() };
        Self::new(text, f64::from(u8::from(holds)), holds)
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

    /// The same finding beside a memcached that is not the one the bar names.
    fn against(self, stand_in: &str) -> Self {
        let verdict = match self.verdict {
            Verdict::NotMeasured(reason) => Verdict::NotMeasured(reason),
            Verdict::Pass | Verdict::Fail => Verdict::NotMeasured(format!("against {stand_in}")),
        };
        Self { verdict, ..self }
    }
}

impl Claim {
    /// A claim whose bar is absolute, and which the README does not promise; `bar` and `by` follow.
    pub const fn new(id: &'static str, claim: &'static str) -> Self {
        let (bar, promise, decision, is_beside_memcached) = ("", "", "", false);
        let measure = |_: &Lab| Ok(Measured::not("the claim says not how it is measured"));
        Self { id, claim, bar, promise, decision, is_beside_memcached, measure }
    }

    /// A claim that tests make: all of them must hold.
    pub const fn held(id: &'static str, claim: &'static str, measure: Measure) -> Self {
        Self::new(id, claim).bar("all hold").by(measure)
    }

    /// With what must be reached.
    pub const fn bar(self, bar: &'static str) -> Self {
        Self { bar, ..self }
    }

    /// Measured so.
    pub const fn by(self, measure: Measure) -> Self {
        Self { measure, ..self }
    }

    /// Measured beside the newest memcached; another version in its place proves nothing.
    pub const fn beside_memcached(self) -> Self {
        Self { is_beside_memcached: true, ..self }
    }

    /// Promised by the README in these words.
    pub const fn promised(self, promise: &'static str) -> Self {
        Self { promise, ..self }
    }

    /// Explained by a page of `docs/decisions` where it is missed.
    pub const fn explained(self, decision: &'static str) -> Self {
        Self { decision, ..self }
    }

    /// Measures the claim; never fails, an error is "not measured".
    pub fn measured(&self, lab: &Lab) -> Measured {
        let measured = (self.measure)(lab).and_then(|measured| {
            let stand_in = if self.is_beside_memcached { lab.stand_in()? } else { None };
            Ok(stand_in.map_or(measured.clone(), |other| measured.against(&other)))
        });
        measured.unwrap_or_else(|error| Measured::not(format!("{error:#}")))
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
