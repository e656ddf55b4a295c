//! The folder of a report: its plan, and a file for every finding, written when it is made.
//!
//! A file is written aside and renamed, so that a lab that is cut off leaves whole findings. What
//! another plan has measured is never mixed in: the folder remembers its plan.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::finding::{FINDING_SCHEMA, Finding, Findings};
use crate::subject::Subject;

/// The file of the plan.
const PLAN: &str = "plan.json";
/// The folder of findings.
const FINDINGS: &str = "findings";
/// The folder of what servers said.
const LOGS: &str = "logs";
/// The most files that are read back.
const FILES_MAX: usize = 10_000;

/// The folder.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens the folder; on `resume` with what it holds, else it must hold no plan.
    pub fn open(
        folder: &Path,
        subject: Subject,
        resume: bool,
    ) -> Result<(Self, Subject, Findings), Error> {
        let store = Self { folder: folder.to_owned() };
        for part in [FINDINGS, LOGS] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(|error| Error::file(path, error))?;
        }
        let path = folder.join(PLAN);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !store.files()?.is_empty() {
                    return Err(Error::Setting(format!(
                        "{} holds findings but not their plan ({PLAN}): choose another --out",
                        folder.display()
                    )));
                }
                let text = serde_json::to_string_pretty(&subject);
                store.write(PLAN, &text.expect("strings and numbers always serialise"))?;
                Ok((store, subject, Findings::default()))
            }
            Err(error) => Err(Error::file(path, error)),
            Ok(_) if !resume => Err(Error::Setting(format!(
                "{} holds a report: go on with it by --resume, or choose another --out",
                folder.display()
            ))),
            Ok(text) => {
                let begun: Subject = serde_json::from_str(&text)
                    .map_err(|error| Error::Foreign { path, what: error.to_string() })?;
                if begun.key() != subject.key() {
                    return Err(Error::Setting(format!(
                        "{} was begun as {:?}, not {:?}: choose another --out",
                        folder.display(),
                        begun.key(),
                        subject.key()
                    )));
                }
                let findings = store.findings()?;
                Ok((store, begun, findings))
            }
        }
    }

    /// Where servers leave what they say.
    pub fn logs(&self) -> PathBuf {
        self.folder.join(LOGS)
    }

    /// The path of a file of the report.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file of the report, whole or not at all.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let (path, aside) = (self.path(name), self.path(&format!("{name}.aside")));
        File::create(&aside)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&aside, &path))
            .map_err(|error| Error::file(path, error))
    }

    /// Keeps a finding.
    pub fn keep(&self, finding: &Finding) -> Result<(), Error> {
        let text = serde_json::to_string(finding).expect("strings and numbers always serialise");
        self.write(&format!("{FINDINGS}/{}.json", finding.job), &text)
    }

    /// The files of findings.
    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let folder = self.path(FINDINGS);
        let entries = fs::read_dir(&folder).map_err(|error| Error::file(&folder, error))?;
        let paths = entries.take(FILES_MAX).map(|entry| Ok(entry?.path()));
        let paths: io::Result<Vec<PathBuf>> = paths.collect();
        let mut paths = paths.map_err(|error| Error::file(&folder, error))?;
        paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
        Ok(paths)
    }

    fn findings(&self) -> Result<Findings, Error> {
        let mut findings = Findings::default();
        for path in self.files()? {
            let text = fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
            let finding: Finding = serde_json::from_str(&text)
                .map_err(|error| Error::Foreign { path: path.clone(), what: error.to_string() })?;
            if finding.schema != FINDING_SCHEMA {
                return Err(Error::Foreign { path, what: format!("schema {}", finding.schema) });
            }
            findings.put(finding);
        }
        Ok(findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::{Contestant, DRIVERS};
    use crate::finding::tests::lambda;
    use crate::plan::{Job, SWEEP, Task};
    use crate::subject::tests::subject;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("volvox-lab-{name}-{}", std::process::id()))
    }

    #[test]
    fn findings_are_found_again() {
        let folder = folder("resumed");
        let (store, _, none) = Store::open(&folder, subject("quick"), false).unwrap();
        assert_eq!(none.iter().count(), 0);
        store.keep(&lambda(Contestant::Epoll, SWEEP, 10.0, 1.0)).unwrap();
        let (_, begun, found) = Store::open(&folder, subject("quick"), true).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let job = |contestant| Job { contestant, task: Task::LambdaMax(SWEEP) };
        let settled = |contestant| found.is_settled(&DRIVERS, &job(contestant));
        assert!(settled(Contestant::Epoll) && !settled(Contestant::Uring));
        assert_eq!(begun.date, "2026-01-02");
    }

    #[test]
    fn a_folder_of_another_plan_is_left_alone() {
        let folder = folder("foreign");
        Store::open(&folder, subject("quick"), false).unwrap();
        let again = Store::open(&folder, subject("quick"), false).unwrap_err().to_string();
        let other = Store::open(&folder, subject("full"), true).unwrap_err().to_string();
        fs::write(folder.join(FINDINGS).join("x.json"), "{}").unwrap();
        let broken = Store::open(&folder, subject("quick"), true).unwrap_err().to_string();
        fs::remove_file(folder.join(PLAN)).unwrap();
        let orphans = Store::open(&folder, subject("full"), false).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        assert!(again.contains("--resume"), "{again}");
        assert!(other.contains("quick") && other.contains("--out"), "{other}");
        assert!(broken.contains("x.json"), "{broken}");
        assert!(orphans.contains("plan.json") && orphans.contains("--out"), "{orphans}");
    }
}
