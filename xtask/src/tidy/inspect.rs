//! Reads the tree, asks every rule, prints what they found.
//!
//! Only this file touches the disk; every rule is a function from texts to findings.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result};

use super::{
    arrows, finding::Finding, lines::Lines, links, rooms, source::Source, sources, twice, words,
};
use measure::repo::Repo;
use measure::screen::{Tone, paint};

/// The page that lists the crates and the arrows between them.
const HOUSE: &str = "ARCHITECTURE.md";
/// The page that gives a reason for every library.
const LIBRARIES: &str = "docs/decisions/dependencies.md";

/// Arguments of `cargo xtask tidy`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Print the lines of production code of each crate, and judge nothing.
    #[arg(long)]
    lines: bool,
}

/// Prints the findings; true when none is worse than a warning.
pub fn run(args: &Args) -> Result<bool> {
    let repo = Repo::find()?;
    let mut texts = BTreeMap::new();
    for path in
        repo.files()?.into_iter().filter(|path| path.ends_with(".rs") || path.ends_with(".md"))
    {
        let text = fs::read_to_string(repo.path(&path)).with_context(|| format!("read {path}"))?;
        texts.insert(path, text);
    }
    let files = texts.iter().filter(|(path, _)| path.ends_with(".rs"));
    let files: Vec<Source> =
        files.map(|(path, text)| Source::new(path, text)).collect::<Result<_>>()?;
    if args.lines {
        print!("{}", Lines::of(&files).table());
        return Ok(true);
    }
    let findings = inspect(&repo, &texts, &files)?;
    let failed = findings.iter().filter(|finding| !finding.warning).count();
    for Finding { rule, path, line, message, warning, .. } in &findings {
        let at = if *line == 0 { String::new() } else { format!(":{line}") };
        let tone = if *warning { Tone::Warn } else { Tone::Bad };
        let rule = paint(&format!("{rule:?}").to_lowercase(), tone);
        println!("{path}{at}: {rule}: {message}");
    }
    println!("tidy: {failed} to mend, {} to watch", findings.len() - failed);
    Ok(failed == 0)
}

/// Every finding of every rule.
fn inspect(
    repo: &Repo,
    texts: &BTreeMap<String, String>,
    files: &[Source],
) -> Result<Vec<Finding>> {
    let page = |path: &str| texts.get(path).with_context(|| format!("{path} is missing"));
    let crates = repo.metadata::<arrows::Metadata>()?.packages;
    let mut findings = arrows::check(&crates, HOUSE, page(HOUSE)?);
    findings.extend(arrows::libraries(&crates, LIBRARIES, page(LIBRARIES)?));
    findings.extend(rooms::check(files));
    findings.extend(files.iter().flat_map(sources::check));
    findings.extend(twice::check(files));
    findings.extend(Lines::of(files).check());
    findings.extend(texts.iter().flat_map(|(path, text)| words::check(path, text)));
    let exists = |path: &str| repo.path(path).exists();
    findings.extend(links::check(texts, files, &crates, &exists));
    Ok(findings)
}
