//! `ctl divide CELL`: a range of a cell becomes two, and a spare leads one of them, without a miss
//! and without an error to any client.
//!
//! The order stands in the map: the primary makes two ranges of the one, and hands one of them over
//! once the spare has it; the spare replaces a copy of the other. `ctl` only watches it then.

use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ring::LED_MAX;
use serde_json::json;

use super::hint;
use super::interrupt::Interrupt;
use super::loss::check_room;
use super::map::{Map, Range};
use super::moving::{ASK, obstacle};
use super::progress::{Learning, Shown};
use super::survey::Survey;
use super::wanted::{Division, Wanted};
use super::watched::Watched;
use super::weights::Weights;

/// The begin of a run is preferred that is this part of the range away at most.
const NEAR: u64 = 16;
/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_millis(20);

/// What is divided, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) range: u32,
    /// The first slice of the new range.
    pub(super) slice: usize,
    /// Who is to lead that.
    pub(super) to: u32,
}

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
enum Progress<'m> {
    /// It is not ordered; what is in the way, and may pass.
    Open(&'m Range, Option<String>),
    Ordered,
    /// There are two ranges: what is left to do.
    Divided(String),
    Over(&'m Range, &'m Range),
}

/// Has a range divided, and waits for that.
pub(super) fn divide(
    survey: &Survey,
    division: &Division,
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let (.., answer) = survey.answers().next().expect("invariant: the first cell answers");
    let runs = |cell: u32| survey.answers().any(|(id, ..)| id == cell);
    let weights = Weights::of(division.by, (survey, &[division.cell]), wanted.timeout)?;
    let plan = Plan::of((&answer.map, &weights), division, runs)?;
    // It leads one half, and has a copy of the other one.
    let gets = |it: &&Range| it.id == plan.range && !it.has(plan.to);
    let of = survey.map.ranges.iter().find(gets);
    if !division.is_forced {
        check_room(survey, plan.to, of.map_or(0, Range::slices))?;
    }
    let mut ring = Watched::new(survey, Some(division.cell), wanted);
    let start = Instant::now();
    let (lower, upper) = carry_out(&mut ring, plan, division.wait, &Interrupt::watch()?)?;
    writeln!(out, "{}", divided((&lower, &upper), start.elapsed(), wanted.json))?;
    Ok(0)
}

/// Has a range divided, and waits for that. Returns both ranges.
///
/// # Errors
/// What is in the way, or how far it has come in that time.
pub(super) fn carry_out(
    ring: &mut Watched,
    plan: Plan,
    wait: Duration,
    interrupt: &Interrupt,
) -> Result<(Range, Range), Box<dyn Error>> {
    let (start, mut asked_at, mut shown) = (Instant::now(), None::<Instant>, Shown::default());
    let mut learning = Learning::new(ring.timeout());
    loop {
        let map = ring.map()?;
        let progress = plan.progress(&map)?;
        if let Progress::Over(lower, upper) = progress {
            shown.show("");
            return Ok((lower.clone(), upper.clone()));
        }
        shown.show(&format!("{}{}", progress.text(plan), learning.text(&map)));
        if start.elapsed() >= wait || interrupt.has_come() {
            shown.show("");
            let (text, seconds) = (progress.text(plan), start.elapsed().as_secs_f64());
            return Err(format!("{text}, after {seconds:.1} s; {}", progress.remedy()).into());
        }
        if let Progress::Open(range, None) = progress
            && asked_at.is_none_or(|at| at.elapsed() >= ASK)
        {
            let (Range { id, epoch, config, .. }, Plan { slice, to, .. }) = (range, plan);
            ring.order(&format!("divide {id} {epoch} {config} {slice} {to}"))?;
            asked_at = Some(Instant::now());
        }
        sleep(LOOK);
    }
}

