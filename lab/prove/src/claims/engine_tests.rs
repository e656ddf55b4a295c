//! What must hold in the engine for every request and every order of its threads.
//!
//! The tests are the engine's own. Here they run longer than in the check, under the model checkers
//! and under the sanitizers. The engine is also broken on purpose, to prove that its tests fail
//! then. Every kind of build has a folder of its own, so none discards what another built.

use std::fs;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::claim::{Claim, Measured};
use crate::lab::{FOLDER, Lab};
use measure::exec::{Exec, Said, tail};
use measure::repo::Repo;
use measure::tools::{self, Missing};

/// Longest one run of tests may take, building included.
const RUN_MAX: Duration = Duration::from_secs(1800);
/// Longest the quick questions may take.
const PROBE_MAX: Duration = Duration::from_secs(60);
/// Longest part of a command in the name of the file with its output.
const NAME_MAX: usize = 80;
/// Runs of the model test, each with a pool, a range of values and a seed of its own.
const MODEL_RUNS: u64 = 48;
/// Random operations compared with the model, in millions, and in the full form.
const MODEL_MILLIONS: [u64; 2] = [10, 50];
/// How much longer the full form runs what tries orders.
const LONGER: u64 = 10;
/// Orders that each shuttle test tries.
const SHUTTLE_ORDERS: u64 = 1_000;
/// Operations of each thread under a sanitizer.
const CROWD_OPS: u64 = 20_000;
/// Operations of a run of the model test under a sanitizer.
const SANITIZED_STEPS: u64 = 5_000;
/// The breakages of the quick form: one for each promise that readers and writers rest on.
const BREAKAGES: [&str; 4] = [
    "a read is not checked against the version",
    "a drained segment skips limbo",
    "a pin pins nothing",
    "a write in place ignores the barrier",
];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::held("correct.model", "random operations against a plain map, pools that evict", model),
    Claim::held("correct.shapes", "the shape tests: delays, copies, flushes, batches", shapes),
    Claim::held("correct.orders", "read, write, evict under loom and shuttle", orders),
    Claim::held(
        "correct.sanitizers",
        "threads under the thread and address sanitizers",
        sanitizers,
    ),
    Claim::held("correct.breakages", "deliberate breakages, each caught by its test", breakages),
];

/// Runs the commands one after the other, each for at most `run_max`; one that fails does not stop
/// the others.
pub(super) fn all(lab: &Lab, held: String, runs: Vec<Exec>, run_max: Duration) -> Result<Measured> {
    let mut details = Vec::new();
    let count = runs.len();
    for run in runs {
        lab.detail(&run.to_string());
        if let Err(error) = carry_out(lab, &run.cwd(lab.repo().root()), run_max) {
            details.push(format!("{error:#}"));
        }
    }
    let text = if details.is_empty() { held } else { format!("{} failed", details.len()) };
    let share = (count - details.len()) as f64 / count as f64;
    Ok(Measured::new(text, share, details.is_empty()).with_details(details))
}

/// Runs a command. Where it fails, all that it has printed is kept in a file, which is named.
fn carry_out(lab: &Lab, run: &Exec, run_max: Duration) -> Result<()> {
    let Said { status, output, complaints } = run.said(run_max)?;
    if status.success() {
        return Ok(());
    }
    let text = format!("{output}\n{complaints}");
    let file = format!("failed-{}.log", kept_name(&run.to_string()));
    fs::create_dir_all(lab.folder())?;
    fs::write(lab.folder().join(&file), &text)?;
    bail!("`{run}` ended with {status}, all of it is in {FOLDER}/{file}:\n{}", tail(&text));
}

