//! `cargo xtask fuzz`: runs the fuzz targets under `fuzz/`, each for a bounded time.
//!
//! With a nightly toolchain the targets run under the address sanitizer. Without one they run
//! without it, which still finds every panic and every failed assertion.

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{
    exec::Exec,
    repo::{Repo, in_ci},
    tools,
};

/// Time that building a target may take, beyond the seconds that it runs.
const BUILD_MAX: Duration = Duration::from_secs(1200);
/// Longest time in which a toolchain answers `--version`.
const PROBE_MAX: Duration = Duration::from_secs(60);

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz text --seconds 600")]
pub struct Args {
    /// The target to run. Without it all targets run, one on each core.
    target: Option<String>,
    /// How long each target runs.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
}

impl Args {
    /// Every target, each for this number of seconds.
    pub fn all(seconds: u64) -> Self {
        Self { target: None, seconds }
    }
}

/// Runs the chosen targets, one on each core; all of them run even when one finds something.
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
    let fuzzer = Fuzzer::new(&repo, args.seconds);
    match chosen[..] {
        [only] if !in_ci() => fuzzer.watched(only),
        _ => fuzzer.side_by_side(&chosen),
    }
}

/// How a target is built and run.
struct Fuzzer<'a> {
    repo: &'a Repo,
    seconds: u64,
    toolchain: &'static [&'static str],
    sanitizer: &'static [&'static str],
}

impl<'a> Fuzzer<'a> {
    fn new(repo: &'a Repo, seconds: u64) -> Self {
        let nightly = Exec::new("cargo").args(["+nightly", "--version"]).capture(PROBE_MAX).is_ok();
        let (toolchain, sanitizer): (&[_], &[_]) =
            if nightly { (&["+nightly"], &[]) } else { (&[], &["--sanitizer", "none"]) };
        Self { repo, seconds, toolchain, sanitizer }
    }

    /// Runs a target with its whole output, a line for every new input.
    fn watched(&self, name: &str) -> Result<bool> {
        eprintln!("fuzzing {name} for {} s", self.seconds);
        self.target(name).status(self.deadline())
    }

    /// Runs the targets, one on each core, and prints of each only how it ended.
    fn side_by_side(&self, names: &[&String]) -> Result<bool> {
        self.cargo_fuzz("build").capture(BUILD_MAX)?;
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let waiting = Mutex::new(names.iter());
        let next = || waiting.lock().expect("invariant: nothing panics under the lock").next();
        let run_what_waits = || -> Result<bool> {
            let mut well = true;
            while let Some(name) = next() {
                well &= self.summed_up(name)?;
            }
            Ok(well)
        };
        thread::scope(|scope| {
            let runners: Vec<_> =
                (0..cores.min(names.len())).map(|_| scope.spawn(run_what_waits)).collect();
            let ended = runners.into_iter().map(|runner| {
                runner.join().expect("invariant: a runner returns its errors, it does not panic")
            });
            Ok(ended.collect::<Result<Vec<bool>>>()?.into_iter().all(|well| well))
        })
    }

    fn summed_up(&self, name: &str) -> Result<bool> {
        eprintln!("fuzzing {name} for {} s", self.seconds);
        let said = self.target(name).said(self.deadline())?;
        let well = said.status.success();
        let report = if well { finals(&said.complaints) } else { findings(&said.complaints) };
        eprintln!("{name} {}\n{report}", if well { "ended well" } else { "found something" });
        Ok(well)
    }

    fn target(&self, name: &str) -> Exec {
        let limits = [format!("-max_total_time={}", self.seconds), "-print_final_stats=1".into()];
        let run = self.cargo_fuzz("run").args([name, "--"]).args(limits);
        match self.words(name) {
            Some(words) => run.arg(format!("-dict={}", words.display())),
            None => run,
        }
    }

    /// The dictionary of a target's protocol, which is the first word of its name.
    fn words(&self, name: &str) -> Option<PathBuf> {
        let protocol = name.split('_').next()?;
        Some(self.repo.path(&format!("fuzz/{protocol}.dict"))).filter(|path| path.is_file())
    }

    fn cargo_fuzz(&self, verb: &str) -> Exec {
        let cargo = Exec::new("cargo").args(self.toolchain).args(["fuzz", verb]);
        cargo.args(self.sanitizer).cwd(self.repo.root())
    }

    fn deadline(&self) -> Duration {
        BUILD_MAX + Duration::from_secs(self.seconds)
    }
}

/// The lines with a target's final statistics.
fn finals(complaints: &str) -> String {
    chosen(complaints, |line| line.contains("DONE") || line.starts_with("stat::"))
}

/// The output of a target without its progress: the panic, the stack, the input.
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
    fn progress_is_left_out() {
        let said = "#2\tNEW    cov: 3\n#9\tDONE   cov: 4\nDone 9 runs\nstat::peak_rss_mb: 5\n";
        assert_eq!(finals(said), "#9\tDONE   cov: 4\nstat::peak_rss_mb: 5");
    }

    #[test]
    fn what_a_target_died_of_is_reported_whole() {
        let said =
            "#2\tNEW    cov: 3\nthread panicked at x.rs:1\n    #1 0x5 in run\nBase64: AA==\n";
        let report = "thread panicked at x.rs:1\n    #1 0x5 in run\nBase64: AA==";
        assert_eq!(findings(said), report);
    }

    #[test]
    fn targets_are_the_rust_files_of_the_folder() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tidy");
        assert!(targets(&here).unwrap().contains(&"source".to_owned()));
        let error = targets(&here.join("gone")).unwrap_err();
        assert!(format!("{error:#}").contains("no fuzz targets"), "{error:#}");
    }
}
