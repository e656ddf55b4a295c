//! What a report is a report of.

use std::hash::Hasher as _;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Form, day, programs and machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// `quick` or `full`.
    pub form: String,
    /// The day it was begun.
    pub date: String,
    /// Our version.
    pub version: String,
    /// Our binary, by [`fingerprint`]: builds of one version differ.
    pub build: String,
    /// What memcached says it is, where it takes part.
    pub memcached: Option<String>,
    /// Where it is measured.
    pub machine: Machine,
}

impl Subject {
    /// What must be the same for findings to stand in one table.
    pub fn key(&self) -> (&str, &str, &str, Option<&str>, String) {
        let Self { form, date: _, version, build, memcached, machine } = self;
        (form, version, build, memcached.as_deref(), machine.line())
    }
}

/// A name for the bytes of a binary: of use only to that binary itself.
pub(crate) fn fingerprint(binary: &[u8]) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(binary);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A subject of a form, with nothing else said.
    pub fn subject(form: &str) -> Subject {
        let text = |word: &str| word.to_string();
        Subject {
            form: text(form),
            date: text("2026-01-02"),
            version: text("0.1.0"),
            build: fingerprint(b"volvox"),
            memcached: None,
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
        ] {
            assert_ne!(other.key(), own.key());
        }
    }
}
