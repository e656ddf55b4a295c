//! `ctl balance`: cells that lead much give some of it to cells that lead little, one step after
//! the other, without a miss and without an error to any client.
//!
//! Keys are spread over the slices evenly, so bytes follow the slices; with `--by load` what counts
//! is what was to do for each slice just before. Copies are spread evenly by the ring itself. Each
//! step is an order that stands by itself: where `ctl` ends, what was done stays, and the same
//! command goes on.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ring::LED_MAX;
use serde_json::json;

use super::dividing;
use super::hint;
use super::interrupt::Interrupt;
use super::loss::check_room;
use super::map::{Map, Member, Range};
use super::moving;
use super::ops::operations;
use super::progress::Shown;
use super::survey::Survey;
use super::table::plural;
use super::wanted::{Balance, By, Wanted};
use super::watched::Watched;
use super::weights::Weights;

/// Cells are even that differ by this part of the mean at most.
const SLACK: u64 = 8;
/// More steps than any ring needs: each makes one cell even, or nearly so.
const STEPS_MAX: usize = 4096;
/// How often it is looked whether nothing is under way.
const LOOK: Duration = Duration::from_millis(100);

/// Who leads what, and what that weighs.
#[derive(Clone, Copy)]
struct Led<'r> {
    map: &'r Map,
    weights: &'r Weights,
    /// The cells that are to be even.
    cells: &'r [u32],
}

/// One step: `to` leads what `from` has led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    range: u32,
    from: u32,
    to: u32,
    slices: usize,
    /// What they weigh.
    weight: u64,
    /// The first slice of a new range, where the range is divided. `None`: all of it moves.
    at: Option<usize>,
}

/// Makes cells even, and says of each step what it was.
pub(super) fn balance(
    survey: &Survey,
    balance: &Balance,
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let answer: Vec<_> = survey.answers().map(|(id, ..)| id).collect();
    let weights = Weights::of(balance.by, (survey, &answer), wanted.timeout)?;
    let start = Instant::now();
    let (mut shown, interrupt) = (Shown::default(), Interrupt::watch()?);
    let mut ring = Watched::new(survey, None, wanted);
    let mut planned = balance.is_dry.then(|| survey.map.clone());
    let mut gained = BTreeMap::new();
    for nth in 0..STEPS_MAX {
        let map = match &planned {
            Some(map) => map.clone(),
            None => at_rest(&mut ring, (start, balance.wait), &interrupt)?,
        };
        let cells = cells(&map, &answer, balance.takes_spares);
        if cells.len() < 2 {
            return Err("fewer than two cells could lead something: see ctl ring".into());
        }
        let fresh = match (&planned, nth) {
            // Where none answers now, what all have said before counts.
            (None, 1..) => Survey::take(&wanted.servers, wanted.timeout).ok(),
            _ => None,
        };
        let of = fresh.as_ref().unwrap_or(survey);
        let may = |step: &Step| balance.is_forced || step.has_room(of, &map, &gained);
        let led = Led { map: &map, weights: &weights, cells: &cells };
        let Some(step) = led.next(may) else {
            let (line, is_even) = led.ended(nth, wanted.json);
            writeln!(out, "{line}")?;
            return Ok(u8::from(!is_even));
        };
        if start.elapsed() >= balance.wait || interrupt.has_come() {
            let seconds = start.elapsed().as_secs_f64();
            let steps = plural(nth, "step");
            return Err(
                format!("{steps} in {seconds:.1} s; {} balance continues", hint::ctl()).into()
            );
        }
        let begin = Instant::now();
        match &mut planned {
            Some(map) => {
                *gained.entry(step.to).or_default() += step.gains(map);
                step.apply(map);
            }
            None => {
                shown.show(&step.text(&weights));
                let left = balance.wait.saturating_sub(start.elapsed());
                let done = step.carry_out(&mut ring, left, &interrupt);
                shown.show("");
                done?;
            }
        }
        let seconds = (!balance.is_dry).then(|| begin.elapsed().as_secs_f64());
        match wanted.json {
            true => writeln!(out, "{}", step.to_json(&weights, seconds))?,
            false => {
                let took = seconds.map(|it| format!(", after {it:.1} s")).unwrap_or_default();
                writeln!(out, "{}{took}", step.text(&weights))?;
            }
        }
        out.flush()?;
    }
    Err(format!("it is not even after {STEPS_MAX} steps").into())
}

