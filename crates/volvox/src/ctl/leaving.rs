//! `ctl drain CELL` and `ctl absorb CELL`: other cells take all that a cell has, without a miss and
//! without an error to any client.
//!
//! ```text
//! drain    its ranges stay as they are, and come back to it once it has started again
//! absorb   its ranges become one with their neighbours
//! ```
//!
//! The order stands in the map: the primaries carry it out. `ctl` only watches it then. With
//! `--undo` the cell stays; what was moved stays where it is, or comes back.

use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::Client;
use super::hint;
use super::interrupt::Interrupt;
use super::loss::{Loss, losses};
use super::map::{Map, Member};
use super::moving::ASK;
use super::progress::{Learning, Shown};
use super::ring::verdict;
use super::survey::Survey;
use super::table::{bytes, plural};
use super::wanted::{Leave, Wanted};
use super::watched::Watched;

/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_millis(20);

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// It is not ordered.
    Open,
    /// Ranges that the cell has a part in; and those that are to become one with another.
    Leaves(usize, usize),
    Over,
}

/// Has a cell emptied, or has it stay, waits for that, and says what has come of it.
pub(super) fn leave(
    survey: &Survey,
    leave: &Leave,
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let start = Instant::now();
    let runs = carry_out(survey, leave, wanted, &Interrupt::watch()?)?;
    let parts = parts(&survey.map, leave.cell);
    writeln!(out, "{}", done(leave, (parts, runs), start.elapsed(), wanted.json))?;
    Ok(0)
}

/// Has a cell emptied, or has it stay, and waits for that. Returns whether it runs.
///
/// # Errors
/// What speaks against it, or how far it has come in the time that it was given.
pub(super) fn carry_out(
    survey: &Survey,
    leave: &Leave,
    wanted: &Wanted,
    interrupt: &Interrupt,
) -> Result<bool, Box<dyn Error>> {
    let cell = leave.cell;
    let known = survey.map.cells.get(&cell);
    if known.is_some_and(|it| it.is_witness) {
        return Err(format!("cell {cell}: it is a witness; a signal ends it").into());
    }
    let none = || format!("cell {cell}: the ring has none; see ctl ring");
    let start = known.ok_or_else(none)?.start;
    let leaves = known.is_some_and(|it| it.leaves.is_some());
    if !leave.is_undone && others(survey, cell).next().is_none() {
        let what = "no other cell is left that could take what it has";
        return Err(format!("cell {cell}: {what}").into());
    }
    let is_new = !leave.is_undone && !leave.is_forced && !leaves;
    let begin = Instant::now();
    let fresh = match is_new {
        true => wait_until_it_may(survey, leave, wanted, interrupt)?,
        false => None,
    };
    let survey = fresh.as_ref().unwrap_or(survey);
    if !leave.is_undone
        && !leave.is_forced
        && let Some(range) = abandoned(survey, cell)
    {
        return Err(format!(
            "cell {cell}: no cell that has range {range} answers, so nobody can give it away: \
             start one of them again, or see ctl forgive"
        )
        .into());
    }
    // The cell itself may end.
    let mut ring = Watched::new(survey, Some(cell), wanted);
    let mut of_cell =
        survey.cells.get(&cell).and_then(|it| Client::connect(&it.at, wanted.timeout).ok());
    let (mut asked_at, mut shown) = (None::<Instant>, Shown::default());
    let mut learning = Learning::new(wanted.timeout);
    loop {
        let map = ring.map()?;
        let now = progress(leave, &map, start)?;
        // What was ordered before may come into the map later: that it stays is said once at least.
        if now == Progress::Over && !(leave.is_undone && asked_at.is_none()) {
            shown.show("");
            let runs = map.cells.get(&cell).is_some_and(|it| it.is_heard != Some(false));
            return Ok(runs);
        }
        let held = of_cell.as_mut().and_then(|it| it.stats("").ok());
        let held = held.and_then(|it| super::report::find::<u64>(&it, "bytes").ok());
        let text = now.text(leave, held);
        shown.show(&format!("{text}{}", learning.text(&map)));
        if begin.elapsed() >= leave.wait || interrupt.has_come() {
            shown.show("");
            let seconds = begin.elapsed().as_secs_f64();
            return Err(format!("{text}, after {seconds:.1} s; {}", now.remedy(leave)).into());
        }
        let is_open = now == Progress::Open || leave.is_undone;
        let stay = map.cells.iter().filter(|(id, it)| **id != cell && stays(it)).count();
        if is_open && !leave.is_undone && !leave.is_forced && stay < map.copies_wanted {
            // Others have been ordered to leave meanwhile.
            shown.show("");
            return Err(format!("cell {cell}: {}", too_few(stay, map.copies_wanted)).into());
        }
        if is_open && asked_at.is_none_or(|at| at.elapsed() >= ASK) {
            ring.order(&words(leave, start))?;
            asked_at = Some(Instant::now());
        }
        sleep(LOOK);
    }
}

