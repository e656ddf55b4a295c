//! `ctl move RANGE CELL`: a copy in sync becomes the primary of a range, without a loss and without
//! an error to any client.
//!
//! The cell that is asked proposes it; the primary hands the range over. An order stands once it is
//! in the map: `ctl` only watches it then.

use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ring::ORDERED_MAX;
use serde_json::json;

use super::hint;
use super::interrupt::Interrupt;
use super::loss::check_room;
use super::map::{Map, Range};
use super::progress::{Learning, Shown};
use super::survey::Survey;
use super::wanted::{Movement, Wanted};
use super::watched::Watched;

/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_millis(5);
/// How often it is asked for again, as long as it is not in the map.
pub(super) const ASK: Duration = Duration::from_millis(200);

/// Has a cell lead a range, and waits for that.
pub(super) fn move_range(
    survey: &Survey,
    movement: &Movement,
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let Movement { range, cell, is_forced, wait } = *movement;
    let gets = |it: &&Range| it.id == range && !it.in_sync().any(|has| has == cell);
    let gets = survey.map.ranges.iter().find(gets).map_or(0, Range::slices);
    if !is_forced {
        check_room(survey, cell, gets)?;
    }
    let mut ring = Watched::new(survey, None, wanted);
    let (now, took) = carry_out(&mut ring, (range, cell, wait), &Interrupt::watch()?)?;
    writeln!(out, "{}", moved(&now, took, wanted.json))?;
    Ok(0)
}

/// Has `cell` lead `range`, and waits for that so long. Returns the range, and how long it took;
/// `None` where it was so.
///
/// # Errors
/// What is in the way, or that it did not come to its end in that time.
pub(super) fn carry_out(
    ring: &mut Watched,
    (range, cell, wait): (u32, u32, Duration),
    interrupt: &Interrupt,
) -> Result<(Range, Option<Duration>), Box<dyn Error>> {
    let (start, mut asked_at, mut shown) = (Instant::now(), None::<Instant>, Shown::default());
    let mut learning = Learning::new(ring.timeout());
    loop {
        let map = ring.map()?;
        let found = map.ranges.iter().find(|it| it.id == range);
        let now = found.ok_or_else(|| format!("range {range}: the ring has none; see ctl ring"))?;
        if now.primary == cell {
            shown.show("");
            return Ok((now.clone(), asked_at.map(|_| start.elapsed())));
        }
        let obstacle = obstacle(now, &map, cell)?;
        if now.learner.is_some() {
            shown.show(&format!("range {range}, for cell {cell}{}", learning.text(&map)));
        }
        if start.elapsed() >= wait || interrupt.has_come() {
            shown.show("");
            return Err(late(now, (cell, start.elapsed()), obstacle.as_deref()).into());
        }
        let is_due = asked_at.is_none_or(|at| at.elapsed() >= ASK);
        if now.moves_to.is_none() && obstacle.is_none() && is_due {
            let Range { id, epoch, config, .. } = now;
            ring.order(&format!("move {id} {epoch} {config} {cell}"))?;
            asked_at = Some(Instant::now());
        }
        sleep(LOOK);
    }
}

/// What is in the way now, and may pass.
///
/// # Errors
/// What is in the way, and does not pass by itself.
pub(super) fn obstacle(range: &Range, map: &Map, cell: u32) -> Result<Option<String>, String> {
    let id = range.id;
    let is_gone = |cell: u32| map.cells.get(&cell).is_none_or(|it| it.is_heard == Some(false));
    if range.moves_to.is_none() && range.in_sync().all(is_gone) {
        return Err(format!(
            "range {id}: no cell that has it is heard: start one of them again, or see ctl forgive"
        ));
    }
    if range.leaves.is_some() {
        return Ok(Some("a copy of it is being replaced".to_owned()));
    }
    if let Some(other) = range.moves_to.filter(|it| *it != cell) {
        return Err(format!("range {id}: it is being handed over to cell {other} already"));
    }
    if range.divides.is_some() {
        return Ok(Some("it is being divided".to_owned()));
    }
    let copies = map.copies_wanted.min(map.cells.len() - map.witnesses().count());
    let heals = range.learner.is_some() || range.in_sync().count() < copies;
    if heals && range.moves_to.is_none() {
        return Ok(Some("it lacks a copy".to_owned()));
    }
    let known = map.cells.get(&cell).filter(|it| !it.is_witness);
    let known =
        known.ok_or_else(|| format!("range {id}: the ring has no cell {cell} that can lead it"))?;
    if let Some(how) = &known.leaves {
        let (ctl, verb) = (hint::ctl(), if how == "absorbed" { "absorb" } else { "drain" });
        return Err(format!("cell {cell} is {how}: {ctl} {verb} {cell} --undo has it stay"));
    }
    let leads = map.ranges.iter().filter(|it| it.primary == cell).count();
    if leads >= ORDERED_MAX && range.moves_to.is_none() {
        return Err(format!("cell {cell} leads {leads} ranges; by orders {ORDERED_MAX} at most"));
    }
    Ok(None)
}