/// The cells that answered, are heard, stay, and have a part in something, or may get one.
fn cells(map: &Map, answer: &[u32], takes_spares: bool) -> Vec<u32> {
    let stays = |cell: &u32| {
        let known = map.cells.get(cell);
        let is_there =
            |it: &Member| !it.is_witness && it.leaves.is_none() && it.is_heard != Some(false);
        known.is_some_and(is_there)
            && (takes_spares || map.ranges.iter().any(|range| range.has(*cell)))
    };
    answer.iter().copied().filter(stays).collect()
}

/// The map, once nothing is under way.
fn at_rest(
    ring: &mut Watched,
    (start, wait): (Instant, Duration),
    interrupt: &Interrupt,
) -> Result<Map, Box<dyn Error>> {
    loop {
        let map = ring.map()?;
        // What goes back to a cell once that has started again may wait for long.
        let under_way = operations(&map).into_iter().find(|it| it.kind != "return");
        let heals = map.healing().map(|range| format!("range {} lacks a copy", range.id));
        let Some(what) = under_way.map(|it| it.text).or(heals) else { return Ok(map) };
        if start.elapsed() >= wait || interrupt.has_come() {
            return Err(format!("{what}: try again later").into());
        }
        sleep(LOOK);
    }
}

impl Led<'_> {
    fn of(&self, cell: u32) -> u64 {
        let own = self.map.ranges.iter().filter(|it| it.primary == cell);
        own.map(|it| self.weights.of_range(it)).sum()
    }

    /// The least and the most that one of the cells leads.
    fn ends(&self) -> [u64; 2] {
        let all = || self.cells.iter().map(|cell| self.of(*cell));
        [all().min().unwrap_or(0), all().max().unwrap_or(0)]
    }

    /// What each cell leads on average.
    fn mean(&self) -> u64 {
        self.cells.iter().map(|cell| self.of(*cell)).sum::<u64>() / self.cells.len().max(1) as u64
    }

    /// How much more one cell may lead than another one.
    fn slack(&self) -> u64 {
        self.mean() / SLACK
    }

    /// What has come of it after this number of steps, and whether the cells are even.
    fn ended(&self, steps: usize, as_json: bool) -> (String, bool) {
        let [least, most] = self.ends();
        let is_even = most - least <= self.slack();
        let what = self.weights.text([least, most]);
        let line = match (as_json, is_even) {
            (true, _) => {
                let by = self.weights.by().name();
                let ended = json!({
                    "least": least, "most": most, "steps": steps, "is_even": is_even, "by": by,
                });
                ended.to_string()
            }
            (false, true) => format!("cells {what}, after {}", plural(steps, "step")),
            (false, false) => {
                let why = match self.next(|_| true) {
                    Some(_) => "memory would be short after any further step: see --force",
                    None => "no step makes them more even",
                };
                format!("cells {what}, and {why}")
            }
        };
        (line, is_even)
    }

    /// The next step that may be done, from the cell that leads the most to the one that leads the
    /// least, if there is one between these two; else between others. Each makes two cells more
    /// even by a part of the slack at least, so they come to an end.
    fn next(&self, may: impl Fn(&Step) -> bool) -> Option<Step> {
        let (mean, slack) = (self.mean(), self.slack());
        let mut by_weight: Vec<_> = self.cells.iter().map(|it| (self.of(*it), *it)).collect();
        by_weight.sort_unstable();
        let pairs =
            by_weight.iter().flat_map(|to| by_weight.iter().rev().map(move |from| (*from, *to)));
        let is_uneven = |((most, _), (least, _)): &((u64, u32), (u64, u32))| {
            most.saturating_sub(*least) > slack.max(1)
        };
        pairs.filter(is_uneven).find_map(|((most, from), (least, to))| {
            let gap = most - least;
            // What one of both has too much, or lacks: it is even then.
            let wanted = most.saturating_sub(mean).min(mean.saturating_sub(least));
            let wanted = if wanted * 2 > slack { wanted } else { gap / 2 };
            self.between((from, to), (wanted, gap), &may)
        })
    }

    /// How `from`, which leads `gap` more, gives some `wanted` of it to `to`: a range that weighs
    /// about that, or a part of one, or the range that makes them more even than they are.
    fn between(
        &self,
        (from, to): (u32, u32),
        (wanted, gap): (u64, u64),
        may: &impl Fn(&Step) -> bool,
    ) -> Option<Step> {
        let slack = self.slack();
        let own = || self.map.ranges.iter().filter(|it| it.primary == from);
        let step = |it: &Range, at: Option<usize>| {
            let (first, end) = (at.unwrap_or(it.first), it.last + 1);
            let weight = self.weights.between(first, end);
            Step { range: it.id, from, to, slices: end - first, weight, at }
        };
        let far = |step: &Step| step.weight.abs_diff(wanted);
        let whole = own().map(|it| step(it, None)).filter(may).min_by_key(far);
        if whole.is_some_and(|it| far(&it) <= slack / 2) {
            return whole;
        }
        let improves = |it: &Step| it.weight * 2 > slack && it.weight * 2 + slack < gap * 2;
        let heavier = own().filter(|it| self.weights.of_range(it) > wanted);
        let heavier = heavier.min_by_key(|it| self.weights.of_range(it));
        let divides = heavier.filter(|_| own().count() < LED_MAX).and_then(|it| {
            let at = self.weights.cut(it, (wanted, slack / 2), self.map.division_step)?;
            Some(step(it, Some(at))).filter(|it| improves(it) && may(it))
        });
        divides.or_else(|| whole.filter(improves))
    }
}

