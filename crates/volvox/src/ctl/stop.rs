//! `ctl stop CELL`: a cell ends, if the others can do without it.
//!
//! Nothing is handed over before: its ranges are led by their copies when it has ended, as after a
//! crash. So it is refused where that would lose items, evict, or leave too few voters.

use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Client, NoAnswer};
use super::loss::losses;
use super::map::Map;
use super::ring::verdict;
use super::survey::Survey;
use super::table::numbers;
use super::wanted::Wanted;

/// How long the cell may take to end, and the others to copy what it had.
const ENDING: Duration = Duration::from_secs(10);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);

/// Stops `cell`: at once if `is_certain`, otherwise if nothing speaks against it. The code is 1 if
/// ranges lack copies in the end.
pub(super) fn stop(
    survey: &Survey,
    (cell, is_certain): (u32, bool),
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let asked = survey.cells.get(&cell);
    let asked = asked.ok_or_else(|| format!("cell {cell}: the ring has none; see ctl ring"))?;
    if let Err(reason) = &asked.answer {
        return Err(format!("cell {cell} does not answer: {reason}").into());
    }
    let other = survey.answers().find(|(id, ..)| *id != cell);
    let (_, other, _) = other.ok_or("no other cell answers: end the process itself")?;
    if let Some(reason) = obstacle(survey, cell).filter(|_| !is_certain) {
        return Err(format!("cell {cell} is not stopped: {reason}; --yes stops it").into());
    }
    let mut client = Client::connect(&asked.at, wanted.timeout)?;
    client.send("shutdown")?;
    match client.next_line() {
        Err(NoAnswer::Closed) => {}
        Err(error) => return Err(error.into()),
        Ok(line) => return Err(format!("cell {cell}: {line}; set protocol.allow_shutdown").into()),
    }
    let left = survey.answers().filter(|(id, ..)| *id != cell).count();
    let short = wait((cell, left), &other.at, wanted)?;
    let are_few = left < survey.map.copies_wanted;
    writeln!(out, "{}", ended((cell, are_few), &short, wanted.json))?;
    Ok(u8::from(!short.is_empty()))
}

/// That `cell` has ended, and which ranges are `short` of copies that they could have then.
/// `are_few`: fewer cells are left than a range should have copies.
fn ended((cell, are_few): (u32, bool), short: &[u32], as_json: bool) -> String {
    if as_json {
        return json!({ "cell": cell, "lacks_copies": short }).to_string();
    }
    match numbers(short.iter().copied()).as_str() {
        "-" if are_few => format!("cell {cell} has ended; every other cell has all ranges"),
        "-" => format!("cell {cell} has ended; every range has its copies"),
        short => format!("cell {cell} has ended; these ranges lack copies: {short}"),
    }
}

/// What speaks against the end of `cell`.
fn obstacle(survey: &Survey, cell: u32) -> Option<String> {
    let follows = losses(survey).remove(&cell)?;
    let is_free = follows.lost.is_empty() && follows.lacks.is_empty();
    (!is_free || follows.few_voters.is_some()).then(|| verdict(&follows).0)
}

/// Waits until no range has `cell`, and each has the copies that it can have on the cells that are
/// `left`. The ranges that lack some.
fn wait(
    (cell, left): (u32, usize),
    other: &str,
    wanted: &Wanted,
) -> Result<Vec<u32>, Box<dyn Error>> {
    let start = Instant::now();
    let mut client = Client::connect(other, wanted.timeout)?;
    loop {
        let map = Map::parse(&client.stats("ring")?)?;
        let has = map.ranges.iter().any(|range| range.in_sync().any(|it| it == cell));
        let short = map.short().filter(|range| range.in_sync().count() < left);
        let short: Vec<_> = short.map(|range| range.id).collect();
        if (!has && short.is_empty()) || start.elapsed() >= ENDING {
            let what = "it has ended, and the others still count it: see ctl ring";
            return if has { Err(format!("cell {cell}: {what}").into()) } else { Ok(short) };
        }
        sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::super::map::tests::two_of_three;
    use super::super::survey::{Answer, Asked, Memory};
    use super::*;

    #[test]
    fn the_end_of_a_cell_is_one_object_of_json() {
        let ended = |are_few, short: &[u32], as_json| ended((4, are_few), short, as_json);
        assert_eq!(ended(false, &[], true), r#"{"cell":4,"lacks_copies":[]}"#);
        assert_eq!(ended(false, &[1, 2], true), r#"{"cell":4,"lacks_copies":[1,2]}"#);
        assert_eq!(ended(false, &[], false), "cell 4 has ended; every range has its copies");
        let few = "cell 4 has ended; every other cell has all ranges";
        assert_eq!(ended(true, &[], false), few);
        let lacks = "cell 4 has ended; these ranges lack copies: 1,2";
        assert_eq!(ended(false, &[1, 2], false), lacks);
    }

    #[test]
    fn what_would_cost_items_or_agreement_is_an_obstacle() {
        let map = Map::parse(&two_of_three()).expect("it can be read");
        let asked = |id| {
            let memory = Memory { limit: 1 << 20, ..Memory::default() };
            let answer = Answer { map: map.clone(), memory, time_s: 0, evictions: 0 };
            (id, Asked { at: String::new(), answer: Ok(answer) })
        };
        let mut survey = Survey { map: map.clone(), cells: [2, 3].map(asked).into() };
        let reason = |survey: &Survey, cell| obstacle(survey, cell).unwrap_or_default();
        assert_eq!(reason(&survey, 2), "items of range 1 are lost");
        assert_eq!(reason(&survey, 3), "1 voter of 3 would be left: the map could not change");
        survey.map.voters = vec![2];
        assert_eq!(reason(&survey, 3), "");
    }
}
