//! What a newcomer pays: the time of a clean build and the size of the binary.
//!
//! The build has a folder of its own, which is empty before and removed after. Libraries are
//! fetched before the clock starts: the network is not measured. The size is that of the stripped
//! binary, in megabytes of a million bytes.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
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
    Claim::new("build.time", "clean release build").bar("<= 4 minutes").by(time),
    Claim::new("build.size", "stripped binary").bar("<= 12 MB").by(size),
];

fn time(lab: &Lab) -> Result<Measured> {
    let (root, folder) = (lab.repo().root(), lab.folder().join("clean-build"));
    let remove =
        || fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()));
    if folder.exists() {
        remove()?;
    }
    let cargo =
        |words: &[&str]| Exec::new("cargo").args(words).args(["--locked", "--quiet"]).cwd(root);
    cargo(&["fetch"]).capture(BUILD_MAX)?;
    let start = Instant::now();
    let build = cargo(&["build", "--release", "--package", "volvox"]);
    build.env("CARGO_TARGET_DIR", &folder).capture(BUILD_MAX)?;
    let seconds = start.elapsed().as_secs_f64();
    remove()?;
    Ok(Measured::new(format!("{seconds:.0} s"), seconds, seconds <= SECONDS_MAX))
}

fn size(lab: &Lab) -> Result<Measured> {
    let folder = lab.folder();
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let stripped = folder.join("volvox-stripped");
    Exec::new("strip").arg("-o").arg(&stripped).arg(lab.volvox()?).capture(STRIP_MAX)?;
    let megabytes = fs::metadata(&stripped)?.len() as f64 / 1e6;
    Ok(Measured::new(format!("{megabytes:.1} MB"), megabytes, megabytes <= MEGABYTES_MAX))
}