/// That `range` is led by the cell that was wanted; by what was ordered, it took so long.
fn moved(range: &Range, took: Option<Duration>, as_json: bool) -> String {
    let Range { id, primary, epoch, .. } = range;
    match (as_json, took) {
        (true, _) => {
            let seconds = took.map(|took| took.as_secs_f64());
            json!({ "range": id, "cell": primary, "epoch": epoch, "seconds": seconds }).to_string()
        }
        (false, None) => format!("range {id} is led by cell {primary} already (epoch {epoch})"),
        (false, Some(took)) => {
            let seconds = took.as_secs_f64();
            format!("range {id} is led by cell {primary} now (epoch {epoch}), after {seconds:.3} s")
        }
    }
}

fn late(range: &Range, (cell, took): (u32, Duration), obstacle: Option<&str>) -> String {
    let (id, seconds) = (range.id, took.as_secs_f64());
    match obstacle {
        Some(what) => format!("range {id}: {what}, after {seconds:.1} s: try again later"),
        None if range.moves_to == Some(cell) => format!(
            "range {id}: it was not handed over within {seconds:.1} s; the order stands, see ctl \
             ring"
        ),
        None => format!(
            "range {id}: nothing has come of the order within {seconds:.1} s: volvox ctl log may \
             say why; more than half of the voters must run"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::map::Member;
    use super::*;

    #[test]
    fn what_is_in_the_way_passes_or_is_an_error() {
        let cells = [1, 2, 3].map(|cell| (cell, Member::default())).into();
        let map = Map { copies_wanted: 2, cells, ..Map::default() };
        let range = Range { id: 7, primary: 1, copies: vec![2], ..Range::default() };
        let says = |range: Range| obstacle(&range, &map, 2);
        assert_eq!(says(range.clone()), Ok(None));
        assert_eq!(says(Range { moves_to: Some(2), ..range.clone() }), Ok(None));
        let lacks = Ok(Some("it lacks a copy".to_owned()));
        assert_eq!(says(Range { copies: vec![], ..range.clone() }), lacks);
        let three = Map { copies_wanted: 3, cells: map.cells.clone(), ..Map::default() };
        assert_eq!(obstacle(&range, &three, 2), lacks);
        let two = [1, 2].map(|cell| (cell, Member::default())).into();
        let short = Map { cells: two, ..three };
        assert_eq!(obstacle(&range, &short, 2), Ok(None), "there are no more cells");
        assert_eq!(says(Range { learner: Some(2), copies: vec![], ..range.clone() }), lacks);
        let other = says(Range { moves_to: Some(3), ..range.clone() }).expect_err("it is busy");
        assert_eq!(other, "range 7: it is being handed over to cell 3 already");
        assert_eq!(obstacle(&range, &map, 3), Ok(None), "it learns first");
        let unknown = obstacle(&range, &map, 4).expect_err("there is none");
        assert_eq!(unknown, "range 7: the ring has no cell 4 that can lead it");
    }

    #[test]
    fn what_came_of_it_is_a_line_or_an_object() {
        let range = Range { id: 7, primary: 2, epoch: 3, moves_to: Some(2), ..Range::default() };
        let took = Some(Duration::from_millis(12));
        assert_eq!(
            moved(&range, took, false),
            "range 7 is led by cell 2 now (epoch 3), after 0.012 s"
        );
        assert_eq!(moved(&range, None, false), "range 7 is led by cell 2 already (epoch 3)");
        let object = json!({ "range": 7, "cell": 2, "epoch": 3, "seconds": 0.012 });
        assert_eq!(moved(&range, took, true), object.to_string());
        let waits = (2, Duration::from_secs(4));
        assert!(late(&range, waits, None).contains("the order stands"));
        assert!(
            late(&range, waits, Some("it lacks a copy")).contains("it lacks a copy, after 4.0 s")
        );
        let lost = late(&Range { moves_to: None, ..range }, waits, None);
        assert!(lost.contains("more than half of the voters"), "{lost}");
    }
}