impl Plan {
    /// What is chosen by `map`, of cells that answer.
    fn of(
        (map, weights): (&Map, &Weights),
        division: &Division,
        answers: impl Fn(u32) -> bool,
    ) -> Result<Self, String> {
        let Division { cell, range, to, .. } = *division;
        let led = map.ranges.iter().filter(|it| it.primary == cell);
        let range = match range {
            Some(id) => led.clone().find(|it| it.id == id),
            None => led.max_by_key(|it| weights.of_range(it)),
        };
        let range = range.ok_or_else(|| match division.range {
            Some(id) => format!("cell {cell} does not lead range {id}: see ctl ring"),
            None => format!("cell {cell} leads no range: see ctl ring"),
        })?;
        let (id, count) = (range.id, map.ranges.iter().filter(|it| it.primary == cell).count());
        if count >= LED_MAX {
            return Err(format!(
                "cell {cell} leads {count} ranges, and one that leads {LED_MAX} has none divided: \
                 {} move gives one of them to another cell",
                hint::ctl()
            ));
        }
        if range.slices() < 2 {
            return Err(format!("range {id} has one slice, and cannot be divided"));
        }
        let (weight, step) = (weights.of_range(range), map.division_step);
        let slice = weights.cut(range, (weight / 2, weight / NEAR), step).ok_or_else(|| {
            format!(
                "range {id} begins at slice {} and ends at {}: above a bucket a range is divided \
                 at a multiple of {step}, and there is none within",
                range.first, range.last
            )
        })?;
        let parts = |cell: u32| map.ranges.iter().filter(|it| it.has(cell)).count();
        let may_take = |cell: u32| {
            let known = map.cells.get(&cell);
            let stays = known.is_some_and(|it| !it.is_witness && it.leaves.is_none());
            stays && answers(cell) && range.primary != cell
        };
        let to = match to {
            Some(to) if !may_take(to) => {
                return Err(format!(
                    "cell {to} cannot take a half of range {id}: it is no cell that answers, or \
                     leaves, or leads it"
                ));
            }
            Some(to) => to,
            None => {
                let takers = || map.cells.keys().copied().filter(|it| may_take(*it));
                let leads = |cell: u32| map.ranges.iter().any(|it| it.primary == cell);
                let spare = takers().find(|it| parts(*it) == 0);
                let copy = || takers().find(|it| range.has(*it) && !leads(*it));
                spare.or_else(copy).ok_or_else(|| {
                    "no spare: each cell that answers has a part in a range; start another one, or \
                     name one of them with --to"
                        .to_owned()
                })?
            }
        };
        Ok(Self { range: id, slice, to })
    }

    /// How far it is by `map`.
    ///
    /// # Errors
    /// That nothing more comes of it by itself.
    fn progress<'m>(&self, map: &'m Map) -> Result<Progress<'m>, String> {
        let Self { range: id, slice, to } = *self;
        let lower = map.ranges.iter().find(|it| it.id == id);
        let lower = lower.ok_or_else(|| format!("range {id}: the ring has none; see ctl ring"))?;
        let Some(upper) = map.ranges.iter().find(|it| it.first == slice) else {
            return match lower.divides {
                Some(into) if into == (slice, to) => Ok(Progress::Ordered),
                Some((other, cell)) => Err(format!(
                    "range {id} is being divided already, at slice {other} for cell {cell}"
                )),
                None if !(lower.first + 1..=lower.last).contains(&slice) => Err(format!(
                    "range {id} has changed by another order: it has slices {} to {} now; give \
                     the order again",
                    lower.first, lower.last
                )),
                None => Ok(Progress::Open(lower, obstacle(lower, map, to)?)),
            };
        };
        let new = upper.id;
        match (upper.primary == to, upper.moves_to, lower.moves_to) {
            (true, _, Some(cell)) => {
                Ok(Progress::Divided(format!("cell {cell} becomes a copy of range {id}")))
            }
            (true, _, None) => Ok(Progress::Over(lower, upper)),
            (false, Some(cell), _) if upper.learner == Some(cell) => {
                Ok(Progress::Divided(format!("cell {cell} learns range {new}")))
            }
            (false, Some(cell), _) => {
                Ok(Progress::Divided(format!("range {new} moves to cell {cell}")))
            }
            (false, None, _) => Err(format!(
                "range {id} was divided: slices from {slice} on are range {new}, which cell {} \
                 leads; cell {to} has not taken it (ctl log says why): {} move {new} {to} tries \
                 that again",
                upper.primary,
                hint::ctl()
            )),
        }
    }
}