impl Step {
    fn text(self, weights: &Weights) -> String {
        let Self { range, from, to, slices, weight, at } = self;
        let slices = plural(slices, "slice");
        let load = match weights.by() {
            By::Slices => String::new(),
            By::Load => format!(", {:.1} % of the load", weights.share(weight) * 100.0),
        };
        match at {
            Some(at) => {
                format!("range {range}: {slices} from {at} on{load}, of cell {from}, to cell {to}")
            }
            None => format!("range {range}: all {slices}{load}, of cell {from}, to cell {to}"),
        }
    }

    fn to_json(self, weights: &Weights, seconds: Option<f64>) -> serde_json::Value {
        let Self { range, from, to, slices, weight, at } = self;
        let load = (weights.by() == By::Load).then(|| weights.share(weight));
        json!({
            "range": range, "from": from, "to": to, "slices": slices, "load": load,
            "divided_at": at, "seconds": seconds,
        })
    }

    fn carry_out(
        self,
        ring: &mut Watched,
        wait: Duration,
        interrupt: &Interrupt,
    ) -> Result<(), Box<dyn Error>> {
        let Self { range, to, at, .. } = self;
        match at {
            Some(slice) => {
                let plan = dividing::Plan { range, slice, to };
                dividing::carry_out(ring, plan, wait, interrupt).map(|_| ())
            }
            None => moving::carry_out(ring, (range, to, wait), interrupt).map(|_| ()),
        }
    }

    /// The slices that its cell has more of afterwards, as primary or copy: of a range that is
    /// divided it gets a copy of the other part, too.
    fn gains(&self, map: &Map) -> usize {
        let gets = |it: &&Range| it.id == self.range && !it.in_sync().any(|has| has == self.to);
        map.ranges.iter().find(gets).map_or(0, Range::slices)
    }

    /// Whether its cell has room for that, where cells have `gained` slices by earlier steps that
    /// were only shown.
    fn has_room(&self, survey: &Survey, map: &Map, gained: &BTreeMap<u32, usize>) -> bool {
        let (gains, earlier) = (self.gains(map), gained.get(&self.to).copied().unwrap_or(0));
        gains == 0 || check_room(survey, self.to, earlier + gains).is_ok()
    }