/// Waits until nothing speaks against it any more, as far as that passes. Returns what the cells
/// say then, if not what they said before.
fn wait_until_it_may(
    survey: &Survey,
    leave: &Leave,
    wanted: &Wanted,
    interrupt: &Interrupt,
) -> Result<Option<Survey>, Box<dyn Error>> {
    let (begin, mut fresh) = (Instant::now(), None);
    while let Some((why, passes)) = obstacle(fresh.as_ref().unwrap_or(survey), leave.cell) {
        if !passes || begin.elapsed() >= leave.wait || interrupt.has_come() {
            let cell = leave.cell;
            return Err(format!("cell {cell}: {why}; --force does it all the same").into());
        }
        sleep(ASK);
        fresh = Some(Survey::take(&wanted.servers, wanted.timeout)?);
    }
    Ok(fresh)
}

fn stays(cell: &Member) -> bool {
    !cell.is_witness && cell.leaves.is_none()
}

/// That no more cells than these `stay`.
fn too_few(stay: usize, copies: usize) -> String {
    format!("{} would be left, and each range should have {copies} copies", plural(stay, "cell"))
}

/// The other cells that answer and stay.
fn others(survey: &Survey, cell: u32) -> impl Iterator<Item = u32> {
    let others = survey.map.cells.iter().filter(move |(id, it)| **id != cell && stays(it));
    let answers = |id: &u32| survey.answers().any(|(it, ..)| it == *id);
    others.map(|(id, _)| *id).filter(answers)
}

/// A range that `cell` has a part in, if no cell answers that has it in sync.
fn abandoned(survey: &Survey, cell: u32) -> Option<u32> {
    let answers = |id: u32| survey.answers().any(|(it, ..)| it == id);
    let mut ranges = survey.map.ranges.iter().filter(|range| range.has(cell));
    ranges.find(|range| !range.in_sync().any(answers)).map(|range| range.id)
}

/// What speaks against it, in the figures of all cells, and whether it passes.
fn obstacle(survey: &Survey, cell: u32) -> Option<(String, bool)> {
    let (map, left) = (&survey.map, others(survey, cell).count());
    if left < map.copies_wanted {
        return Some((too_few(left, map.copies_wanted), false));
    }
    let short = map.ranges.iter().find(|range| {
        range.has(cell) && (range.learner.is_some() || range.in_sync().count() < map.copies_wanted)
    });
    if let Some(range) = short {
        return Some((format!("range {} lacks a copy", range.id), true));
    }
    // It ends nothing: the voters stay.
    let follows = Loss { few_voters: None, ..losses(survey).remove(&cell)? };
    let what = || format!("{}: items would be evicted", verdict(&follows).0);
    (!follows.lacks.is_empty()).then(|| (what(), false))
}

/// Ranges that a cell has a part in.
fn parts(map: &Map, cell: u32) -> usize {
    map.ranges.iter().filter(|range| range.has(cell)).count()
}

/// The order, in the words of `stats ring`.
fn words(leave: &Leave, start: u64) -> String {
    let cell = leave.cell;
    let how = if leave.is_absorbed { "absorbed" } else { "drained" };
    match (leave.is_undone, leave.is_forced) {
        (true, _) => format!("stay {cell} {start}"),
        (false, false) => format!("leave {cell} {start} {how}"),
        (false, true) => format!("leave {cell} {start} {how} forced"),
    }
}

