//! The laboratory: the binaries under test, where results go, how thorough to be.

use std::{
    cell::{OnceCell, RefCell},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::server::{Launch, Program};
use measure::{exec::Exec, repo::Repo, screen::Progress, tools};

/// The oldest memcached that counts as the newest: from here on a pipelined run of gets is
/// answered by one send.
const NEWEST: [u32; 3] = [1, 6, 40];
/// Longest a server may take to print its version.
const VERSION_MAX: Duration = Duration::from_secs(20);
/// Where measurements leave their files, below the root.
pub const FOLDER: &str = "target/prove";
/// The core servers are pinned to.
pub const SERVER_CORE: usize = 0;
/// The core the generator is pinned to.
pub const CLIENT_CORE: usize = 1;

/// Everything a measurement needs.
pub struct Lab {
    /// The repository.
    pub repo: Repo,
    /// Our release binary.
    pub volvox: PathBuf,
    /// The memcached we are compared with.
    pub memcached: PathBuf,
    /// The generator that ours is compared with, where it was given.
    pub memtier: Option<PathBuf>,
    /// Whether the full bars are run.
    pub long: bool,
    /// The report of `volvox lab`, once a claim has needed it.
    pub table: OnceCell<Value>,
    version: String,
    progress: RefCell<Progress>,
}

impl Lab {
    /// Finds the binaries; without a memcached given, the distribution's stands in.
    pub fn open(memcached: Option<&Path>, long: bool, claims: usize) -> Result<Self> {
        let repo = Repo::find()?;
        let volvox = repo.volvox();
        let memcached = match memcached {
            Some(path) => path.to_owned(),
            None => tools::MEMCACHED.need()?,
        };
        if !memcached.is_file() {
            bail!("{} is no file: give the newest memcached's binary", memcached.display());
        }
        let text = Exec::new(&memcached).arg("-V").capture(VERSION_MAX)?;
        let version = text.trim().trim_start_matches("memcached ").to_owned();
        let progress = RefCell::new(Progress::new(claims));
        let (memtier, table) = (None, OnceCell::new());
        Ok(Self { repo, volvox, memcached, memtier, long, table, version, progress })
    }

    /// The version of the memcached we are compared with.
    pub fn memcached_version(&self) -> &str {
        &self.version
    }

    /// The name of the memcached that stands in for the newest, if one does.
    pub fn stand_in(&self) -> Option<String> {
        (!is_newest(&self.version)).then(|| {
            let [major, minor, patch] = NEWEST;
            let wanted = format!("{major}.{minor}.{patch}");
            format!("memcached {}, not {wanted} or later: give --memcached PATH", self.version)
        })
    }

    /// Where measurements leave their files.
    pub fn folder(&self) -> PathBuf {
        self.repo.path(FOLDER)
    }

    /// How to start our server.
    pub fn launch_volvox(&self) -> Result<Launch> {
        self.built()?;
        Ok(Launch::new(Program::Volvox(self.volvox.clone())))
    }

    /// How to start the original.
    pub fn launch_memcached(&self) -> Launch {
        Launch::new(Program::Memcached(self.memcached.clone()))
    }

    /// How to start the server that only moves bytes.
    pub fn launch_null(&self, request_bytes: usize, reply_bytes: usize) -> Result<Launch> {
        self.built()?;
        let binary = self.volvox.clone();
        Ok(Launch::new(Program::Null { binary, request_bytes, reply_bytes }))
    }

    /// Begins the next claim in the line of progress.
    pub fn begin(&self, step: &str) {
        self.progress.borrow_mut().begin(step);
    }

    /// Tells what the claim is at.
    pub fn detail(&self, detail: &str) {
        self.progress.borrow().detail(detail);
    }

    /// Removes the line of progress.
    pub fn quiet(&self) {
        self.progress.borrow().clear();
    }

    /// Fails where our release binary is missing.
    pub fn built(&self) -> Result<()> {
        let path = &self.volvox;
        let missing = || format!("{} is missing: cargo build --release -p volvox", path.display());
        path.is_file().then_some(()).with_context(missing)
    }
}

fn is_newest(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    });
    let mut next = || numbers.next().unwrap_or(0);
    [next(), next(), next()] >= NEWEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let cases = [
            ("1.6.18", false),
            ("1.6.39", false),
            ("1.6.40", true),
            ("1.6.45_3", true),
            ("1.10.0", true),
        ];
        for (version, newest) in cases {
            assert_eq!(is_newest(version), newest, "{version}");
        }
    }
}
