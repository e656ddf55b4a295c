//! `ctl restart`: one cell after the other is emptied, begins again with the program that stands in
//! the place of its own, and takes its place again. No client of another cell sees an error.
//!
//! It stops at the first fault, and says how to go on.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Client, NoAnswer};
use super::hint;
use super::interrupt::Interrupt;
use super::leaving;
use super::map::Map;
use super::progress::Shown;
use super::survey::Survey;
use super::wanted::{Leave, Restart, Wanted};
use super::watched::Watched;

/// How often it is looked how far a cell is.
const LOOK: Duration = Duration::from_millis(20);

/// Restarts cells, and says of each how long it took.
pub(super) fn restart(
    restart: &Restart,
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let survey = Survey::take(&wanted.servers, wanted.timeout)?;
    let cells = chosen(&survey, &restart.cells)?;
    let (mut shown, interrupt) = (Shown::default(), Interrupt::watch()?);
    for (nth, cell) in cells.iter().enumerate() {
        let start = Instant::now();
        shown.show(&format!("cell {cell}: {} of {}", nth + 1, cells.len()));
        let restarted = one(*cell, restart, wanted, &interrupt);
        shown.show("");
        if let Err(error) = restarted {
            let rest: Vec<_> = cells[nth..].iter().map(u32::to_string).collect();
            let force = if restart.is_forced { " --force" } else { "" };
            let rest = rest.join(" ");
            let ctl = hint::ctl();
            return Err(format!("{error}; {ctl} restart{force} {rest} goes on").into());
        }
        let seconds = start.elapsed().as_secs_f64();
        match wanted.json {
            true => writeln!(out, "{}", json!({ "cell": cell, "seconds": seconds }))?,
            false => writeln!(out, "cell {cell} has started again, after {seconds:.1} s")?,
        }
        out.flush()?;
    }
    Ok(0)
}

/// The cells that are to start again: those that are named, or all.
fn chosen(survey: &Survey, named: &[u32]) -> Result<Vec<u32>, String> {
    let cells = || survey.map.cells.iter().filter(|(_, cell)| !cell.is_witness);
    let all: Vec<_> = cells().map(|(id, _)| *id).collect();
    if let Some(other) = named.iter().find(|cell| !all.contains(cell)) {
        return Err(format!("cell {other}: the ring has none; see ctl ring"));
    }
    // Those that were absorbed, or emptied and ended, are to stay away.
    let stays = |cell: &u32| match survey.map.cells[cell].leaves.as_deref() {
        None => true,
        Some(how) => how != "absorbed" && survey.cells[cell].answer.is_ok(),
    };
    let mut chosen = if named.is_empty() { all } else { named.to_vec() };
    let mut seen = BTreeSet::new();
    chosen.retain(|cell| (!named.is_empty() || stays(cell)) && seen.insert(*cell));
    let silent = chosen.iter().find(|cell| survey.cells[cell].answer.is_err());
    match silent {
        Some(cell) => {
            Err(format!("cell {cell} does not answer: name those that are to start again"))
        }
        None => Ok(chosen),
    }
}

/// Empties `cell`, has it begin again, and waits until it has its place again.
fn one(
    cell: u32,
    restart: &Restart,
    wanted: &Wanted,
    interrupt: &Interrupt,
) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let survey = Survey::take(&wanted.servers, wanted.timeout)?;
    let asked = survey.cells.get(&cell).ok_or("the ring has no such cell")?;
    let start = survey.map.cells[&cell].start;
    let mut client = Client::connect(&asked.at, wanted.timeout)
        .map_err(|error| format!("cell {cell}: {error}"))?;
    let settings = client.stats("settings")?;
    let may_end = |(name, value): &(String, String)| name == "shutdown_command" && value == "yes";
    if !settings.iter().any(may_end) {
        return Err(format!("cell {cell}: set protocol.allow_shutdown").into());
    }
    let wait = restart.wait;
    if restart.is_forced {
        has_copies(&survey.map, cell)?;
    } else {
        let leave = Leave { cell, is_absorbed: false, is_forced: false, is_undone: false, wait };
        leaving::carry_out(&survey, &leave, wanted, interrupt)?;
    }
    client.send(&format!("stats ring restart {start}"))?;
    match client.next_line()?.as_str() {
        "OK" => {}
        line => {
            let what = match restart.is_forced {
                true => String::new(),
                false => {
                    format!("; it is drained: {} drain {cell} --undo has it stay", hint::ctl())
                }
            };
            return Err(format!("cell {cell}: {line}{what}").into());
        }
    }
    let mut ring = Watched::new(&survey, Some(cell), wanted);
    loop {
        let map = ring.map()?;
        let Some(missing) = missing(&map, cell, start) else { break };
        if begin.elapsed() >= wait || interrupt.has_come() {
            let seconds = begin.elapsed().as_secs_f64();
            return Err(format!("cell {cell}: {missing}, after {seconds:.1} s").into());
        }
        sleep(LOOK);
    }
    match Client::connect(&asked.at, wanted.timeout).and_then(|mut it| it.stats("ring")) {
        Ok(_) => Ok(()),
        Err(NoAnswer::Line(line)) => Err(format!("cell {cell}: {line}").into()),
        Err(error) => Err(error.into()),
    }
}

/// Refuses where `cell` alone has a range: it may begin again without being emptied.
fn has_copies(map: &Map, cell: u32) -> Result<(), String> {
    let is_alone = |range: &&super::map::Range| range.in_sync().all(|it| it == cell);
    match map.ranges.iter().find(is_alone) {
        Some(range) => {
            Err(format!("cell {cell}: it alone has range {}, which would be lost", range.id))
        }
        None => Ok(()),
    }
}

/// What is missing until `cell`, which had this `start`, has its place again.
fn missing(map: &Map, cell: u32, start: u64) -> Option<String> {
    let known = map.cells.get(&cell);
    if known.is_none_or(|it| it.start <= start || it.is_heard == Some(false)) {
        return Some("it has not started again".to_owned());
    }
    let is_away = |range: &&super::map::Range| range.home == Some(cell);
    if let Some(range) = map.ranges.iter().find(is_away) {
        return Some(format!("range {} has not come back to it", range.id));
    }
    map.healing().map(|range| format!("range {} lacks a copy", range.id))
}

#[cfg(test)]
mod tests {
    use super::super::map::{Member, Range};
    use super::*;

    #[test]
    fn a_cell_has_its_place_again_once_its_ranges_are_back_and_none_lacks_a_copy() {
        let cells = [1, 2].map(|cell| (cell, Member { start: 3, ..Member::default() })).into();
        let range = |id, copies: &[u32]| Range {
            id,
            primary: 1,
            copies: copies.to_vec(),
            ..Range::default()
        };
        let mut map = Map {
            copies_wanted: 2,
            cells,
            ranges: vec![range(1, &[2]), range(2, &[])],
            ..Map::default()
        };
        map.ranges[0].home = Some(2);
        assert_eq!(missing(&map, 2, 3).as_deref(), Some("it has not started again"));
        assert_eq!(missing(&map, 2, 2).as_deref(), Some("range 1 has not come back to it"));
        map.ranges[0].home = Some(1);
        assert_eq!(missing(&map, 2, 2).as_deref(), Some("range 2 lacks a copy"));
        map.ranges[1].copies.push(2);
        assert_eq!(missing(&map, 2, 2), None);
        map.cells.get_mut(&2).expect("it is there").is_heard = Some(false);
        assert!(missing(&map, 2, 2).is_some());
    }
}
