//! `tidy.allow`: what is excused, and why.
//!
//! One entry a line, `rule | path | measured | reason`, `#` for comments. Where a rule measures,
//! the entry holds the measure and may only shrink: more is a finding, less asks to lower the
//! entry. An entry that excuses nothing is a finding.

use super::{ALLOW, Finding, Rule};

/// One excused fault.
struct Entry {
    line: usize,
    rule: Rule,
    path: String,
    measured: Option<usize>,
    used: bool,
}

/// The findings that are left, and those about the list itself.
pub fn apply(text: &str, findings: Vec<Finding>) -> Vec<Finding> {
    let (mut entries, mut left) = parse(text);
    for finding in findings {
        let matches = |entry: &&mut Entry| entry.rule == finding.rule && entry.path == finding.path;
        match entries.iter_mut().find(matches) {
            None => left.push(finding),
            Some(entry) => {
                entry.used = true;
                left.extend(judge(entry, finding));
            }
        }
    }
    for entry in entries.iter().filter(|entry| !entry.used) {
        let message =
            format!("{} is not at fault by {}: remove the entry", entry.path, entry.rule.name());
        left.push(Finding::line(Rule::Allow, ALLOW, entry.line, message));
    }
    left
}

fn judge(entry: &Entry, finding: Finding) -> Option<Finding> {
    let (Some(limit), Some(measured)) = (entry.measured, finding.measured) else { return None };
    if measured > limit {
        let message = format!("{} ({ALLOW} excuses {limit})", finding.message);
        return Some(Finding { message, warning: false, ..finding });
    }
    let message = format!("{} has shrunk from {limit} to {measured}: lower the entry", entry.path);
    (measured < limit).then(|| Finding::line(Rule::Allow, ALLOW, entry.line, message))
}

fn parse(text: &str) -> (Vec<Entry>, Vec<Finding>) {
    let mut entries = Vec::new();
    let mut wrong = Vec::new();
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
        match entry(line, text) {
            Ok(entry) => entries.push(entry),
            Err(message) => wrong.push(Finding::line(Rule::Allow, ALLOW, line, message)),
        }
    }
    (entries, wrong)
}

fn entry(line: usize, text: &str) -> Result<Entry, String> {
    let cells: Vec<&str> = text.split('|').map(str::trim).collect();
    let [rule, path, measured, reason] = cells[..] else {
        return Err(format!("`{text}` is not `rule | path | measured or - | reason`"));
    };
    let known = || Rule::ALL.map(Rule::name).join(", ");
    let rule = Rule::ALL.into_iter().find(|known| known.name() == rule);
    let rule = rule.ok_or_else(|| format!("unknown rule in `{text}`: one of {}", known()))?;
    let measured = match measured {
        "-" => None,
        digits => match digits.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                return Err(format!("`{digits}` is no number; `-` where nothing is measured"));
            }
        },
    };
    if reason.is_empty() {
        return Err(format!("`{path}` is excused without a reason"));
    }
    Ok(Entry { line, rule, path: path.to_owned(), measured, used: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(lines: usize) -> Finding {
        Finding { measured: Some(lines), ..Finding::file(Rule::Size, "a.rs", "too long") }
    }

    #[test]
    fn an_entry_excuses_and_may_only_shrink() {
        let cases = [
            ("size | a.rs | 650 | a table", Vec::new()),
            ("size | a.rs | 600 | a table", vec!["too long (tidy.allow excuses 600)"]),
            (
                "size | a.rs | 700 | a table",
                vec!["a.rs has shrunk from 700 to 650: lower the entry"],
            ),
            ("# only a comment", vec!["too long"]),
            (
                "size | b.rs | 650 | x",
                vec!["too long", "b.rs is not at fault by size: remove the entry"],
            ),
        ];
        for (text, expected) in cases {
            let left = apply(text, vec![size(650)]);
            let messages: Vec<&str> = left.iter().map(|finding| finding.message.as_str()).collect();
            assert_eq!(messages, expected, "{text}");
        }
    }

    #[test]
    fn entries_that_cannot_be_read_are_findings() {
        let cases = [
            ("size a.rs", "is not `rule | path"),
            ("sizes | a.rs | - | why", "unknown rule"),
            ("size | a.rs | many | why", "`many` is no number"),
            ("size | a.rs | - |", "without a reason"),
        ];
        for (text, expected) in cases {
            let left = apply(text, Vec::new());
            assert!(left[0].message.contains(expected), "{text}: {}", left[0].message);
        }
    }
}
