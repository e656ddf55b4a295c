//! A table of allowed arrows in a page, and its comparison with the arrows that exist.
//!
//! The first column names who uses, the second whom it may use, in backquotes or bare: `*` for
//! all, `nothing` for none. The page of the crates and the opening of each `lib.rs` hold such
//! tables. Both ways count: an arrow that no row allows and a row without its arrow.

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};

/// Whom each one uses, and the file and line where that shows.
pub type Uses = BTreeMap<String, BTreeMap<String, (String, usize)>>;

/// Where the first table of `text` whose first column is headed by `heading` and the arrows that
/// exist do not agree.
pub fn compare(rule: Rule, page: &str, text: &str, heading: &str, uses: &Uses) -> Vec<Finding> {
    let rows: BTreeMap<String, (usize, Vec<String>)> = read(text, heading).collect();
    let mut wrong = Vec::new();
    let mut find = |path: &str, line, what| wrong.push(Finding::new(rule, path, line, what));
    for (name, used) in uses {
        let Some((row, may)) = rows.get(name) else {
            find(page, 0, format!("{name} has no row in the table: add {}", written(name, used)));
            continue;
        };
        let allowed = |to: &str| may.iter().any(|may| may == to || may == "*");
        for (to, (path, line)) in used.iter().filter(|(to, _)| !allowed(to)) {
            let remedy = format!("turn the arrow round, move the code, or add {to} in {page}");
            let may = may.join(", ");
            find(path, *line, format!("{name} uses {to}, but may use only [{may}]: {remedy}"));
        }
        for to in may.iter().filter(|to| *to != "*" && !used.contains_key(*to)) {
            find(page, *row, format!("{name} may use {to} and does not: remove {to}"));
        }
    }
    for (name, (row, _)) in rows.iter().filter(|(name, _)| !uses.contains_key(*name)) {
        find(page, *row, format!("{name} does not exist: remove the row"));
    }
    wrong
}

/// Whether `text` has a table whose first column is headed by `heading`.
pub fn exists(text: &str, heading: &str) -> bool {
    read(text, heading).next().is_some()
}

/// The rows of a table: a name, its line, and whom it may use.
fn read(text: &str, heading: &str) -> impl Iterator<Item = (String, (usize, Vec<String>))> {
    let bare = |text: &str| text.trim().trim_matches('`').to_owned();
    let cells = move |line: &str| -> Vec<String> {
        let line = line.trim_start_matches("//!").trim();
        let row = line.strip_prefix('|').and_then(|row| row.strip_suffix('|'));
        row.into_iter().flat_map(|row| row.split('|')).map(bare).collect()
    };
    let lines = text.lines().enumerate().map(move |(at, line)| (at + 1, cells(line)));
    let mut table =
        lines.skip_while(move |(_, cells)| cells.first().is_none_or(|it| it != heading));
    table.next();
    table.skip(1).take_while(|(_, cells)| cells.len() > 1).map(move |(line, cells)| {
        let may = cells[1].split(',').map(bare).filter(|name| name != "nothing").collect();
        (cells[0].clone(), (line, may))
    })
}

/// The row that would allow what exists.
fn written(name: &str, used: &BTreeMap<String, (String, usize)>) -> String {
    let used: Vec<String> = used.keys().map(|to| format!("`{to}`")).collect();
    let used = if used.is_empty() { "nothing".to_owned() } else { used.join(", ") };
    format!("| `{name}` | {used} | |")
}
