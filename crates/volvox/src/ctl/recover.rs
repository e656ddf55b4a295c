//! `ctl recover CELL`: a cell goes on as the only voter, where more than half of the voters are
//! lost for ever.
//!
//! Only an operator can know that. So each step may refuse it: `ctl` if more than half of the
//! voters answer, or if a cell has a newer map; the cell if it has heard more than half of the
//! voters within five seconds, or if the cells agree after all.

use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Client, NoAnswer};
use super::map::{Map, Range};
use super::survey::Survey;
use super::table::{numbers, ranges};
use super::wanted::Wanted;

/// How long it may take, once the other voters count as lost.
const RECOVERING: Duration = Duration::from_secs(10);
/// How often it is looked whether it is done, and asked again.
const LOOK: Duration = Duration::from_millis(500);

/// Makes `cell` the only voter, if `is_certain`. Otherwise says what would be lost; the code is 1
/// then.
pub(super) fn recover(
    survey: &Survey,
    (cell, is_certain): (u32, bool),
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let (at, map) = survivor(survey, cell)?;
    if !is_certain {
        write!(out, "{}", warning(survey, (cell, map), wanted.json))?;
        return Ok(1);
    }
    let now = ask(at, map, wanted)?;
    let text = match wanted.json {
        true => json!({ "cell": cell, "map_version": now.version, "recoveries": now.recoveries })
            .to_string(),
        false => format!("cell {cell} is the only voter, and goes on as map {}", now.version),
    };
    writeln!(out, "{text}")?;
    Ok(0)
}

/// Where `cell` is reached, and its map, if nothing speaks against it.
fn survivor(survey: &Survey, cell: u32) -> Result<(&str, &Map), Box<dyn Error>> {
    let asked = survey.cells.get(&cell);
    let asked = asked.ok_or_else(|| format!("cell {cell}: the ring has none; see ctl ring"))?;
    let answer = asked.answer.as_ref();
    let map = &answer.map_err(|reason| format!("cell {cell} does not answer: {reason}"))?.map;
    if map.version == 0 {
        let what = "has no map to go on from, and no items: start a voter, or, where all are lost \
                    for ever, form a new ring with new directories";
        return Err(format!("cell {cell} {what}").into());
    }
    let (voters, living) = (&survey.map.voters, survey.living_voters());
    if living.len() * 2 > voters.len() {
        let (living, voters) = (numbers(living), numbers(voters.iter().copied()));
        let what = "more than half: nothing is to be recovered";
        return Err(format!("of the voters {voters} answer {living}, {what}").into());
    }
    let newest = survey.answers().max_by_key(|(_, _, answer)| answer.map.version);
    if let Some((other, _, answer)) = newest
        && answer.map.version > map.version
    {
        let (newer, older) = (answer.map.version, map.version);
        let what = format!("cell {other} has map {newer}, cell {cell} only {older}");
        return Err(format!("{what}: recover cell {other}").into());
    }
    Ok((&asked.at, map))
}

/// What would be lost.
fn warning(survey: &Survey, (cell, map): (u32, &Map), as_json: bool) -> String {
    let answers = |id: &u32| survey.answers().any(|(it, ..)| it == *id);
    let living = survey.living_voters();
    let lost = map.voters.iter().copied().filter(|voter| !living.contains(voter));
    let gone = |range: &&Range| !range.in_sync().any(|id| answers(&id));
    let unheld: Vec<_> = map.ranges.iter().filter(gone).map(|range| range.id).collect();
    let version = map.version;
    if as_json {
        let lost: Vec<_> = lost.collect();
        let warning = json!({
            "cell": cell, "recovered": false, "goes_on_from_map": version, "voters_lost": lost,
            "ranges_without_a_cell": unheld,
        });
        return format!("{warning}\n");
    }
    let lost = numbers(lost);
    let mut text = format!(
        "voters that do not answer: {lost}. If cell {cell} is recovered, it goes on from map \
         {version} as the only voter.\n\
         What the lost voters have decided after that map is lost, and a cell that went on by it\n\
         must start again empty. A voter that only cannot be reached would still serve its own\n\
         clients: end its process first. If it returns with its directory, it has no vote, and\n\
         nothing of the items.\n"
    );
    if !unheld.is_empty() {
        let unheld = ranges(&unheld);
        text += &format!("No cell that answers has {unheld}: see ctl forgive, afterwards.\n");
    }
    text + "Then add --yes.\n"
}

