//! What a newcomer pays: the time of a clean build and the size of the binary.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    bench::Lab,
    claim::{Claim, Measured, Peer},
};
use measure::exec::Exec;

/// Longest the build may take before it is given up.
const BUILD_MAX: Duration = Duration::from_secs(1200);
/// Longest stripping may take.
const STRIP_MAX: Duration = Duration::from_secs(60);
/// The bar of the build.
const SECONDS_MAX: f64 = 240.0;
/// The bar of the binary, in MB of a million bytes.
const MEGABYTES_MAX: f64 = 12.0;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "build.time",
        claim: "clean release build",
        bar: "<= 4 minutes",
        peer: Peer::Nobody,
        measure: time,
    },
    Claim {
        id: "build.size",
        claim: "stripped binary",
        bar: "<= 12 MB",
        peer: Peer::Nobody,
        measure: size,
    },
];

fn time(lab: &Lab) -> Result<Measured> {
    let folder = lab.folder().join("clean-build");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    let build = ["build", "--release", "--quiet", "--locked", "--package", "volvox"];
    let exec = Exec::new("cargo").args(build).env("CARGO_TARGET_DIR", &folder);
    let fetch = Exec::new("cargo").args(["fetch", "--locked", "--quiet"]).cwd(lab.repo.root());
    fetch.capture(BUILD_MAX)?;
    let start = Instant::now();
    exec.cwd(lab.repo.root()).capture(BUILD_MAX)?;
    let seconds = start.elapsed().as_secs_f64();
    fs::remove_dir_all(&folder).with_context(|| format!("empty {}", folder.display()))?;
    Ok(Measured::new(format!("{seconds:.0} s"), seconds, seconds <= SECONDS_MAX))
}

fn size(lab: &Lab) -> Result<Measured> {
    let folder = lab.folder();
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let stripped = folder.join("volvox-stripped");
    Exec::new("strip").arg("-o").arg(&stripped).arg(&lab.volvox).capture(STRIP_MAX)?;
    let megabytes = fs::metadata(&stripped)?.len() as f64 / 1e6;
    Ok(Measured::new(format!("{megabytes:.1} MB"), megabytes, megabytes <= MEGABYTES_MAX))
}
