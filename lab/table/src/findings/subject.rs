//! What a report is about: the form, the day, the programs and the machine.
//!
//! It stands in the plan file of the folder. All but the day must be the same for findings to be
//! compared; [`Subject::key`] is that part.

use std::hash::Hasher as _;

use measure::account::machine::Machine;
use serde::{Deserialize, Serialize};

/// The form, the day, the programs and the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// `quick` or `full`.
    pub form: String,
    /// The day it was begun.
    pub date: String,
    /// Our version.
    pub version: String,
    /// Our binary, by its [`fingerprint`]: builds of one version differ.
    pub build: String,
    /// memcached's name and version, if it is a contestant.
    pub memcached: Option<String>,
    /// What lies below our servers, as `tier.database` has it; nothing if it is `None`.
    #[serde(default)]
    pub database: Option<String>,
    /// The machine of the measurements.
    pub machine: Machine,
}

impl Subject {
    /// What must be the same in all findings of one table.
    pub fn key(&self) -> (&str, &str, &str, [Option<&str>; 2], String) {
        let Self { form, date: _, version, build, memcached, database, machine } = self;
        (form, version, build, [memcached.as_deref(), database.as_deref()], machine.line())
    }
}

/// A hash of a binary. Another compiler may hash differently, so only the same binary compares it.
pub(crate) fn fingerprint(binary: &[u8]) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(binary);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A subject of a form, and defaults for the rest.
    pub fn subject(form: &str) -> Subject {
        let text = |word: &str| word.to_string();
        Subject {
            form: text(form),
            date: text("2026-01-02"),
            version: text("0.1.0"),
            build: fingerprint(b"volvox"),
            memcached: None,
            database: None,
            machine: Machine { processor: text("X & Y"), ..Machine::default() },
        }
    }

    #[test]
    fn another_build_or_memcached_is_another_subject_and_another_day_is_not() {
        let own = subject("quick");
        assert_eq!(Subject { date: "2026-01-03".to_string(), ..own.clone() }.key(), own.key());
        for other in [
            subject("full"),
            Subject { build: fingerprint(b"volvoy"), ..own.clone() },
            Subject { memcached: Some("memcached 1.6.45".to_string()), ..own.clone() },
            Subject { database: Some("redb".to_string()), ..own.clone() },
        ] {
            assert_ne!(other.key(), own.key());
        }
    }
}
