//! Where the repository is and what state it is in: root, files, crates, commit, date.
//!
//! Read-only. Paths that are returned are absolute; paths shown to people are relative to the root.
//! The root is where this program was built, so a copy of the binary still judges its own tree.

use std::path::{Path, PathBuf};
use std::{env, time::Duration};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use crate::process::exec::Exec;

/// Longest any of the commands here may take.
const QUESTION_MAX: Duration = Duration::from_secs(60);

/// The repository this program was built from.
pub struct Repo {
    root: PathBuf,
}

impl Repo {
    /// Finds the root: two folders above this package.
    pub fn find() -> Result<Self> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.ancestors().nth(2).context("measure stands in no folder")?;
        Ok(Self { root: root.to_owned() })
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the root.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// What cargo builds in its release profile, below `target/release`.
    pub fn built(&self, name: &str) -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        self.root.join(target).join("release").join(name)
    }

    /// The release binary of the server.
    pub fn volvox(&self) -> PathBuf {
        self.built("volvox")
    }

    /// Every file git knows or would add, relative to the root, sorted.
    pub fn files(&self) -> Result<Vec<String>> {
        let listing = Exec::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .cwd(&self.root)
            .capture(QUESTION_MAX)?;
        let mut files: Vec<String> = listing
            .lines()
            .filter(|path| self.root.join(path).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// What cargo knows of the workspace, without its dependencies.
    pub fn metadata<T: DeserializeOwned>(&self) -> Result<T> {
        let text = Exec::new("cargo")
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .cwd(&self.root)
            .capture(QUESTION_MAX)?;
        serde_json::from_str(&text).context("`cargo metadata` printed something else than expected")
    }

    /// The commit checked out, marked when the tree differs from it. The results that are kept do
    /// not count as a difference: each claim that is measured changes them.
    pub fn commit(&self) -> Result<String> {
        let git = |args: &[&str]| Exec::new("git").args(args).cwd(&self.root).capture(QUESTION_MAX);
        let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
        let changed = git(&["status", "--porcelain", "--", ".", ":!docs/proof"])?;
        let mark = if changed.trim().is_empty() { "" } else { " with local changes" };
        Ok(format!("{}{mark}", commit.trim()))
    }

    /// Today in UTC, as year-month-day.
    pub fn today() -> Result<String> {
        let date = Exec::new("date").args(["-u", "+%Y-%m-%d"]).capture(QUESTION_MAX)?;
        Ok(date.trim().to_owned())
    }
}

/// Whether a continuous-integration service runs this program: a missing tool fails there.
pub fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}