/// How far it is by `map`.
///
/// # Errors
/// That nothing comes of it any more.
fn progress(leave: &Leave, map: &Map, start: u64) -> Result<Progress, String> {
    let cell = leave.cell;
    let member = map.cells.get(&cell).filter(|member| member.start == start);
    let member = member.ok_or_else(|| {
        format!("cell {cell} has started again, and stays in the ring: see ctl ring")
    })?;
    if leave.is_undone {
        return Ok(if member.leaves.is_none() { Progress::Over } else { Progress::Open });
    }
    let is_alone = map.ranges.len() <= 1;
    let absorbed = map.ranges.iter().filter(|range| range.is_absorbed && !is_alone).count();
    Ok(match (member.leaves.as_deref(), parts(map, cell)) {
        (None, _) => Progress::Open,
        (Some("absorbed"), _) if !leave.is_absorbed => {
            return Err(format!("cell {cell} is being absorbed: --undo ends that"));
        }
        (Some(_), parts) if parts > 0 && leave.is_forced && !member.is_forced => Progress::Open,
        (Some("drained"), _) if leave.is_absorbed => Progress::Open,
        (Some(_), 0) if absorbed == 0 || !leave.is_absorbed => Progress::Over,
        (Some(_), parts) => Progress::Leaves(parts, if leave.is_absorbed { absorbed } else { 0 }),
    })
}

impl Progress {
    fn text(&self, leave: &Leave, held: Option<u64>) -> String {
        let cell = leave.cell;
        let held = held.map(|held| format!(", {}", bytes(held))).unwrap_or_default();
        match self {
            Self::Open => format!("cell {cell}: it is ordered, and the map does not have it yet"),
            Self::Leaves(0, absorbed) => {
                let ranges = plural(*absorbed, "range");
                format!("cell {cell}: {ranges} are still to become one with others")
            }
            Self::Leaves(parts, _) => {
                format!("cell {cell}: it has a part in {} still{held}", plural(*parts, "range"))
            }
            Self::Over => format!("cell {cell}: done"),
        }
    }

    fn remedy(&self, leave: &Leave) -> String {
        match self {
            Self::Open => {
                "more than half of the voters must run, and another cell must stay".to_owned()
            }
            Self::Leaves(..) | Self::Over => {
                let verb = if leave.is_absorbed { "absorb" } else { "drain" };
                let (ctl, cell) = (hint::ctl(), leave.cell);
                format!("it goes on: {ctl} {verb} {cell} watches it, with --undo it stays")
            }
        }
    }
}

