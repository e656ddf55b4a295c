//! A backend in memory, for tests and simulations.
//!
//! It survives nothing. A test sets faults: the next calls fail as it says, and were carried out or
//! not as it says.

use crate::failure::{check_key, error};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tier::{Backend, BackendError, Change, Failure, See};

/// What it is called in messages.
const NAME: &str = "memory";

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not carried out, and fails as this. With [`Failure::Unknown`] the caller cannot know
    /// that it was not carried out.
    Refused(Failure),
    /// It is carried out, and fails as [`Failure::Unknown`]. A call that only reads fails so too.
    CarriedOut,
}

/// Keeps records in memory.
#[derive(Debug, Default)]
pub struct MemoryBackend(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    notes: BTreeMap<String, Vec<u8>>,
    /// The faults of the next calls that read, and of those that write.
    reads: VecDeque<Fault>,
    writes: VecDeque<Fault>,
}

impl MemoryBackend {
    /// An empty one without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the next `calls` of [`Backend::get`] and [`Backend::note`] fail, after the faults that
    /// were set before.
    pub fn fail_gets(&self, calls: usize, fault: Fault) {
        self.kept().reads.extend(std::iter::repeat_n(fault, calls));
    }

    /// Makes the next `calls` of [`Backend::apply`] and [`Backend::set_note`] fail, after the
    /// faults that were set before.
    pub fn fail_applies(&self, calls: usize, fault: Fault) {
        self.kept().writes.extend(std::iter::repeat_n(fault, calls));
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        let mut kept = self.kept();
        kept.reads.clear();
        kept.writes.clear();
    }

    /// A copy of all records.
    #[must_use]
    pub fn records(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.kept().records.clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out `work` on what is kept, unless the next fault that writes refuses it.
    fn write(&self, doing: &str, work: impl FnOnce(&mut Kept)) -> Result<(), BackendError> {
        let mut kept = self.kept();
        let fault = kept.writes.pop_front();
        if !matches!(fault, Some(Fault::Refused(_))) {
            work(&mut kept);
        }
        failed(doing, fault)
    }
}

/// The error of a fault.
fn failed(doing: &str, fault: Option<Fault>) -> Result<(), BackendError> {
    let failure = match fault {
        None => return Ok(()),
        Some(Fault::Refused(failure)) => failure,
        Some(Fault::CarriedOut) => Failure::Unknown,
    };
    Err(error(NAME, failure, format!("cannot {doing}: a test made it fail as {failure:?}")))
}

impl Backend for MemoryBackend {
    fn name(&self) -> &str {
        NAME
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        check_key(NAME, key)?;
        let mut kept = self.kept();
        let fault = kept.reads.pop_front();
        failed("read a key", fault)?;
        let record = kept.records.get(key);
        into.extend(record.into_iter().flatten());
        Ok(record.is_some())
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        changes.iter().try_for_each(|change| check_key(NAME, change.key()))?;
        self.write("write changes", |kept| {
            for change in changes {
                match change {
                    Change::Put { key, record } => {
                        kept.records.insert(key.to_vec(), record.to_vec());
                    }
                    Change::Delete { key } => {
                        kept.records.remove(*key);
                    }
                }
            }
        })
    }

    fn show(&self, see: &mut See<'_>) -> Result<bool, BackendError> {
        let _ = self.records().iter().all(|(key, record)| see(key, Ok(record)));
        Ok(true)
    }

    fn is_atomic(&self) -> bool {
        true
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let mut kept = self.kept();
        let fault = kept.reads.pop_front();
        failed("read a note", fault)?;
        Ok(kept.notes.get(name).cloned())
    }

    fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        self.write("write a note", |kept| {
            kept.notes.insert(name.to_owned(), bytes.to_vec());
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: [Change<'_>; 1] = [Change::Put { key: b"k", record: b"v" }];

    #[test]
    fn an_apply_fails_as_the_test_says_and_is_carried_out_as_it_says() {
        let cases = [
            (Fault::Refused(Failure::Transient), Failure::Transient, 0),
            (Fault::Refused(Failure::Full), Failure::Full, 0),
            (Fault::Refused(Failure::Permanent), Failure::Permanent, 0),
            (Fault::Refused(Failure::Corrupt), Failure::Corrupt, 0),
            (Fault::Refused(Failure::Unknown), Failure::Unknown, 0),
            (Fault::CarriedOut, Failure::Unknown, 1),
        ];
        for (fault, failure, records) in cases {
            let backend = MemoryBackend::new();
            backend.fail_applies(2, fault);
            let refused = backend.apply(&CHANGE).unwrap_err();
            assert_eq!((refused.failure, backend.records().len()), (failure, records));
            assert!(refused.what.contains(&format!("fail as {failure:?}")), "{refused}");
            assert_eq!(backend.set_note("n", b"x").unwrap_err().failure, failure);
            assert_eq!(backend.note("n").unwrap().is_some(), records == 1);
            backend.apply(&CHANGE).unwrap();
            assert_eq!(backend.records().len(), 1);
        }
    }

    #[test]
    fn gets_fail_as_often_as_the_test_says_and_applies_do_not() {
        let backend = MemoryBackend::new();
        backend.fail_gets(2, Fault::Refused(Failure::Transient));
        backend.fail_gets(9, Fault::CarriedOut);
        backend.apply(&CHANGE).unwrap();
        let mut into = Vec::new();
        assert_eq!(backend.get(b"k", &mut into).unwrap_err().failure, Failure::Transient);
        assert_eq!(backend.note("n").unwrap_err().failure, Failure::Transient);
        assert_eq!(backend.get(b"k", &mut into).unwrap_err().failure, Failure::Unknown);
        backend.clear_faults();
        assert_eq!((backend.get(b"k", &mut into), into.as_slice()), (Ok(true), &b"v"[..]));
    }
}
