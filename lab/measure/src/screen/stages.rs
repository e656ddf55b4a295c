//! Work in parts: every part runs, each prints its time, and a table at the end shows which failed.
//!
//! A part never stops those after it, so one run shows everything that is wrong. The whole fails if
//! any part failed. A part that needs a privilege or a tool that is missing is skipped and says so;
//! under CI it fails.

use std::time::Instant;

use anyhow::Result;

use super::table::{Cell, Table, Tone, paint};
use crate::process::tools::Missing;
use crate::repo::in_ci;

/// How a part ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As it should.
    Passed,
    /// It did not; what is wrong was printed by the part itself.
    Failed,
    /// It needs something this machine lacks.
    Skipped(String),
}

/// The parts that ran so far.
#[derive(Default)]
pub struct Stages {
    done: Vec<(String, f64, Ended)>,
}

impl Stages {
    /// Runs a part, printing its name before and its time after.
    pub fn run(&mut self, name: &str, part: impl FnOnce() -> Result<Ended>) {
        eprintln!("== {name}");
        let start = Instant::now();
        let ended = part().unwrap_or_else(|error| match error.downcast::<Missing>() {
            Ok(missing) => Ended::Skipped(missing.to_string()),
            Err(error) => {
                eprintln!("error: {error:#}");
                Ended::Failed
            }
        });
        let ended = strict(ended, in_ci());
        let seconds = start.elapsed().as_secs_f64();
        let (word, tone) = verdict(&ended);
        eprintln!("== {name}: {} after {seconds:.1} s", paint(word, tone));
        if let Ended::Skipped(reason) = &ended {
            eprintln!("   {reason}");
        }
        self.done.push((name.to_owned(), seconds, ended));
    }

    /// Prints the table; true when no part failed.
    pub fn finish(&self) -> bool {
        let mut table = Table::new(&["part", "seconds", "verdict"]);
        for (name, seconds, ended) in &self.done {
            let (word, tone) = verdict(ended);
            let seconds = format!("{seconds:7.1}");
            table.row(vec![name.as_str().into(), seconds.into(), Cell::new(word, tone)]);
        }
        let total: f64 = self.done.iter().map(|(_, seconds, _)| seconds).sum();
        table.row(vec!["total".into(), format!("{total:7.1}").into(), "".into()]);
        println!();
        table.print();
        self.done.iter().all(|(_, _, ended)| *ended != Ended::Failed)
    }
}

fn strict(ended: Ended, in_ci: bool) -> Ended {
    match ended {
        Ended::Skipped(reason) if in_ci => {
            eprintln!("error: {reason} (skipping is failing under CI)");
            Ended::Failed
        }
        other => other,
    }
}

fn verdict(ended: &Ended) -> (&'static str, Tone) {
    match ended {
        Ended::Passed => ("ok", Tone::Good),
        Ended::Failed => ("FAILED", Tone::Bad),
        Ended::Skipped(_) => ("skipped", Tone::Warn),
    }
}

/// Turns "it ended well" into how a part ended.
pub fn passed(well: bool) -> Ended {
    if well { Ended::Passed } else { Ended::Failed }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn every_part_runs_and_one_failure_fails_the_whole() {
        let mut stages = Stages::default();
        stages.run("first", || bail!("broken"));
        stages.run("second", || Ok(Ended::Passed));
        assert_eq!(stages.done.len(), 2);
        assert!(!stages.finish());
    }

    #[test]
    fn skipping_is_failing_under_ci_only() {
        let skipped = Ended::Skipped("no privilege".to_owned());
        assert_eq!(strict(skipped.clone(), true), Ended::Failed);
        assert_eq!(strict(skipped.clone(), false), skipped);
    }

    #[test]
    fn a_missing_tool_skips_the_part_aloud() {
        let mut stages = Stages::default();
        stages.run("part", || Err(Missing("no valgrind".to_owned()).into()));
        let skipped = Ended::Skipped("no valgrind".to_owned());
        assert_eq!(stages.done[0].2, strict(skipped, in_ci()));
    }
}