impl Progress<'_> {
    fn text(&self, plan: Plan) -> String {
        let Plan { range, slice, to } = plan;
        let what = match self {
            Self::Open(_, Some(obstacle)) => obstacle.clone(),
            Self::Open(_, None) => "nothing has come of the order".to_owned(),
            Self::Ordered => "it is to be divided".to_owned(),
            Self::Divided(what) => what.clone(),
            Self::Over(..) => "it is divided".to_owned(),
        };
        format!("range {range}, at slice {slice}, for cell {to}: {what}")
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::Open(_, Some(_)) => "try again later",
            Self::Open(_, None) => {
                "volvox ctl log may say why; more than half of the voters must run"
            }
            Self::Ordered | Self::Divided(_) | Self::Over(..) => "the order stands, see ctl ring",
        }
    }
}

/// That there are two ranges, and who has them.
fn divided((lower, upper): (&Range, &Range), took: Duration, as_json: bool) -> String {
    let seconds = took.as_secs_f64();
    let of = |range: &Range| {
        json!({
            "range": range.id, "first": range.first, "last": range.last,
            "primary": range.primary, "copies": range.copies,
        })
    };
    if as_json {
        return json!({ "ranges": [of(lower), of(upper)], "seconds": seconds }).to_string();
    }
    let line = |it: &Range| {
        let copies: Vec<_> = it.copies.iter().map(u32::to_string).collect();
        let copies = if copies.is_empty() { "none".to_owned() } else { copies.join(", ") };
        format!(
            "range {}: slices {}-{}, led by cell {}, copies: {copies}",
            it.id, it.first, it.last, it.primary
        )
    };
    format!("{}\n{}\ndivided in {seconds:.1} s", line(lower), line(upper))
}

#[cfg(test)]
mod tests {
    use super::super::map::Member;
    use super::super::wanted::By;
    use super::*;

    fn ring() -> Map {
        let cells = [1, 2, 3, 4].map(|cell| (cell, Member::default())).into();
        let range = |id: u32, first, last| Range {
            id,
            first,
            last,
            primary: id,
            copies: vec![id % 3 + 1],
            ..Range::default()
        };
        let ranges = vec![range(1, 0, 5375), range(2, 5376, 10_751), range(3, 10_752, 16_383)];
        Map { copies_wanted: 2, cells, ranges, ..Map::default() }
    }

    fn division(cell: u32, range: Option<u32>, to: Option<u32>) -> Division {
        Division { cell, range, to, by: By::Slices, is_forced: false, wait: Duration::from_secs(1) }
    }

