//! A table of allowed arrows in a page, and its comparison with the arrows that exist.
//!
//! The first column names who uses, the second whom it may use, in backquotes or bare: `*` for
//! all, `nothing` for none. The page of the crates and the opening of each `lib.rs` hold such
//! tables. Both ways count: an arrow that no row allows and a row without its arrow.

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};

/// Whom each one uses, and the file and line where that shows.
pub type Uses = BTreeMap<String, BTreeMap<String, (String, usize)>>;

/// A row of the table.
pub struct Row {
    line: usize,
    name: String,
    may: Vec<String>,
}

/// Reads the first table whose first column is headed by `heading`; no rows without one.
pub fn read(page: &str, heading: &str) -> Vec<Row> {
    let lines = page.lines().enumerate();
    let cells = lines.map(|(at, line)| (at + 1, cells(line.trim_start_matches("//!").trim())));
    let mut table = cells.skip_while(|(_, cells)| cells.first() != Some(&heading.to_owned()));
    table.next();
    let rows = table.skip(1).take_while(|(_, cells)| cells.len() > 1).map(|(line, cells)| {
        let may = cells[1].split(',').map(bare).filter(|name| name != "nothing").collect();
        Row { line, name: cells[0].clone(), may }
    });
    rows.collect()
}

fn cells(line: &str) -> Vec<String> {
    let row = line.strip_prefix('|').and_then(|row| row.strip_suffix('|'));
    row.map_or_else(Vec::new, |row| row.split('|').map(bare).collect())
}

fn bare(text: &str) -> String {
    text.trim().trim_matches('`').to_owned()
}

/// Where the table of `page` and the arrows that exist do not agree.
pub fn compare(rule: Rule, page: &str, rows: &[Row], uses: &Uses) -> Vec<Finding> {
    let mut wrong = Vec::new();
    let mut find = |path: &str, line, what| wrong.push(Finding::new(rule, path, line, what));
    for (name, used) in uses {
        let Some(row) = rows.iter().find(|row| row.name == *name) else {
            find(page, 0, format!("{name} has no row in the table: add {}", written(name, used)));
            continue;
        };
        let allowed = |to: &str| row.may.iter().any(|may| may == to || may == "*");
        for (to, (path, line)) in used.iter().filter(|(to, _)| !allowed(to)) {
            let remedy = format!("turn the arrow round, move the code, or add {to} in {page}");
            let may = row.may.join(", ");
            find(path, *line, format!("{name} uses {to}, but may use only [{may}]: {remedy}"));
        }
        for to in row.may.iter().filter(|to| *to != "*" && !used.contains_key(*to)) {
            find(page, row.line, format!("{name} may use {to} and does not: remove {to}"));
        }
    }
    for row in rows.iter().filter(|row| !uses.contains_key(&row.name)) {
        find(page, row.line, format!("{} does not exist: remove the row", row.name));
    }
    wrong
}

/// The row that would allow what exists.
fn written(name: &str, used: &BTreeMap<String, (String, usize)>) -> String {
    let used: Vec<String> = used.keys().map(|to| format!("`{to}`")).collect();
    let used = if used.is_empty() { "nothing".to_owned() } else { used.join(", ") };
    format!("| `{name}` | {used} | |")
}
