//! What a measurement needs: the programs under test, the cores, where files go, how thorough to
//! be.
//!
//! A program is looked for when it is first needed: counting instructions needs no memcached. The
//! comparison with memcached counts only beside version 1.6.40 or later. From there on a pipelined
//! run of gets is answered by one send; older versions flatter everything that is compared with
//! them.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use measure::{exec::Exec, process::Cores, repo::Repo, screen::Progress, tools};

/// The oldest memcached that counts as the newest.
const NEWEST: [u32; 3] = [1, 6, 40];
/// Longest a server may take to print its version.
const VERSION_MAX: Duration = Duration::from_secs(20);
/// Where measurements leave their files, below the root.
pub const FOLDER: &str = "target/prove";

/// What may be given by hand.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The binary to measure; without it the release binary.
    pub volvox: Option<PathBuf>,
    /// The newest memcached; without it the distribution's stands in.
    pub memcached: Option<PathBuf>,
    /// The generator that ours is compared with.
    pub memtier: Option<PathBuf>,
    /// Whether the full bars are run.
    pub long: bool,
}

/// Everything a measurement needs.
pub struct Lab {
    repo: Repo,
    cores: Cores,
    given: Given,
    /// The memcached that we are compared with, and its version.
    memcached: OnceCell<(PathBuf, String)>,
    /// What several claims are made of, once one has needed it; or why it could not be made.
    shared: RefCell<BTreeMap<&'static str, Result<Rc<Value>, String>>>,
    progress: RefCell<Progress>,
}

impl Lab {
    /// For a number of claims, with the programs that are given.
    pub fn open(given: Given, claims: usize) -> Result<Self> {
        let (repo, cores) = (Repo::find()?, Cores::find().context("read the cores")?);
        let progress = RefCell::new(Progress::new(claims));
        let (memcached, shared) = (OnceCell::new(), RefCell::default());
        Ok(Self { repo, cores, given, memcached, shared, progress })
    }

    /// The repository.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// The cores of servers and generators.
    pub fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Whether the full bars are run.
    pub fn is_long(&self) -> bool {
        self.given.long
    }

    /// The first of two, or the second where the full bars are run.
    pub fn form<T>(&self, [quick, long]: [T; 2]) -> T {
        if self.given.long { long } else { quick }
    }

    /// Where measurements leave their files.
    pub fn folder(&self) -> PathBuf {
        self.repo.path(FOLDER)
    }

    /// Our binary; an error where it is not built.
    pub fn volvox(&self) -> Result<PathBuf> {
        let path = self.given.volvox.clone().unwrap_or_else(|| self.repo.volvox());
        if !path.is_file() {
            bail!("{} is missing: cargo build --release -p volvox", path.display());
        }
        Ok(path)
    }

    /// A command of our binary, on the generator's core.
    pub fn generator(&self) -> Result<Exec> {
        Ok(Exec::new(self.volvox()?).cores(self.cores.generator()))
    }

    /// memtier_benchmark; an error where it is not given.
    pub fn memtier(&self) -> Result<&Path> {
        self.given.memtier.as_deref().context("give --memtier PATH (memtier_benchmark)")
    }

    /// The memcached that we are compared with, and its version.
    pub fn memcached(&self) -> Result<(&Path, &str)> {
        if self.memcached.get().is_none() {
            let path = match &self.given.memcached {
                Some(path) if !path.is_file() => {
                    bail!("{} is no file: give the newest memcached's binary", path.display())
                }
                Some(path) => path.clone(),
                None => tools::MEMCACHED.need()?,
            };
            let text = Exec::new(&path).arg("-V").capture(VERSION_MAX)?;
            let version = text.trim().trim_start_matches("memcached ").to_owned();
            let _ = self.memcached.set((path, version));
        }
        let (path, version) = self.memcached.get().context("invariant: it was just set")?;
        Ok((path, version))
    }

    /// Why the memcached in use does not count as the newest, if it does not.
    pub fn stand_in(&self) -> Result<Option<String>> {
        let (_, version) = self.memcached()?;
        Ok((!is_newest(version)).then(|| {
            let [major, minor, patch] = NEWEST;
            let wanted = format!("{major}.{minor}.{patch}");
            format!("memcached {version}, not {wanted} or later: give --memcached PATH")
        }))
    }

    /// What several claims are made of, made by the first one that needs it. What could not be
    /// made is not tried again.
    pub fn shared(
        &self,
        name: &'static str,
        make: impl FnOnce() -> Result<Value>,
    ) -> Result<Rc<Value>> {
        let known = self.shared.borrow().get(name).cloned();
        let made = known.unwrap_or_else(|| {
            let made = make().map(Rc::new).map_err(|error| format!("{error:#}"));
            self.shared.borrow_mut().insert(name, made.clone());
            made
        });
        made.map_err(anyhow::Error::msg)
    }

    /// Begins the next claim in the line of progress.
    pub fn begin(&self, step: &str) {
        self.progress.borrow_mut().begin(step);
    }

    /// Says what the claim is at.
    pub fn detail(&self, detail: &str) {
        self.progress.borrow().detail(detail);
    }

    /// Removes the line of progress, before a program writes to the screen.
    pub fn quiet(&self) {
        self.progress.borrow().clear();
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