/// What has come of it.
fn done(leave: &Leave, (parts, runs): (usize, bool), took: Duration, as_json: bool) -> String {
    let (cell, seconds) = (leave.cell, took.as_secs_f64());
    let state = match (leave.is_undone, leave.is_absorbed) {
        (true, _) => "stays",
        (false, true) => "absorbed",
        (false, false) => "drained",
    };
    if as_json {
        let done = json!({
            "cell": cell,
            "state": state,
            "ranges": parts,
            "runs": runs,
            "seconds": seconds,
        });
        return done.to_string();
    }
    let ranges = plural(parts, "range");
    match state {
        "stays" => format!("cell {cell} stays in the ring"),
        _ => {
            let next = match runs {
                true => format!("{} stop {cell} ends it", hint::ctl()),
                false => "it has ended".to_owned(),
            };
            format!("cell {cell} is {state}: {ranges} in {seconds:.1} s; {next}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::map::Range;
    use super::super::survey::{Answer, Asked, Memory};
    use super::*;

    fn leave(is_absorbed: bool) -> Leave {
        let wait = Duration::from_secs(1);
        Leave { cell: 2, is_absorbed, is_forced: false, is_undone: false, wait }
    }

    fn ring() -> Map {
        let cells = [1, 2, 3].map(|cell| (cell, Member { start: 7, ..Member::default() })).into();
        let range =
            |id: u32| Range { id, primary: id, copies: vec![id % 3 + 1], ..Range::default() };
        Map { copies_wanted: 2, cells, ranges: [1, 2, 3].map(range).into(), ..Map::default() }
    }

    #[test]
    fn how_far_it_is_follows_from_the_map() {
        let (mut map, drain, absorb) = (ring(), leave(false), leave(true));
        assert_eq!(progress(&drain, &map, 7), Ok(Progress::Open));
        let again = progress(&drain, &map, 6).expect_err("another life");
        assert!(again.contains("has started again"), "{again}");
        map.cells.get_mut(&2).expect("it is there").leaves = Some("drained".to_owned());
        assert_eq!(progress(&drain, &map, 7), Ok(Progress::Leaves(2, 0)));
        assert_eq!(progress(&absorb, &map, 7), Ok(Progress::Open), "it is ordered again");
        assert_eq!(
            progress(&Leave { is_undone: true, ..drain.clone() }, &map, 7),
            Ok(Progress::Open)
        );
        (map.ranges[0].copies[0], map.ranges[1].primary) = (3, 1);
        assert_eq!(progress(&drain, &map, 7), Ok(Progress::Over));
        map.cells.get_mut(&2).expect("it is there").leaves = Some("absorbed".to_owned());
        assert!(progress(&drain, &map, 7).is_err());
        assert_eq!(progress(&absorb, &map, 7), Ok(Progress::Over));
        map.ranges[1].is_absorbed = true;
        assert_eq!(progress(&absorb, &map, 7), Ok(Progress::Leaves(0, 1)));
        map.ranges.truncate(1);
        map.ranges[0].is_absorbed = true;
        assert_eq!(progress(&absorb, &map, 7), Ok(Progress::Over), "there is no other one");
    }

    #[test]
    fn what_speaks_against_it_has_figures() {
        let map = ring();
        let asked = |id: u32, item_bytes| {
            let memory = Memory { limit: 1 << 20, item_bytes, ..Memory::default() };
            let answer = Answer { map: map.clone(), memory, time_s: 0, evictions: 0 };
            (id, Asked { at: String::new(), answer: Ok(answer) })
        };
        let survey = |sizes: &[(u32, u64)]| {
            let cells = sizes.iter().map(|(id, bytes)| asked(*id, *bytes)).collect();
            Survey { map: map.clone(), cells }
        };
        let says = |sizes: &[(u32, u64)]| obstacle(&survey(sizes), 2).unwrap_or_default().0;
        assert_eq!(says(&[(1, 0), (2, 9), (3, 0)]), "");
        assert_eq!(others(&survey(&[(2, 9)]), 2).count(), 0);
        let few = says(&[(1, 0), (2, 9)]);
        assert_eq!(few, "1 cell would be left, and each range should have 2 copies");
        let full = says(&[(1, 1 << 20), (2, 9), (3, 1 << 20)]);
        assert!(full.starts_with("memory is short: cell 1 by "), "{full}");
        let mut short = survey(&[(1, 0), (2, 9), (3, 0)]);
        short.map.ranges[1].copies.clear();
        let why = obstacle(&short, 2).unwrap_or_default();
        assert_eq!(why, ("range 2 lacks a copy".to_owned(), true));
    }

    #[test]
    fn what_is_said_in_the_end_is_a_line_or_an_object() {
        let took = Duration::from_millis(1500);
        let line = done(&leave(false), (2, false), took, false);
        assert_eq!(line, "cell 2 is drained: 2 ranges in 1.5 s; it has ended");
        let line = done(&leave(false), (2, true), took, false);
        assert_eq!(line, "cell 2 is drained: 2 ranges in 1.5 s; volvox ctl stop 2 ends it");
        let object = done(&leave(true), (2, true), took, true);
        assert!(object.contains("\"state\":\"absorbed\""), "{object}");
        assert_eq!(words(&leave(true), 7), "leave 2 7 absorbed");
        assert_eq!(
            words(&Leave { is_forced: true, ..leave(false) }, 7),
            "leave 2 7 drained forced"
        );
        assert_eq!(words(&Leave { is_undone: true, ..leave(false) }, 7), "stay 2 7");
    }
}
