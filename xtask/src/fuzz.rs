//! `cargo xtask fuzz`: runs the fuzz targets under `fuzz/`, each for a bounded time.
//!
//! With a nightly toolchain the address sanitizer watches too; on the stable one the targets run
//! without it, which still finds every panic and every broken assertion.

use std::path::PathBuf;
use std::{num::NonZero, thread, time::Duration};

use anyhow::{Result, bail};

use measure::repo::{Repo, in_ci};
use measure::{exec::Exec, tools};

/// Longest building the targets may take.
const BUILD_MAX: Duration = Duration::from_secs(1200);
/// Longest a quick question to cargo may take.
const PROBE_MAX: Duration = Duration::from_secs(60);

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz memcache_parse --seconds 600"
)]
pub struct Args {
    /// The target to run; all, as many at a time as there are cores, when absent.
    target: Option<String>,
    /// How long each target runs.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// How many inputs each target runs at most, however fast it is.
    #[arg(long)]
    runs: Option<u64>,
}

/// Runs the chosen targets, one on each core; all of them run even when one finds something.
pub fn run(args: &Args) -> Result<bool> {
    tools::CPP.need()?;
    tools::need_cargo_command("cargo-fuzz")?;
    let is_nightly = Exec::new("cargo").args(["+nightly", "--version"]).capture(PROBE_MAX).is_ok();
    let (seconds, runs) = (args.seconds, args.runs);
    let fuzzer = Fuzzer { repo: Repo::find()?, seconds, runs, is_nightly };
    let all = fuzzer.cargo_fuzz(&["list"]).capture(PROBE_MAX)?;
    let is_wanted = |name: &&str| args.target.as_ref().is_none_or(|wanted| wanted == name);
    let chosen: Vec<&str> = all.lines().filter(is_wanted).collect();
    match chosen[..] {
        [] => bail!("no such fuzz target: the targets are [{}]", all.trim().replace('\n', ", ")),
        [only] if !in_ci() => fuzzer.watched(only),
        _ => fuzzer.side_by_side(&chosen),
    }
}

/// How a target is built and run.
struct Fuzzer {
    repo: Repo,
    seconds: u64,
    runs: Option<u64>,
    is_nightly: bool,
}

impl Fuzzer {
    /// Runs a target and shows what it prints of every new input.
    fn watched(&self, name: &str) -> Result<bool> {
        eprintln!("fuzzing {name} for {} s", self.seconds);
        self.target(name).status(self.deadline())
    }

    /// Runs targets on all cores, as many on each, and shows only how each ended.
    fn side_by_side(&self, names: &[&str]) -> Result<bool> {
        self.cargo_fuzz(&["build"]).args(self.sanitizer()).capture(BUILD_MAX)?;
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let one_by_one = |names: &[&str]| -> Result<bool> {
            names.iter().try_fold(true, |well, name| Ok(self.summed_up(name)? && well))
        };
        thread::scope(|scope| {
            let parts = names.chunks(names.len().div_ceil(cores));
            let runners: Vec<_> = parts.map(|part| scope.spawn(|| one_by_one(part))).collect();
            runners.into_iter().try_fold(true, |well, runner| {
                let ended = runner.join().expect("invariant: a runner returns its errors");
                Ok(ended? && well)
            })
        })
    }

    fn summed_up(&self, name: &str) -> Result<bool> {
        eprintln!("fuzzing {name} for {} s", self.seconds);
        let said = self.target(name).said(self.deadline())?;
        let well = said.status.success();
        let shown = if well { finals(&said.complaints) } else { findings(&said.complaints) };
        eprintln!("{name} {}\n{shown}", if well { "ended well" } else { "found something" });
        Ok(well)
    }

    fn target(&self, name: &str) -> Exec {
        let limits = [format!("-max_total_time={}", self.seconds), "-print_final_stats=1".into()];
        let run = self.cargo_fuzz(&["run"]).args(self.sanitizer()).args([name, "--"]).args(limits);
        let run = run.args(self.runs.map(|runs| format!("-runs={runs}")));
        match self.dictionary(name) {
            Some(file) => run.arg(format!("-dict={}", file.display())),
            None => run,
        }
    }

    /// The dictionary of a target's protocol, which is the first word of its name.
    fn dictionary(&self, name: &str) -> Option<PathBuf> {
        let protocol = name.split('_').next()?;
        Some(self.repo.path(&format!("fuzz/{protocol}.dict"))).filter(|path| path.is_file())
    }

    fn cargo_fuzz(&self, words: &[&str]) -> Exec {
        let toolchain = self.is_nightly.then_some("+nightly");
        let cargo = Exec::new("cargo").args(toolchain).arg("fuzz").args(words);
        cargo.cwd(self.repo.root())
    }

    /// The stable toolchain has no sanitizer.
    fn sanitizer(&self) -> &[&str] {
        if self.is_nightly { &[] } else { &["--sanitizer", "none"] }
    }

    fn deadline(&self) -> Duration {
        BUILD_MAX + Duration::from_secs(self.seconds)
    }
}

/// The lines in which a target sums up what it did.
fn finals(complaints: &str) -> String {
    chosen(complaints, |line| line.contains("DONE") || line.starts_with("stat::"))
}

/// What a target printed, without its progress: the panic, the stack, the input.
fn findings(complaints: &str) -> String {
    chosen(complaints, |line| !(line.starts_with('#') && line.contains('\t')))
}

fn chosen(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    text.lines().filter(|line| wanted(line)).collect::<Vec<_>>().join("\n")
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
    fn what_a_target_died_of_is_shown_whole() {
        let said =
            "#2\tNEW    cov: 3\nthread panicked at x.rs:1\n    #1 0x5 in run\nBase64: AA==\n";
        let shown = "thread panicked at x.rs:1\n    #1 0x5 in run\nBase64: AA==";
        assert_eq!(findings(said), shown);
    }
}
