//! One run among the several of a study.

use serde::Serialize;

use super::report::Report;

/// A run with the labels that distinguish it.
#[derive(Clone, Debug, Serialize)]
pub struct Labelled {
    /// Names and values; the same names for all runs of a study.
    #[serde(serialize_with = "as_map")]
    pub labels: Vec<(&'static str, String)>,
    /// Its report.
    pub report: Report,
}

fn as_map<S: serde::Serializer>(
    labels: &[(&'static str, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels.iter().map(|(name, value)| (name, value)))
}

impl Labelled {
    /// The values of the labels.
    #[must_use]
    pub fn name(&self) -> String {
        let values = self.labels.iter().map(|(_, value)| value.as_str());
        // A dash stands in tables where a run has no value.
        values.filter(|value| *value != "-").collect::<Vec<&str>>().join(" ")
    }

    /// The value of the label numbered `nth`.
    #[must_use]
    pub fn label(&self, nth: usize) -> &str {
        self.labels.get(nth).map_or("", |(_, value)| value)
    }
}
