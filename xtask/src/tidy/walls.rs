//! The exceptions: rules that wait, and findings that wait for a change that is already planned.
//!
//! This is the only place for them, and both lists may be empty. An entry names every file of the
//! finding that it excuses, and the reason. An entry, or one file of it, that excuses nothing any
//! more is itself a finding, so the list can only shrink.

use super::finding::{Finding, Rule};

/// Rules that judge nothing yet: the code that they are about is being changed.
pub const PENDING: &[Rule] = &[];

/// Findings that wait.
pub const WAITING: &[Wall] = &[];

/// Findings of one rule that wait for one change.
pub struct Wall {
    /// The rule.
    pub rule: Rule,
    /// All files that have a part in the findings.
    pub files: &'static [&'static str],
    /// What they wait for.
    pub reason: &'static str,
}

/// The findings that no entry excuses, and the entries that excuse nothing.
pub fn apply(findings: Vec<Finding>, walls: &[Wall]) -> Vec<Finding> {
    let excuses = |wall: &Wall, finding: &Finding| {
        let mut files = finding.others.iter().chain([&finding.path]);
        wall.rule == finding.rule && files.all(|file| wall.files.contains(&file.as_str()))
    };
    let (excused, mut left): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| walls.iter().any(|wall| excuses(wall, finding)));
    for wall in walls {
        let needed = |file: &str| {
            let mut by = excused.iter().filter(|finding| excuses(wall, finding));
            by.any(|finding| finding.path == file || finding.others.iter().any(|one| one == file))
        };
        for file in wall.files.iter().filter(|file| !needed(file)) {
            let message = format!(
                "{file} waits for \"{}\" and is in order by the rule {:?}: remove it there",
                wall.reason, wall.rule
            );
            left.push(Finding::new(Rule::Waiting, "xtask/src/tidy/walls.rs", 0, message));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_excuses_its_files_and_nothing_else() {
        let cycle = || Finding {
            others: vec!["b.rs".to_owned()],
            ..Finding::new(Rule::Cycle, "a.rs", 1, "a cycle")
        };
        let in_order = "waits for \"x\" and is in order";
        let cases: [(Rule, &'static [&'static str], &[&str]); 5] = [
            (Rule::Cycle, &["a.rs", "b.rs"], &[]),
            (Rule::Cycle, &["a.rs"], &["a cycle", in_order]),
            (Rule::Cycle, &["a.rs", "b.rs", "c.rs"], &[in_order]),
            (Rule::Rooms, &["a.rs", "b.rs"], &["a cycle", in_order, in_order]),
            (Rule::Cycle, &[], &["a cycle"]),
        ];
        for (rule, files, expected) in cases {
            let left = apply(vec![cycle()], &[Wall { rule, files, reason: "x" }]);
            let messages: Vec<&str> = left.iter().map(|finding| finding.message.as_str()).collect();
            assert_eq!(messages.len(), expected.len(), "{files:?}: {messages:?}");
            for (message, expected) in messages.iter().zip(expected) {
                assert!(message.contains(expected), "{files:?}: {message}");
            }
        }
    }
}
