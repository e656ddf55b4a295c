//! The folder of a report: the file of its plan, and one file per finding, written as soon as it is
//! made.
//!
//! A file is written under a temporary name and renamed, so that an interrupted lab leaves only
//! whole files. The plan file says what was measured and where: findings of two builds, forms or
//! machines never stand in one folder.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, anyhow, bail};
use serde::de::DeserializeOwned;

use super::by_job::Findings;
use super::finding::{FINDING_SCHEMA, Finding};
use super::subject::Subject;

/// The file of the plan.
const PLAN: &str = "plan.json";
/// The folder of findings.
const FINDINGS: &str = "findings";
/// The folder of the servers' logs.
const LOGS: &str = "logs";
/// The most files that are read back.
const FILES_MAX: usize = 10_000;

/// The folder.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder. With `resume` its findings are read; else it must hold no plan.
    pub fn open(path: &Path, subject: Subject, resume: bool) -> Result<(Self, Subject, Findings)> {
        let folder = Self(path.to_owned());
        for part in [FINDINGS, LOGS] {
            let path = folder.path(part);
            fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        }
        let (plan, shown) = (folder.path(PLAN), path.display());
        if !plan.exists() {
            if !folder.files()?.is_empty() {
                bail!("{shown} holds findings but not their plan ({PLAN}): choose another --out");
            }
            folder.write(PLAN, &json(&subject))?;
            return Ok((folder, subject, Findings::default()));
        }
        if !resume {
            bail!("{shown} holds a report: continue it by --resume, or choose another --out");
        }
        let begun: Subject = read(&plan)?;
        let (was, is) = (begun.key(), subject.key());
        if was != is {
            bail!("{shown} holds a report of {was:?}, not of {is:?}: choose another --out");
        }
        let findings = folder.findings()?;
        Ok((folder, begun, findings))
    }

    /// The folder of the servers' logs.
    pub fn logs(&self) -> PathBuf {
        self.path(LOGS)
    }

    /// The path of a file of the report.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file of the report: the whole of it or nothing.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let (path, temporary) = (self.path(name), self.path(&format!("{name}.temporary")));
        File::create(&temporary)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&temporary, &path))
            .with_context(|| format!("write {}", path.display()))
    }

    /// Writes the file of a finding.
    pub fn keep(&self, finding: &Finding) -> Result<()> {
        self.write(&format!("{FINDINGS}/{}.json", finding.job), &json(finding))
    }

    /// The files of findings.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let folder = self.path(FINDINGS);
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let paths = entries.take(FILES_MAX).map(|entry| Ok(entry?.path()));
        let mut paths = paths.collect::<Result<Vec<PathBuf>>>()?;
        paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
        Ok(paths)
    }

    fn findings(&self) -> Result<Findings> {
        let mut findings = Findings::default();
        for path in self.files()? {
            let finding: Finding = read(&path)?;
            if finding.schema != FINDING_SCHEMA {
                return Err(foreign(&path, format!("schema {}", finding.schema)));
            }
            findings.put(finding);
        }
        Ok(findings)
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("invariant: strings and numbers serialise")
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).map_err(|error| foreign(path, error))
}

fn foreign(path: &Path, what: impl fmt::Display) -> Error {
    let path = path.display();
    anyhow!("{path} was not written by this lab ({what}): remove it or choose another --out")
}

#[cfg(test)]
mod tests {
    use super::super::finding::tests::lambda;
    use super::super::subject::tests::subject;
    use super::*;
    use crate::plan::{Contestant, DRIVERS, Job, SWEEP, Task};

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("volvox-lab-{name}-{}", std::process::id()))
    }

    #[test]
    fn findings_are_found_again() {
        let folder = folder("resumed");
        let (opened, _, none) = Folder::open(&folder, subject("quick"), false).unwrap();
        assert_eq!(none.iter().count(), 0);
        opened.keep(&lambda(Contestant::Epoll, SWEEP, 10.0, 1.0)).unwrap();
        let (_, begun, found) = Folder::open(&folder, subject("quick"), true).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let job = |contestant| Job { contestant, task: Task::LambdaMax(SWEEP) };
        let settled = |contestant| found.is_settled(&DRIVERS, &job(contestant));
        assert!(settled(Contestant::Epoll) && !settled(Contestant::Uring));
        assert_eq!(begun.date, "2026-01-02");
    }

    #[test]
    fn a_folder_of_another_plan_is_left_alone() {
        let folder = folder("foreign");
        Folder::open(&folder, subject("quick"), false).unwrap();
        let again = Folder::open(&folder, subject("quick"), false).unwrap_err().to_string();
        let other = Folder::open(&folder, subject("full"), true).unwrap_err().to_string();
        fs::write(folder.join(FINDINGS).join("x.json"), "{}").unwrap();
        let broken = Folder::open(&folder, subject("quick"), true).unwrap_err().to_string();
        fs::remove_file(folder.join(PLAN)).unwrap();
        let orphans = Folder::open(&folder, subject("full"), false).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        assert!(again.contains("--resume"), "{again}");
        assert!(other.contains("quick") && other.contains("--out"), "{other}");
        assert!(broken.contains("x.json"), "{broken}");
        assert!(orphans.contains("plan.json") && orphans.contains("--out"), "{orphans}");
    }
}
