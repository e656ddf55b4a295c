//! `cargo xtask fuzz`: runs the fuzz targets under `fuzz/`, each for a bounded time.
//!
//! With a nightly toolchain the address sanitizer watches too; on the stable one the targets run
//! without it, which still finds every panic and every broken assertion.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail};

use crate::{
    exec::Exec,
    repo::{Repo, in_ci},
    tools,
};

/// Time beyond the asked seconds that building a target may take.
const BUILD_MAX: Duration = Duration::from_secs(1200);
/// Longest a toolchain may take to say that it is there.
const PROBE_MAX: Duration = Duration::from_secs(60);

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz text --seconds 600")]
pub struct Args {
    /// The target to run; all, one after the other, when absent.
    target: Option<String>,
    /// How long each target runs.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
}

impl Args {
    /// Every target, each for so many seconds.
    pub fn all(seconds: u64) -> Self {
        Self { target: None, seconds }
    }
}

/// Runs the chosen targets; all of them run even when one finds something.
pub fn run(args: &Args) -> Result<bool> {
    let repo = Repo::find()?;
    let targets = targets(&repo.path("fuzz/fuzz_targets"))?;
    let chosen: Vec<&String> = match &args.target {
        None => targets.iter().collect(),
        Some(wanted) => targets.iter().filter(|name| *name == wanted).collect(),
    };
    if chosen.is_empty() {
        let wanted = args.target.as_deref().unwrap_or_default();
        bail!("no fuzz target {wanted}: the targets are [{}]", targets.join(", "));
    }
    tools::CPP.need()?;
    tools::need_cargo_command("cargo-fuzz")?;
    let mut well = true;
    for name in chosen {
        eprintln!("fuzzing {name} for {} s", args.seconds);
        well &= one(&repo, name, args.seconds)?;
    }
    Ok(well)
}

fn one(repo: &Repo, name: &str, seconds: u64) -> Result<bool> {
    let nightly = ["+nightly", "--version"];
    let exec = if Exec::new("cargo").args(nightly).capture(PROBE_MAX).is_ok() {
        Exec::new("cargo").args(["+nightly", "fuzz", "run", name])
    } else {
        Exec::new("cargo").args(["fuzz", "run", "--sanitizer", "none", name])
    };
    let limits = [format!("-max_total_time={seconds}"), "-print_final_stats=1".to_owned()];
    let exec = exec.arg("--").args(limits).cwd(repo.root());
    let deadline = BUILD_MAX + Duration::from_secs(seconds);
    if !in_ci() {
        return exec.status(deadline);
    }
    // A line for every new input would bury what the other parts of a check said.
    let said = exec.said(deadline)?;
    let well = said.status.success();
    eprintln!("{}", if well { finals(&said.complaints) } else { findings(&said.complaints) });
    Ok(well)
}

/// The lines in which a target sums up what it did.
fn finals(complaints: &str) -> String {
    chosen(complaints, |line| line.contains("DONE") || line.starts_with("stat::"))
}

/// All that a target said but for its progress: the panic, the stack, the input.
fn findings(complaints: &str) -> String {
    chosen(complaints, |line| !(line.starts_with('#') && line.contains('\t')))
}

fn chosen(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    text.lines().filter(|line| wanted(line)).collect::<Vec<_>>().join("\n")
}

fn targets(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder)
        .with_context(|| format!("no fuzz targets: cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_target_found_on_its_way_is_left_out() {
        let said = "#2\tNEW    cov: 3\n#9\tDONE   cov: 4\nDone 9 runs\nstat::peak_rss_mb: 5\n";
        assert_eq!(finals(said), "#9\tDONE   cov: 4\nstat::peak_rss_mb: 5");
    }

    #[test]
    fn what_a_target_died_of_is_told_whole() {
        let said =
            "#2\tNEW    cov: 3\nthread panicked at x.rs:1\n    #1 0x5 in run\nBase64: AA==\n";
        let told = "thread panicked at x.rs:1\n    #1 0x5 in run\nBase64: AA==";
        assert_eq!(findings(said), told);
    }

    #[test]
    fn targets_are_the_rust_files_of_the_folder() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tidy");
        assert!(targets(&here).unwrap().contains(&"lexer".to_owned()));
        let error = targets(&here.join("gone")).unwrap_err();
        assert!(format!("{error:#}").contains("no fuzz targets"), "{error:#}");
    }
}