    #[test]
    fn the_range_the_slice_and_the_spare_are_chosen_or_named() {
        let (map, even) = (ring(), Weights::even());
        let plan = |cell, range, to| Plan::of((&map, &even), &division(cell, range, to), |_| true);
        assert_eq!(plan(2, None, None), Ok(Plan { range: 2, slice: 7936, to: 4 }));
        assert_eq!(plan(2, Some(2), Some(1)), Ok(Plan { range: 2, slice: 7936, to: 1 }));
        let error = |planned: Result<Plan, String>| planned.expect_err("it is refused");
        assert!(error(plan(4, None, None)).contains("leads no range"));
        assert!(error(plan(2, Some(1), None)).contains("does not lead range 1"));
        assert_eq!(plan(2, None, Some(3)), Ok(Plan { range: 2, slice: 7936, to: 3 }), "its copy");
        assert!(error(plan(2, None, Some(2))).contains("leads it"));
        assert!(error(plan(2, None, Some(9))).contains("no cell that answers"));
        let alone = Plan::of((&map, &even), &division(2, None, None), |cell| cell != 4);
        assert!(error(alone).starts_with("no spare"));
        let mut full = ring();
        full.ranges[0].copies.push(4);
        let planned = Plan::of((&full, &even), &division(2, None, None), |_| true);
        assert!(error(planned).starts_with("no spare"));
        // Two cells, of which one leads all: the other one has it already.
        let mut two = ring();
        (two.cells, two.ranges[0].last) = ([1, 2].map(|id| (id, Member::default())).into(), 16_383);
        two.ranges.truncate(1);
        let planned = Plan::of((&two, &even), &division(1, None, None), |_| true);
        assert_eq!(planned, Ok(Plan { range: 1, slice: 8192, to: 2 }));
        let one = &two.ranges[0];
        two.ranges = (0..12).map(|id| Range { id, first: id as usize, ..one.clone() }).collect();
        let planned = Plan::of((&two, &even), &division(1, None, None), |_| true);
        assert!(error(planned).contains("leads 12 ranges"));
        // Short ranges are divided anywhere.
        let mut short = ring();
        (short.ranges[1].first, short.ranges[1].last) = (5376, 5377);
        let planned = Plan::of((&short, &even), &division(2, None, None), |_| true);
        assert_eq!(planned.map(|plan| plan.slice), Ok(5377));
        short.division_step = 256;
        let planned = Plan::of((&short, &even), &division(2, None, None), |_| true);
        assert!(error(planned).contains("at a multiple of 256"));
        short.ranges[1].last = 5376;
        assert!(
            error(Plan::of((&short, &even), &division(2, None, None), |_| true))
                .contains("one slice")
        );
    }

    #[test]
    fn what_is_left_to_do_follows_from_the_map() {
        let plan = Plan { range: 2, slice: 7936, to: 4 };
        let mut map = ring();
        assert!(matches!(plan.progress(&map), Ok(Progress::Open(_, None))));
        map.ranges[1].copies.clear();
        assert!(matches!(plan.progress(&map), Ok(Progress::Open(_, Some(_)))));
        map.ranges[1].copies.push(3);
        map.ranges[1].divides = Some((7936, 4));
        assert_eq!(plan.progress(&map), Ok(Progress::Ordered));
        map.ranges[1].divides = Some((8000, 1));
        assert!(plan.progress(&map).is_err_and(|why| why.contains("already")));
        map.ranges[1].divides = None;
        map.ranges[1].last = 6000;
        assert!(plan.progress(&map).is_err_and(|why| why.contains("by another order")));
        map.ranges[1].last = 10_751;
        let upper = Range { id: 4, first: 7936, moves_to: Some(4), ..map.ranges[1].clone() };
        map.ranges[1].last = 7935;
        map.ranges.insert(2, upper);
        map.ranges[1].moves_to = Some(4);
        let text = |map: &Map| plan.progress(map).map(|it| it.text(plan));
        assert!(text(&map).is_ok_and(|it| it.ends_with("range 4 moves to cell 4")));
        map.ranges[2].learner = Some(4);
        assert!(text(&map).is_ok_and(|it| it.ends_with("cell 4 learns range 4")));
        (map.ranges[2].primary, map.ranges[2].learner) = (4, None);
        assert!(text(&map).is_ok_and(|it| it.ends_with("cell 4 becomes a copy of range 2")));
        map.ranges[1].moves_to = None;
        let ranges = (&map.ranges[1], &map.ranges[2]);
        assert_eq!(plan.progress(&map), Ok(Progress::Over(ranges.0, ranges.1)));
        let text = divided(ranges, Duration::from_millis(1500), false);
        assert!(text.contains("range 4: slices 7936-10751, led by cell 4, copies: 3"), "{text}");
        let object = divided(ranges, Duration::from_millis(1500), true);
        assert!(object.contains("\"primary\":4"), "{object}");
        (map.ranges[2].primary, map.ranges[2].moves_to) = (2, None);
        assert!(plan.progress(&map).is_err_and(|why| why.contains("volvox ctl move 4 4")));
    }
}
