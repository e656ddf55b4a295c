//! Several runs that answer one question, and the answer.
//!
//! The JSON is stable as that of a single run is: `schema` names its version, `runs` holds whole
//! reports with the labels that tell them apart, and `conclusion` is the command's own.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::Report;
use super::csv::csv;
use report::figure::Figure;
use report::html::Page;

/// Name and version of the JSON of several runs.
pub const STUDY_SCHEMA: &str = "volvox-load-study/1";

/// A run among others.
#[derive(Clone, Debug, Serialize)]
pub struct Labelled {
    /// What tells it apart: names and values, the same names for all runs of a study.
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
    /// The labels in a word or two.
    #[must_use]
    pub fn name(&self) -> String {
        let values = self.labels.iter().map(|(_, value)| value.as_str());
        // What a run has no value of is a dash in tables, and no part of its name.
        values.filter(|value| *value != "-").collect::<Vec<&str>>().join(" ")
    }
}

/// What a command found that makes several runs.
#[derive(Clone, Debug)]
pub struct Study {
    /// The command.
    pub command: &'static str,
    /// What was asked.
    pub title: String,
    /// The answer, for tools.
    pub conclusion: Value,
    /// The answer, for the screen.
    pub text: String,
    /// The headline of the page.
    pub facts: Vec<(String, String)>,
    /// Doubts about the answer, those of single runs included.
    pub warnings: Vec<String>,
    /// The runs.
    pub runs: Vec<Labelled>,
    /// Settings in which they differ, by the names that reports give them.
    pub varied: &'static [&'static str],
    /// Headings of the page with their figures.
    pub sections: Vec<(String, Vec<Figure>)>,
    /// The lines of a CSV file, where they are not those of the runs.
    pub csv: Option<String>,
    /// Whether nothing that was checked was wrong.
    pub clean: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    command: &'static str,
    clean: bool,
    conclusion: &'a Value,
    warnings: &'a [String],
    runs: &'a [Labelled],
}

impl Study {
    /// The study as JSON, on several lines.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&Document {
            schema: STUDY_SCHEMA,
            command: self.command,
            clean: self.clean,
            conclusion: &self.conclusion,
            warnings: &self.warnings,
            runs: &self.runs,
        })
        .expect("numbers and strings always serialise")
    }

    /// The study as CSV.
    #[must_use]
    pub fn to_csv(&self) -> String {
        self.csv.clone().unwrap_or_else(|| csv(&self.runs))
    }

    /// The study as a page.
    #[must_use]
    pub fn page(&self) -> Page {
        Page {
            title: self.title.clone(),
            setup: self.setup(),
            facts: self.facts.clone(),
            warnings: self.warnings.clone(),
            sections: self.sections.clone(),
        }
    }

    /// What all runs have in common, in a line.
    fn setup(&self) -> String {
        let Some(run) = self.runs.first() else { return String::new() };
        let parts = run.report.setup.parts();
        let common = parts.into_iter().filter(|(name, _)| !self.varied.contains(name));
        common.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// Takes over whether all runs were clean, and their doubts, those that differ in numbers only
    /// as one; doubts that hold `expected` are no surprise to the study.
    pub fn gather(&mut self, expected: Option<&str>) {
        let mut doubts: Vec<(String, String, usize)> = Vec::new();
        for run in &self.runs {
            self.clean &= run.report.is_clean();
            let said = run.report.warnings.iter().chain(&run.report.complaints);
            for text in said.filter(|text| !expected.is_some_and(|part| text.contains(part))) {
                let kind = text.replace(|c: char| c.is_ascii_digit(), "");
                let room = doubts.len() < WARNINGS_MAX;
                match doubts.iter_mut().find(|doubt| doubt.0 == kind) {
                    Some(known) => known.2 += 1,
                    None if room => {
                        let first = [run.name(), text.clone()];
                        let first = first.into_iter().filter(|part| !part.is_empty());
                        doubts.push((kind, first.collect::<Vec<_>>().join(": "), 0));
                    }
                    None => {}
                }
            }
        }
        self.warnings.extend(doubts.into_iter().map(|(_, first, more)| match more {
            0 => first,
            1 => format!("{first} (and another run likewise)"),
            _ => format!("{first} (and {more} other runs likewise)"),
        }));
    }
}

impl fmt::Display for Study {
    /// The answer with its doubts, as the screen shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text.trim_end())?;
        self.warnings.iter().try_for_each(|text| writeln!(f, "warning: {text}"))
    }
}

/// The most warnings of a study.
const WARNINGS_MAX: usize = 24;