/// Asks the cell `at` to go on from `map`, until it does.
fn ask(at: &str, map: &Map, wanted: &Wanted) -> Result<Map, Box<dyn Error>> {
    let (start, lost_after) = (Instant::now(), map.lost_after());
    let mut client = Client::connect(at, wanted.timeout)?;
    while start.elapsed() < RECOVERING + lost_after {
        let now = Map::parse(&client.stats("ring")?)?;
        if now.recoveries > map.recoveries {
            return Ok(now);
        }
        if now.version != map.version {
            return Err("the map has changed meanwhile: the cells agree".into());
        }
        client.send(&format!("stats ring recover {}", map.version))?;
        let line = client.next_line()?;
        if line != "OK" {
            return Err(NoAnswer::Line(line).into());
        }
        sleep(LOOK);
    }
    let (seconds, lost_s) = (start.elapsed().as_secs(), lost_after.as_secs());
    let what = format!("its log says why; no voter may be heard for {lost_s} seconds");
    Err(format!("the cell has not gone on within {seconds} s: {what}").into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ctl::map::tests::two_of_three;
    use crate::ctl::survey::{Answer, Asked, Memory};

    /// The cells of `answers` answer, with maps of these versions.
    fn survey(voters: &[u32], answers: &[(u32, u64)]) -> Survey {
        let map = Map::parse(&two_of_three()).expect("it can be read");
        let cells = map.cells.keys().map(|id| {
            let version = answers.iter().find(|(it, _)| it == id).map(|(_, version)| *version);
            let answer = version.map(|version| Answer {
                map: Map { version, voters: voters.to_vec(), ..map.clone() },
                memory: Memory::default(),
                time_s: 0,
                evictions: 0,
            });
            (*id, Asked { at: format!("cell{id}"), answer: answer.ok_or_else(|| "gone".into()) })
        });
        let cells: BTreeMap<_, _> = cells.collect();
        let version = answers.iter().map(|(_, version)| *version).max().unwrap_or(0);
        Survey { map: Map { version, voters: voters.to_vec(), ..map }, cells }
    }

    #[test]
    fn a_cell_is_recovered_only_where_too_few_voters_answer_and_none_knows_more() {
        type Case<'a> = (&'a [u32], &'a [(u32, u64)], u32, &'a str);
        let cases: [Case<'_>; 7] = [
            (&[1], &[(2, 9), (3, 9)], 2, ""),
            (&[1], &[(2, 9), (3, 8)], 2, ""),
            (&[1, 2, 3], &[(3, 9)], 3, ""),
            (&[1], &[(2, 9), (3, 8)], 3, "cell 2 has map 9, cell 3 only 8: recover cell 2"),
            (&[1, 2, 3], &[(2, 9), (3, 9)], 2, "of the voters 1-3 answer 2,3, more than half"),
            (&[2], &[(2, 9)], 2, "of the voters 2 answer 2, more than half"),
            (&[1], &[(2, 9)], 3, "cell 3 does not answer: gone"),
        ];
        for (voters, answers, cell, refusal) in cases {
            let survey = survey(voters, answers);
            let found = survivor(&survey, cell);
            match refusal {
                "" => {
                    assert_eq!(found.expect("nothing speaks against it").0, format!("cell{cell}"))
                }
                refusal => {
                    let error = found.expect_err("it is refused").to_string();
                    assert!(error.contains(refusal), "{error}");
                }
            }
        }
    }

    #[test]
    fn what_would_be_lost_is_said() {
        let survey = survey(&[1, 2, 3], &[(3, 9)]);
        let text = warning(&survey, (3, &survey.map), true);
        let expected = json!({
            "cell": 3, "recovered": false, "goes_on_from_map": 9, "voters_lost": [1, 2],
            "ranges_without_a_cell": [1],
        });
        assert_eq!(text, format!("{expected}\n"));
        let text = warning(&survey, (3, &survey.map), false);
        assert!(text.contains("voters that do not answer: 1,2"), "{text}");
        assert!(text.contains("has range 1: see ctl forgive"), "{text}");
    }
}
