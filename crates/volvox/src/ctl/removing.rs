//! `ctl remove CELL`: a cell that has ended, and will not return, is in the ring no more.
//!
//! It must have no part in any range, and no vote: `ctl absorb` ends the one, and the cells that
//! run see to the other. The map forgets it then, and its number is not used again.

use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::hint;
use super::interrupt::Interrupt;
use super::map::Map;
use super::moving::ASK;
use super::progress::Shown;
use super::survey::Survey;
use super::table::numbers;
use super::wanted::Wanted;
use super::watched::Watched;

/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_millis(50);
/// How long a cell may be heard still that has ended a moment ago.
const ENDING: Duration = Duration::from_secs(2);

/// Has the ring forget a cell, and waits for that.
pub(super) fn remove(
    survey: &Survey,
    (cell, longest): (u32, Duration),
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let known = survey.map.cells.get(&cell);
    let start = known.ok_or_else(|| format!("cell {cell}: the ring has none; see ctl ring"))?.start;
    let (mut ring, interrupt) = (Watched::new(survey, Some(cell), wanted), Interrupt::watch()?);
    let (begin, mut asked_at, mut shown) = (Instant::now(), None::<Instant>, Shown::default());
    loop {
        let map = ring.map()?;
        if !map.cells.contains_key(&cell) {
            shown.show("");
            let seconds = begin.elapsed().as_secs_f64();
            let text = match wanted.json {
                true => json!({ "cell": cell, "removed": true, "seconds": seconds }).to_string(),
                false => format!("cell {cell} is removed from the ring"),
            };
            writeln!(out, "{text}")?;
            return Ok(0);
        }
        let obstacle = obstacle(&map, cell, start);
        let text = match &obstacle {
            Some((why, _)) => format!("cell {cell}: {why}"),
            None => format!("cell {cell}: the map has it still"),
        };
        shown.show(&text);
        let longest = obstacle.as_ref().map_or(longest, |(_, passes)| longest.min(*passes));
        if begin.elapsed() >= longest || interrupt.has_come() {
            shown.show("");
            return Err(text.into());
        }
        if obstacle.is_none() && asked_at.is_none_or(|at| at.elapsed() >= ASK) {
            ring.order(&format!("remove {cell} {start}"))?;
            asked_at = Some(Instant::now());
        }
        sleep(LOOK);
    }
}

/// Why the ring cannot forget `cell`, and after how long that does not pass any more.
fn obstacle(map: &Map, cell: u32, start: u64) -> Option<(String, Duration)> {
    let (member, ctl) = (map.cells.get(&cell)?, hint::ctl());
    if member.start != start {
        let what = "it has started again, and stays in the ring".to_owned();
        return Some((what, Duration::ZERO));
    }
    if member.is_heard != Some(false) {
        let first = match member.is_witness {
            true => "end its process first".to_owned(),
            false => format!("{ctl} absorb {cell} && {ctl} stop {cell} first"),
        };
        return Some((format!("it runs: {first}"), ENDING));
    }
    let to_come = |it: &super::map::Range| {
        let others = [it.moves_to, it.leaves, it.home, it.divides.map(|(_, cell)| cell)];
        it.has(cell) || others.contains(&Some(cell))
    };
    let ranges = map.ranges.iter().filter(|range| to_come(range)).map(|range| range.id);
    match numbers(ranges).as_str() {
        "-" => {}
        of => {
            let what = format!("it has a part in these ranges, or they go back to it: {of}");
            return Some((format!("{what}; {ctl} absorb {cell} first"), Duration::ZERO));
        }
    }
    if map.voters.contains(&cell) {
        let what = "it has a vote, which another cell is to take over".to_owned();
        return Some((what, Duration::MAX));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::map::tests::two_of_three;
    use super::*;

    #[test]
    fn only_a_cell_that_has_ended_and_has_nothing_is_removed() {
        let mut map = Map::parse(&two_of_three()).expect("it can be read");
        let start = |map: &Map, cell| map.cells[&cell].start;
        let says = |map: &Map, cell: u32| obstacle(map, cell, start(map, cell));
        let has = |map: &Map, cell: u32, what: &str, passes| {
            let (why, until) = says(map, cell).expect(what);
            assert!(why.contains(what) && until == passes, "{why}");
        };
        assert!(obstacle(&map, 1, 99).is_some_and(|(why, _)| why.contains("started again")));
        has(&map, 2, "it runs: volvox ctl absorb 2 && volvox ctl stop 2 first", ENDING);
        map.ranges[0].copies.push(1);
        has(&map, 1, "volvox ctl absorb 1 first", Duration::ZERO);
        for range in &mut map.ranges {
            range.copies.retain(|cell| *cell != 1);
            (range.primary, range.home) = (2, Some(1));
        }
        has(&map, 1, "go back to it", Duration::ZERO);
        map.ranges.iter_mut().for_each(|range| range.home = None);
        has(&map, 1, "has a vote", Duration::MAX);
        map.voters = vec![2];
        assert_eq!(says(&map, 1), None);
    }
}
