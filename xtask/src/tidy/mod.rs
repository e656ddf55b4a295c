//! `cargo xtask tidy`: taste as a test.
//!
//! Every rule is a pure function from texts to findings; only this page and `repo` touch the
//! disk. Rules never guess: a finding names the file, the line, the limit and the remedy. What
//! must be excused stands in `tidy.allow` with a reason; an entry nobody needs is itself a
//! finding, so the list can only shrink.
//!
//! - `arrows`: the crates use only those that `ARCHITECTURE.md` lets them use, and every library
//!   has its reason in `docs/decisions/dependencies.md`.
//! - `sources`: size, width, ASCII, glob imports, names, module docs, `unsafe`.
//! - `links`: what the documents point at exists.

mod allow;
mod arrows;
mod lexer;
mod links;
mod source;
mod sources;

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result};
use serde::Serialize;

use measure::{
    repo::Repo,
    screen::{Tone, paint},
};

/// The page that lists the crates and the arrows between them.
const HOUSE: &str = "ARCHITECTURE.md";
/// The page that gives a reason for every library.
const LIBRARIES: &str = "docs/decisions/dependencies.md";
/// The file that lists what is excused.
const ALLOW: &str = "tidy.allow";

/// Arguments of `cargo xtask tidy`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Print the findings as one JSON array.
    #[arg(long)]
    json: bool,
}

/// The rules, by the name that `tidy.allow` and the report use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// A crate uses one it may not use.
    Arrows,
    /// A file is too long.
    Size,
    /// A line is too wide.
    Width,
    /// A character outside ASCII in a source.
    Ascii,
    /// A glob import outside tests.
    Glob,
    /// A name that says nothing.
    Name,
    /// A file without a word about itself.
    Docs,
    /// `unsafe` outside the few places for it.
    Unsafe,
    /// A document points at something that is not there.
    Link,
    /// An entry of `tidy.allow` is wrong.
    Allow,
}

impl Rule {
    const ALL: [Self; 10] = [
        Self::Arrows,
        Self::Size,
        Self::Width,
        Self::Ascii,
        Self::Glob,
        Self::Name,
        Self::Docs,
        Self::Unsafe,
        Self::Link,
        Self::Allow,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Arrows => "arrows",
            Self::Size => "size",
            Self::Width => "width",
            Self::Ascii => "ascii",
            Self::Glob => "glob",
            Self::Name => "name",
            Self::Docs => "docs",
            Self::Unsafe => "unsafe",
            Self::Link => "link",
            Self::Allow => "allow",
        }
    }
}

/// One thing that is not as the house wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that was broken.
    pub rule: Rule,
    /// The file, relative to the root.
    pub path: String,
    /// The line, from 1, where one line is to blame.
    pub line: Option<usize>,
    /// How much was measured, for rules with a limit that may shrink.
    pub measured: Option<usize>,
    /// What is wrong and what to do.
    pub message: String,
    /// A warning does not fail the check.
    pub warning: bool,
}

impl Finding {
    /// A finding about a whole file.
    pub fn file(rule: Rule, path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let path = path.to_owned();
        Self { rule, path, line: None, measured: None, message, warning: false }
    }

    /// A finding about one line, counted from 1.
    pub fn line(rule: Rule, path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::file(rule, path, message) }
    }
}

/// Prints the findings; true when none is worse than a warning.
pub fn run(args: &Args) -> Result<bool> {
    let findings = inspect(&Repo::find()?)?;
    let failed = findings.iter().filter(|finding| !finding.warning).count();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
        return Ok(failed == 0);
    }
    for finding in &findings {
        let at = finding.line.map_or_else(String::new, |line| format!(":{line}"));
        let tone = if finding.warning { Tone::Warn } else { Tone::Bad };
        let rule = paint(finding.rule.name(), tone);
        println!("{}{at}: {rule}: {}", finding.path, finding.message);
    }
    println!("tidy: {failed} to mend, {} to watch", findings.len() - failed);
    Ok(failed == 0)
}

/// Everything that is not as the house wants it.
pub fn inspect(repo: &Repo) -> Result<Vec<Finding>> {
    let mut texts = BTreeMap::new();
    for path in repo.files()? {
        if path.ends_with(".rs") || path.ends_with(".md") || path == ALLOW {
            let text = fs::read_to_string(repo.path(&path)).with_context(|| format!("read {path}"));
            texts.insert(path, text?);
        }
    }
    let files: Vec<source::Source> = texts
        .iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(path, text)| source::Source::new(path, text))
        .collect();
    let crates = arrows::crates(&repo.metadata()?)?;
    let house = texts.get(HOUSE).with_context(|| format!("{HOUSE} is missing"))?;

    let mut findings = arrows::check(&crates, house);
    let libraries = texts.get(LIBRARIES).with_context(|| format!("{LIBRARIES} is missing"))?;
    findings.extend(arrows::libraries(&crates, libraries));
    findings.extend(files.iter().flat_map(sources::check));
    findings.extend(sources::forbids_unsafe(&files));
    let exists = |path: &str| repo.path(path).exists();
    findings.extend(links::check(&texts, &files, &crates, &exists));
    let excused = texts.get(ALLOW).map_or("", String::as_str);
    Ok(allow::apply(excused, findings))
}