    /// What the map would be.
    fn apply(self, map: &mut Map) {
        let Some(range) = map.ranges.iter_mut().find(|it| it.id == self.range) else { return };
        match self.at {
            None => {
                // A copy and the primary change places.
                let copy = range.copies.iter_mut().find(|copy| **copy == self.to);
                copy.into_iter().for_each(|copy| *copy = self.from);
                range.primary = self.to;
            }
            Some(at) => {
                let id = map.ranges.iter().map(|it| it.id).max().unwrap_or(0) + 1;
                let range = map.ranges.iter_mut().find(|it| it.id == self.range).expect("found");
                let mut upper = Range { id, first: at, primary: self.to, ..range.clone() };
                range.last = at - 1;
                // A copy leads the upper half then, and the primary copies it; another cell
                // replaces a copy of what stays.
                let own = upper.copies.iter().position(|copy| *copy == self.to);
                match (own, range.copies.last_mut()) {
                    (Some(own), _) => upper.copies[own] = self.from,
                    (None, Some(copy)) => *copy = self.to,
                    (None, None) => {}
                }
                map.ranges.push(upper);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{RUN_SLICES, SLICES};

    fn ring(ranges: &[(u32, usize, u32)]) -> Map {
        let cells = (1..=5).map(|cell| (cell, Member::default())).collect();
        let mut first = 0;
        let ranges = ranges.iter().map(|(primary, slices, copy)| {
            let range = Range {
                id: first as u32 + 1,
                first,
                last: first + slices - 1,
                primary: *primary,
                copies: vec![*copy],
                ..Range::default()
            };
            first += slices;
            range
        });
        let ranges: Vec<_> = ranges.collect();
        assert_eq!(first, SLICES);
        Map { copies_wanted: 2, cells, ranges, ..Map::default() }
    }

    /// Steps until it is even.
    fn steps(mut map: Map, cells: &[u32]) -> Vec<Step> {
        let mut all = Vec::new();
        let weights = Weights::even();
        let next = |map: &Map| Led { map, weights: &weights, cells }.next(|_| true);
        while let Some(step) = next(&map) {
            step.apply(&mut map);
            all.push(step);
            assert!(all.len() < 20, "{all:?}");
        }
        let led = Led { map: &map, weights: &weights, cells };
        let [least, most] = led.ends();
        assert!(most - least <= led.slack(), "{least} to {most}: {all:?}");
        let covered: usize = map.ranges.iter().map(Range::slices).sum();
        assert_eq!(covered, SLICES);
        all
    }

    #[test]
    fn whole_ranges_move_where_that_makes_cells_even_and_others_are_divided() {
        let third = SLICES / 3;
        let even = [(1, third, 2), (2, third, 3), (3, SLICES - 2 * third, 1)];
        assert_eq!(steps(ring(&even), &[1, 2, 3]), []);
        // Cell 1 leads two of four ranges, and cell 3 none.
        let quarter = SLICES / 4;
        let two = [(1, quarter, 2), (2, quarter, 1), (1, quarter, 2), (4, quarter, 2)];
        let done = steps(ring(&two), &[1, 2, 3, 4]);
        assert_eq!((done.len(), done[0].from, done[0].to, done[0].at), (1, 1, 3, None));
        // One range, and five cells.
        let done = steps(ring(&[(1, SLICES, 2)]), &[1, 2, 3, 4, 5]);
        assert!(done.iter().all(|step| step.from != step.to));
        assert!(done.len() <= 5, "{done:?}");
    }

    #[test]
    fn a_cell_that_has_a_copy_of_all_gets_a_part_of_it() {
        let most = SLICES - 1024;
        let map = ring(&[(1, most, 2), (1, 1024, 2)]);
        let weights = Weights::even();
        let next =
            |map: &Map, may: bool| Led { map, weights: &weights, cells: &[1, 2] }.next(|_| may);
        let first = next(&map, true).expect("it is uneven");
        assert!(first.at.is_some(), "{first:?}");
        assert_eq!(steps(map.clone(), &[1, 2]).len(), 1);
        assert_eq!(next(&map, false), None, "no cell has room");
        // As a copy it has it already; another cell would get all of it, a copy included.
        let divided = Step { to: 3, at: Some(64), ..first };
        assert_eq!([first, divided].map(|step| step.gains(&map)), [0, most]);
        let alone = ring(&[(1, SLICES, 2)]);
        assert_eq!(steps(alone.clone(), &[1, 2]).len(), 1, "each leads half of it");
        let mut halves = alone;
        next(&halves, true).expect("it is uneven").apply(&mut halves);
        let has: Vec<_> = halves.ranges.iter().map(|it| (it.primary, it.copies[0])).collect();
        assert_eq!(has, [(1, 2), (2, 1)]);
    }

    /// A number below `below`.
    fn drawn(state: &mut u64, below: usize) -> usize {
        *state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(11);
        (*state >> 33) as usize % below
    }

    /// Some ranges, of `step` slices or a multiple, which some of `count` cells lead.
    fn some_ring(state: &mut u64, count: u32, step: usize) -> Map {
        let (mut left, mut ranges) = (SLICES, Vec::new());
        while left > 0 && ranges.len() < 20 {
            let some = (1 + drawn(state, SLICES / 2)).next_multiple_of(step);
            let slices = if ranges.len() == 19 { left } else { some.min(left) };
            let primary = 1 + drawn(state, count as usize) as u32;
            ranges.push((primary, slices, primary % count + 1));
            left -= slices;
        }
        Map { division_step: step, ..ring(&ranges) }
    }

    /// Random rings and loads: it comes to an end, however many cells there are and whatever each
    /// leads.
    #[test]
    fn every_ring_is_even_in_the_end_or_nothing_makes_it_more_even() {
        let mut state = 1;
        for round in 0..2_000 {
            // Above a bucket.
            let step = if round % 2 == 0 { 1 } else { RUN_SLICES };
            let count = 2 + drawn(&mut state, 11) as u32;
            let cells: Vec<u32> = (1..=count).collect();
            let mut map = some_ring(&mut state, count, step);
            // Some slices are asked for far more often than others.
            let mut weigh = |_| match drawn(&mut state, 100) {
                0 => drawn(&mut state, 1 << 20) as u64,
                some => some as u64,
            };
            let weights = match round % 4 {
                0 | 1 => Weights::even(),
                _ => Weights::counted(&(0..SLICES).map(&mut weigh).collect::<Vec<_>>(), 1.0),
            };
            let mut steps = 0;
            loop {
                let led = Led { map: &map, weights: &weights, cells: &cells };
                let (before, Some(step)) = (led.ends(), led.next(|_| true)) else { break };
                assert!(step.at.is_none_or(|at| at.is_multiple_of(map.division_step)));
                step.apply(&mut map);
                steps += 1;
                assert!(steps <= 6 * cells.len(), "{round}: {before:?} {step:?}");
            }
        }
    }

    #[test]
    fn what_is_asked_for_most_is_spread_also_where_the_slices_are() {
        let half = SLICES / 2;
        let mut map = ring(&[(1, half, 2), (2, half, 1)]);
        // Of the requests nine of ten are about the first 100 slices.
        let weigh = |slice| if slice < 100 { 9 * (SLICES as u64 - 100) } else { 100 };
        let weights = Weights::counted(&(0..SLICES).map(weigh).collect::<Vec<_>>(), 1.0);
        let step = Led { map: &map, weights: &weights, cells: &[1, 2] }.next(|_| true);
        let step = step.expect("cell 1 does nearly everything");
        assert_eq!((step.range, step.from, step.to), (1, 1, 2));
        // What it keeps is half of all: five ninths of the first 100 slices.
        assert!(step.at.is_some_and(|at| (54..=57).contains(&at)), "{step:?}");
        assert!(step.text(&weights).contains(" % of the load, of cell 1, to cell 2"));
        step.apply(&mut map);
        let led = Led { map: &map, weights: &weights, cells: &[1, 2] };
        assert_eq!(led.next(|_| true), None);
        assert!(led.ended(1, false).1, "{}", led.ended(1, false).0);
        assert!(led.ended(1, true).0.contains("\"by\":\"load\""));
    }
}
