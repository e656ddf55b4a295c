//! `ctl log`: how the map has changed, and why, from the memory of every cell.
//!
//! A cell remembers the latest changes since its start. One that was absent got a whole map then,
//! and knows no single changes: what other cells know of these is shown instead.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;

use serde_json::json;

use super::client::Client;
use super::report::{Unreadable, parse};
use super::style::{Style, Tone};
use super::survey::Survey;
use super::table::Table;
use super::time::date;
use super::wanted::Wanted;

/// A change, as a cell remembers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Change {
    before: u64,
    version: u64,
    /// When it came; 0 if that was before the start of the cell.
    time_s: u64,
    cause: String,
    lines: Vec<String>,
}

/// Prints the latest changes, at most `limit` if that is not zero.
pub(super) fn print(
    survey: &Survey,
    limit: usize,
    wanted: &Wanted,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let mut all = Vec::new();
    for (id, asked, _) in survey.answers() {
        let report = Client::connect(&asked.at, wanted.timeout)
            .and_then(|mut client| client.stats("ring log"));
        match report {
            Ok(report) => all.extend(read(&report)?),
            Err(error) => eprintln!("volvox: cell {id} does not show its changes: {error}"),
        }
    }
    let changes = merge(all);
    let latest = latest(&changes, limit);
    if wanted.json {
        for Change { before, version, time_s, cause, lines } in latest {
            let time_s = (*time_s != 0).then_some(time_s);
            let line = json!({
                "map_version": version,
                "before": before,
                "time_s": time_s,
                "cause": cause,
                "changes": lines,
            });
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    write!(out, "{}", table(latest).render(style))?;
    Ok(())
}

fn latest(changes: &[Change], limit: usize) -> &[Change] {
    let limit = if limit == 0 { usize::MAX } else { limit };
    &changes[changes.len().saturating_sub(limit)..]
}

/// Reads `stats ring log`.
fn read(report: &[(String, String)]) -> Result<Vec<Change>, Unreadable> {
    let mut changes: Vec<Change> = Vec::new();
    for (name, value) in report {
        let ["map", version, of] = name.split(':').collect::<Vec<_>>()[..] else { continue };
        if of == "before" {
            changes.push(Change { version: parse(name, version)?, ..Change::default() });
        }
        let Some(change) = changes.last_mut() else { continue };
        match of {
            "before" => change.before = parse(name, value)?,
            "time" => change.time_s = parse(name, value)?,
            "cause" => change.cause = value.clone(),
            _ => change.lines.push(value.clone()),
        }
    }
    Ok(changes)
}

/// Each change once, in the order of the maps: of several that say the same, the earliest. One that
/// covers several maps is left out where there is one for each of them.
fn merge(mut all: Vec<Change>) -> Vec<Change> {
    let span = |change: &Change| change.version.saturating_sub(change.before);
    all.sort_by_key(|change| (span(change), change.time_s == 0, change.time_s));
    let mut chosen: BTreeMap<(u64, u64), Change> = BTreeMap::new();
    for change in all {
        let inside = chosen.range((change.before, u64::MAX)..=(change.version, u64::MAX));
        let covered = inside.map(|(_, it)| it.version - it.before.max(change.before));
        if covered.sum::<u64>() < span(&change) {
            chosen.insert((change.version, change.before), change);
        }
    }
    chosen.into_values().collect()
}

fn table(changes: &[Change]) -> Table {
    let mut table = Table::new(&["time (UTC)", ">map", "cause", "change"]);
    let plain = |text: String| (text, Tone::Plain);
    for change in changes {
        let time = match change.time_s {
            0 => "earlier".to_owned(),
            time_s => date(time_s),
        };
        let mut first = [time, change.version.to_string(), change.cause.clone()];
        let lines = if change.lines.is_empty() { &[String::new()][..] } else { &change.lines };
        for line in lines {
            let cells = std::mem::take(&mut first).into_iter().map(plain);
            let tone = if line.contains("is lost") { Tone::Bad } else { Tone::Plain };
            table.row(cells.chain([(line.clone(), tone)]).collect());
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::map::tests::report;
    use super::*;

    #[test]
    fn the_finest_and_earliest_of_all_cells_is_shown() {
        let first = report(
            "map:2:before 0\nmap:2:time 0\nmap:2:cause all that followed map 0\nmap:2:1 x
             map:3:before 2\nmap:3:time 1800000007\nmap:3:cause cell 2 finds: cell 3 is silent
             map:3:1 range 2: cell 3 is no longer a copy\nmap:3:2 range 2: 1 copy left of 2",
        );
        let second = report(
            "map:1:before 0\nmap:1:time 1800000001\nmap:1:cause a cell asks to join
             map:1:1 cell 1 has joined\nmap:2:before 1\nmap:2:time 1800000002
             map:2:cause a cell asks to join\nmap:2:1 cell 2 has joined
             map:3:before 2\nmap:3:time 1800000006\nmap:3:cause cell 2 finds: cell 3 is silent
             map:3:1 range 2: cell 3 is no longer a copy\nmap:3:2 range 2: 1 copy left of 2",
        );
        let all = [first, second].iter().flat_map(|it| read(it).expect("readable")).collect();
        let merged = merge(all);
        let seen: Vec<_> =
            merged.iter().map(|it| (it.before, it.version, it.time_s - 1_800_000_000)).collect();
        assert_eq!(seen, [(0, 1, 1), (1, 2, 2), (2, 3, 6)]);
        assert_eq!([0, 1, 2, 3, 4].map(|limit| latest(&merged, limit).len()), [3, 1, 2, 3, 3]);
        let expected = "\
time (UTC)           map  cause                           change
2027-01-15 08:00:01    1  a cell asks to join             cell 1 has joined
2027-01-15 08:00:02    2  a cell asks to join             cell 2 has joined
2027-01-15 08:00:06    3  cell 2 finds: cell 3 is silent  range 2: cell 3 is no longer a copy
                                                          range 2: 1 copy left of 2
";
        assert_eq!(table(&merged).render(Style::default()), expected);
    }
}
