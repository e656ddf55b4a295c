//! Several runs that answer one question, and the answer.
//!
//! The JSON is as stable as that of a single run: `schema` names its version, `runs` holds whole
//! reports with the labels that distinguish them, and `conclusion` differs between commands. Bound:
//! [`WARNINGS_MAX`] warnings from the runs.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::columns::csv;
use super::labelled::Labelled;
use super::pictures::line;
use report::figure::Figure;
use report::html::Page;

/// Name and version of the JSON of several runs.
pub const STUDY_SCHEMA: &str = "volvox-load-study/1";

/// The most warnings that a study takes from its runs.
const WARNINGS_MAX: usize = 24;

/// The answer of a command that makes several runs.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// The command.
    pub command: &'static str,
    /// The question.
    pub title: String,
    /// The answer, for tools.
    pub conclusion: Value,
    /// The answer, for the screen.
    pub text: String,
    /// The headline of the page.
    pub facts: Vec<(String, String)>,
    /// Why the answer may be wrong; warnings of single runs included.
    pub warnings: Vec<String>,
    /// The runs.
    pub runs: Vec<Labelled>,
    /// Settings in which the runs differ, by the names that reports give them.
    pub varied: &'static [&'static str],
    /// Headings of the page with their figures.
    pub sections: Vec<(String, Vec<Figure>)>,
    /// The CSV file, where its lines are not the runs.
    pub csv: Option<String>,
    /// Whether the exit code is 0: the study was carried to its end, and nothing checked was wrong.
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

    /// The settings that all runs share, in a line.
    fn setup(&self) -> String {
        let Some(run) = self.runs.first() else { return String::new() };
        let parts = run.report.setup.parts().into_iter();
        line(&parts.filter(|(name, _)| !self.varied.contains(name)).collect::<Vec<_>>())
    }

    /// Adds a fact to the headline.
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<String>) -> Self {
        self.facts.push((name.to_string(), value.into()));
        self
    }

    /// Takes over from the runs whether they were clean, and their warnings. Warnings that differ
    /// in numbers only become one. Those that contain `expected` are left out.
    #[must_use]
    pub fn gather(mut self, expected: Option<&str>) -> Self {
        let mut doubts: Vec<(String, String, usize)> = Vec::new();
        for run in &self.runs {
            self.clean &= run.report.is_clean();
            let said = run.report.warnings.iter().chain(&run.report.complaints);
            for text in said.filter(|text| !expected.is_some_and(|part| text.contains(part))) {
                let kind = text.replace(|c: char| c.is_ascii_digit(), "");
                let space = doubts.len() < WARNINGS_MAX;
                match doubts.iter_mut().find(|doubt| doubt.0 == kind) {
                    Some(known) => known.2 += 1,
                    None if space => {
                        let name = run.name();
                        let colon = if name.is_empty() { "" } else { ": " };
                        doubts.push((kind, format!("{name}{colon}{text}"), 0));
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
        self
    }
}

impl fmt::Display for Study {
    /// The answer with its warnings, as the screen shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text.trim_end())?;
        self.warnings.iter().try_for_each(|text| writeln!(f, "warning: {text}"))
    }
}
