//! `cargo xtask check` judges the tree without changing it; `fix` mends what machines can mend.
//!
//! `check` is what every change must pass. `--full` adds what needs other builds and programs:
//! random orders of the engine's steps, real clients on every driver and on a server without the
//! laboratory, buckets by their emulators, histories of a ring under faults, power cuts, the gate
//! on instructions per request. Every part runs, also after one that failed. Fuzzing is a command
//! of its own; the check compiles its targets.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

use crate::{ratchet, tidy};
use measure::{
    exec::Exec,
    repo::Repo,
    stages::{Ended, Stages, passed},
    tools,
};

/// Where the server without the laboratory is kept: the next build with all features replaces what
/// cargo calls by the same name.
const SERVER_ONLY: &str = "target/server-only/volvox";
/// Longest one part of the check may take.
const PART_MAX: Duration = Duration::from_secs(1800);
/// What has a lock file of its own, beside that of the workspace.
const LOCKED: [&str; 2] = ["fuzz/Cargo.toml", "tests/clients/rust/Cargo.toml"];
/// Histories of a ring under faults.
const HISTORIES: &str = "tests/linearizability/run.sh";
/// How many of them `--full` checks.
const HISTORIES_COUNT: &str = "5";
/// The journals and databases of the tests: several GiB, of use only after a test that failed.
const TIERS: &str = "target/tmp/tiers";
/// The features of buckets, with which `--full` lints and builds all tests at once: a second build
/// of a part of the workspace would build most of its crates again.
const BUCKETS: [&str; 2] = ["--features", "volvox/s3,volvox/gcs"];

/// Arguments of `cargo xtask check`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask check\n  cargo xtask check --full")]
pub struct Args {
    /// Also run random orders of the engine's steps, real clients on every driver and on a server
    /// without the laboratory, buckets by their emulators, histories of a ring under faults, the
    /// gate on instructions per request and the fuzz targets.
    #[arg(long)]
    full: bool,
}

/// Runs every part; true when all passed.
pub fn check(args: &Args) -> Result<bool> {
    let repo = Repo::find()?;
    let cargo = |words: &[&str]| Exec::new("cargo").args(words).cwd(repo.root());
    let status = |exec: Exec| exec.status(PART_MAX).map(passed);
    let features: &[&str] = if args.full { &BUCKETS } else { &[] };
    let mut stages = Stages::default();
    stages.run("format", || {
        tools::need_component(&["fmt", "--version"], "rustfmt")?;
        status(cargo(&["fmt", "--all", "--check"]))
    });
    stages.run("tidy", || Ok(passed(tidy::run(&tidy::Args::default())?)));
    stages.run("lock files", || {
        let mut current = true;
        for manifest in LOCKED {
            current &=
                cargo(&["fetch", "--locked", "--manifest-path", manifest]).status(PART_MAX)?;
        }
        Ok(passed(current))
    });
    stages.run("clippy", || {
        tools::need_component(&["clippy", "--version"], "clippy")?;
        let lint = cargo(&["clippy", "--workspace", "--all-targets", "--locked"]).args(features);
        status(lint.args(["--", "-D", "warnings"]))
    });
    stages.run("documentation", || {
        let doc = ["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"];
        status(cargo(&doc).env("RUSTDOCFLAGS", "-D warnings"))
    });
    let tests = cargo(&["test", "--workspace", "--no-fail-fast", "--locked"]).args(features);
    stages.run("build of the tests", || status(tests.clone().args(["--quiet", "--no-run"])));
    stages.run("tests", || {
        let ended = status(tests)?;
        let tiers = repo.path(TIERS);
        if ended == Ended::Passed && tiers.exists() {
            fs::remove_dir_all(&tiers).with_context(|| tiers.display().to_string())?;
        }
        Ok(ended)
    });
    stages.run("mutations have their places", || {
        status(Exec::new("python3").args(["tests/mutations/run.py", "--list"]).cwd(repo.root()))
    });
    if args.full {
        full(&repo, &mut stages);
    }
    Ok(stages.finish())
}

fn full(repo: &Repo, stages: &mut Stages) {
    let release = ["build", "--release", "--package", "volvox", "--locked"];
    let build = Exec::new("cargo").args(release).cwd(repo.root());
    stages.run("release build", || build.status(PART_MAX).map(passed));
    stages.run("orders of steps", || prove::shuttle().map(passed));
    for driver in ["epoll", "signal", "uring", "threads"] {
        stages.run(&format!("clients, {driver}"), || prove::clients(driver, None).map(passed));
    }
    stages.run("clients with auto discovery", || prove::discovery().map(passed));
    stages.run("a server without the laboratory", || server_only(repo).map(passed));
    stages.run("fuzz targets compile", || {
        tools::CPP.need()?;
        let fuzz = ["check", "--manifest-path", "fuzz/Cargo.toml", "--locked"];
        let exec = Exec::new("cargo").args(fuzz).env("RUSTFLAGS", "--cfg fuzzing");
        exec.cwd(repo.root()).status(PART_MAX).map(passed)
    });
    let histories = |words: &[&str]| {
        tools::IP.need()?;
        let exec = Exec::new(repo.path(HISTORIES)).args(["--histories", HISTORIES_COUNT]);
        let exec = exec.arg("--volvox").arg(repo.volvox()).cwd(repo.root());
        exec.args(words).status(PART_MAX).map(passed)
    };
    stages.run("linearizability", || histories(&[]));
    stages.run("linearizability while ranges move", || histories(&["--moves"]));
    stages.run("linearizability of reads from copies", || {
        histories(&["--moves", "--copy-reads", "250", "--rate", "300", "--ops", "3000"])
    });
    stages.run("power cuts", || prove::power_cuts().map(|()| passed(true)));
    stages.run("instructions per request", || {
        tools::VALGRIND.need()?;
        tools::STRACE.need()?;
        Ok(passed(ratchet::gate()?))
    });
}

/// Runs the clients on the server that `--no-default-features` leaves, with buckets. It is built as
/// the tests are, with which it shares all crates but one.
fn server_only(repo: &Repo) -> Result<bool> {
    let build = ["build", "--workspace", "--bin", "volvox", "--no-default-features", "--locked"];
    if !Exec::new("cargo").args(build).args(BUCKETS).cwd(repo.root()).status(PART_MAX)? {
        return Ok(false);
    }
    let (built, server) = (repo.path("target/debug/volvox"), repo.path(SERVER_ONLY));
    let folder = server.parent().expect("it is in a folder of the target");
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::copy(&built, &server).with_context(|| built.display().to_string())?;
    prove::clients("epoll", Some(server))
}

/// Formats, applies what clippy can correct, and renews the lock files that stand alone.
pub fn fix() -> Result<bool> {
    let repo = Repo::find()?;
    tools::need_component(&["fmt", "--version"], "rustfmt")?;
    tools::need_component(&["clippy", "--version"], "clippy")?;
    let cargo = |words: &[&str]| Exec::new("cargo").args(words).cwd(repo.root()).status(PART_MAX);
    let lint = ["clippy", "--fix", "--workspace", "--all-targets", "--allow-dirty"];
    let mut mended = cargo(&[&lint[..], &["--allow-staged"]].concat())?;
    mended &= cargo(&["fmt", "--all"])?;
    for manifest in LOCKED {
        mended &= cargo(&["update", "--workspace", "--manifest-path", manifest])?;
    }
    Ok(mended)
}