/// The words of a command from its program's name on, as a part of a file's name.
fn kept_name(command: &str) -> String {
    let (program, rest) = command.split_once(' ').unwrap_or((command, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    let words = [program, rest].join(" ");
    let words = words.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty());
    words.collect::<Vec<_>>().join("-").chars().take(NAME_MAX).collect()
}

/// `cargo test` of some test targets of one package.
pub(super) fn test(package: &str, targets: &[&str]) -> Exec {
    let exec = Exec::new("cargo").args(["test", "--quiet", "--locked", "--package", package]);
    targets.iter().fold(exec, |exec, target| exec.args(["--test", target]))
}

/// A build with flags of its own, in a folder of its own.
pub(super) fn apart(repo: &Repo, exec: Exec, name: &str, flags: &str) -> Exec {
    let folder = repo.path(&format!("target/{name}"));
    exec.env("CARGO_TARGET_DIR", folder).env("RUSTFLAGS", flags)
}

fn model(lab: &Lab) -> Result<Measured> {
    let millions = lab.form(MODEL_MILLIONS);
    let steps = (millions * 1_000_000).div_ceil(MODEL_RUNS);
    let run = test("engine", &["model"]).env("MODEL_STEPS", steps.to_string());
    all(lab, format!("{millions} million operations"), vec![run], RUN_MAX)
}

fn shapes(lab: &Lab) -> Result<Measured> {
    let engine = [
        "two_engines_hold_the_same",
        "flush_cuts_everything_off",
        "a_batch_larger_than_the_pool",
        "housekeeping_is_bounded",
    ];
    let runs = vec![
        test("engine", &engine),
        test("drivers", &["every_driver"]),
        Exec::new("cargo").args(["test", "--quiet", "--locked", "--package", "session"]),
    ];
    all(lab, "all hold".to_owned(), runs, RUN_MAX)
}

fn orders(lab: &Lab) -> Result<Measured> {
    let orders = SHUTTLE_ORDERS * lab.form([1, LONGER]);
    let loom = test("engine", &["loom_orders"]).arg("--lib");
    let runs = vec![apart(lab.repo(), loom, "loom", "--cfg loom"), shuttle(lab.repo(), orders)];
    all(lab, format!("loom; shuttle, {orders} orders a test"), runs, RUN_MAX)
}

fn shuttle(repo: &Repo, orders: u64) -> Exec {
    let exec = test("engine", &["shuttle_orders", "shuttle_versions"])
        .env("SHUTTLE_ORDERS", orders.to_string());
    apart(repo, exec.env("SHUTTLE_SILENCE_WARNINGS", "1"), "shuttle", "--cfg shuttle")
}

/// Runs the shuttle tests alone, for the check.
pub fn shuttle_holds(lab: &Lab) -> Result<bool> {
    let repo = lab.repo();
    shuttle(repo, SHUTTLE_ORDERS).cwd(repo.root()).status(RUN_MAX)
}

fn sanitizers(lab: &Lab) -> Result<Measured> {
    let nightly = Exec::new("rustc").args(["+nightly", "--print", "sysroot"]).capture(PROBE_MAX);
    let sources = |sysroot: String| {
        let library = "lib/rustlib/src/rust/library/Cargo.lock";
        std::path::Path::new(sysroot.trim()).join(library).is_file()
    };
    if !nightly.is_ok_and(sources) {
        let how = "rustup toolchain install nightly --component rust-src";
        return Err(Missing(format!("the sanitizers need a nightly toolchain: {how}")).into());
    }
    let ops = CROWD_OPS * lab.form([1, LONGER]);
    let steps = SANITIZED_STEPS * lab.form([1, LONGER]);
    let run = |sanitizer: &str, flags: &str| {
        let words = ["+nightly", "test", "--quiet", "--locked", "-Zbuild-std", "--target"];
        let exec = Exec::new("cargo").args(words).arg("x86_64-unknown-linux-gnu");
        let exec = exec.args(["--package", "engine", "--lib", "--tests"]);
        let exec = exec.env("CROWD_OPS", ops.to_string()).env("MODEL_STEPS", steps.to_string());
        apart(lab.repo(), exec, &format!("sanitizer-{sanitizer}"), &format!("-Zsanitizer={flags}"))
    };
    let held = format!("{ops} operations a thread, nothing found");
    // Copies in assembly are hidden from the thread sanitizer: it would miss what they race with.
    let runs = vec![run("thread", "thread --cfg word_copy"), run("address", "address")];
    all(lab, held, runs, RUN_MAX)
}

fn breakages(lab: &Lab) -> Result<Measured> {
    let run = Exec::new(tools::PYTHON.need()?).arg(lab.repo().path("tests/mutations/run.py"));
    if lab.is_long() {
        return all(lab, "each is caught".to_owned(), vec![run], RUN_MAX);
    }
    let runs = BREAKAGES.iter().map(|name| run.clone().args(["--only", name])).collect();
    all(lab, format!("{} of them, each is caught", BREAKAGES.len()), runs, RUN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_a_command() {
        assert_eq!(kept_name("/a/b/run.sh --histories 10 --moves"), "run-sh-histories-10-moves");
        assert_eq!(kept_name("python3 /a/run.py --only x"), "python3-a-run-py-only-x");
        assert_eq!(kept_name("true"), "true");
    }
}
