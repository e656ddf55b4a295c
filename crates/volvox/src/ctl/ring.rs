//! `ctl ring`: the picture of the ring, the table of its cells, and what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::loss::{Loss, losses};
use super::map::{Map, Member, Range};
use super::ops::operations;
use super::picture::picture;
use super::style::{Style, Tone};
use super::survey::{Answer, Asked, Survey};
use super::table::{Table, bytes, numbers, plural, ranges};
use super::time::{date, span};

/// A clock that is further from the time of the ring is wrong.
const CLOCK_WRONG_S: u64 = 2;
/// How often a ring is asked whether it is at rest.
const LOOK: Duration = Duration::from_millis(200);

/// Prints what there is.
pub(super) fn print(
    survey: &Survey,
    as_json: bool,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let losses = losses(survey);
    if as_json {
        return writeln!(out, "{}", to_json(survey, &losses));
    }
    let map = &survey.map;
    let answers: BTreeSet<_> = survey.answers().map(|(id, ..)| id).collect();
    writeln!(out, "{}", picture(map, |cell| answers.contains(&cell), style))?;
    writeln!(out, "{}", cells(survey, &losses, style).render(style))?;
    for (tone, line) in findings(survey, &losses) {
        writeln!(out, "{}", style.paint(tone, &line))?;
    }
    Ok(())
}

/// Asks the ring again until it is at rest, for at most `wait`. Returns what it was at last, and
/// whether it is at rest.
///
/// # Errors
/// Why no cell has answered the last time.
pub(super) fn await_rest(
    take: impl Fn() -> Result<Survey, Box<dyn Error>>,
    wait: Duration,
) -> Result<(Survey, bool), Box<dyn Error>> {
    let begin = Instant::now();
    loop {
        let taken = take();
        let is_at_rest = taken.as_ref().is_ok_and(is_at_rest);
        if is_at_rest || begin.elapsed() >= wait {
            return Ok((taken?, is_at_rest));
        }
        sleep(LOOK.min(wait.saturating_sub(begin.elapsed())));
    }
}

/// Whether each cell answers by the same map and is heard by all others, each range is served and
/// has its copies, and nothing is under way.
fn is_at_rest(survey: &Survey) -> bool {
    let map = &survey.map;
    let is_well = |answer: &Answer| {
        let serves = answer.map.ranges.iter().all(|range| range.serves != Some(false));
        answer.map.version == map.version && serves && not_heard(answer).next().is_none()
    };
    let waits = map.ranges.iter().any(|range| range.waits_for_operator);
    survey.cells.values().all(|asked| asked.answer.as_ref().is_ok_and(is_well))
        && !map.ranges.is_empty()
        && !waits
        && map.short().next().is_none()
        && operations(map).is_empty()
}

/// What a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It may answer for all that it leads, or copies only.
    Serves,
    /// It leads a range for which it may not answer now.
    Waits,
    /// It goes by an older map than others do.
    Late,
    /// It has no part in any range.
    Spare,
    /// It leaves the ring, and has a part in some range still.
    IsDrained,
    IsAbsorbed,
    /// The same, and it has none any more.
    Drained,
    Absorbed,
    /// It does not answer.
    Silent,
}

impl State {
    fn of(map: &Map, id: u32, asked: &Asked) -> Self {
        let Ok(answer) = &asked.answer else { return Self::Silent };
        let has = |range: &Range| range.in_sync().chain(range.learner).any(|cell| cell == id);
        if answer.map.version < map.version {
            Self::Late
        } else if answer.map.ranges.iter().any(|range| range.serves == Some(false)) {
            Self::Waits
        } else if let Some(how) = map.cells.get(&id).and_then(|cell| cell.leaves.as_deref()) {
            match (map.ranges.iter().any(has), how) {
                (true, "absorbed") => Self::IsAbsorbed,
                (true, _) => Self::IsDrained,
                (false, "absorbed") => Self::Absorbed,
                (false, _) => Self::Drained,
            }
        } else if map.ranges.iter().any(has) {
            Self::Serves
        } else {
            Self::Spare
        }
    }

    fn name(self) -> (&'static str, Tone) {
        match self {
            Self::Serves => ("serves", Tone::Good),
            Self::Waits => ("waits", Tone::Warn),
            Self::Late => ("older map", Tone::Warn),
            Self::Spare => ("spare", Tone::Plain),
            Self::IsDrained => ("is drained", Tone::Warn),
            Self::IsAbsorbed => ("is absorbed", Tone::Warn),
            Self::Drained => ("drained", Tone::Plain),
            Self::Absorbed => ("absorbed", Tone::Plain),
            Self::Silent => ("no answer", Tone::Bad),
        }
    }
}

/// The ranges that a cell leads, and those that it copies.
fn parts(map: &Map, cell: u32) -> (Vec<u32>, Vec<u32>) {
    let led = map.ranges.iter().filter(|range| range.primary == cell);
    let copied = map.ranges.iter().filter(|range| range.copies.contains(&cell));
    (led.map(|range| range.id).collect(), copied.map(|range| range.id).collect())
}

fn cells(survey: &Survey, losses: &BTreeMap<u32, Loss>, style: Style) -> Table {
    let _ = style;
    let mut table = Table::new(&[
        "cell",
        "clients",
        "state",
        "leads",
        "copies",
        ">items",
        ">bytes",
        ">limit",
        ">evictions",
        "if it ends",
    ]);
    for (id, asked) in &survey.cells {
        let (led, copied) = parts(&survey.map, *id);
        let (state, tone) = State::of(&survey.map, *id, asked).name();
        let mut row: Vec<_> =
            [id.to_string(), asked.at.clone()].map(|text| (text, Tone::Plain)).to_vec();
        row.push((state.to_owned(), tone));
        row.extend([led, copied].map(|ids| (numbers(ids), Tone::Plain)));
        match &asked.answer {
            Ok(Answer { memory, evictions, .. }) => {
                let counts = [
                    memory.items.to_string(),
                    bytes(memory.item_bytes),
                    bytes(memory.limit),
                    evictions.to_string(),
                ];
                row.extend(counts.map(|text| (text, Tone::Plain)));
                row.push(verdict(&losses[id]));
            }
            Err(_) => row.extend(std::iter::repeat_n(("-".to_owned(), Tone::Dim), 5)),
        }
        table.row(row);
    }
    for (id, witness) in survey.map.witnesses() {
        let (state, tone) = match witness.is_heard {
            Some(false) => ("witness, not heard", Tone::Bad),
            _ => ("witness", Tone::Plain),
        };
        let mut row: Vec<_> =
            [id.to_string(), witness.control.clone()].map(|text| (text, Tone::Plain)).to_vec();
        row.push((state.to_owned(), tone));
        row.extend(std::iter::repeat_n(("-".to_owned(), Tone::Dim), 7));
        table.row(row);
    }
    table
}

/// What follows from the end of a cell, in a few words.
pub(super) fn verdict(loss: &Loss) -> (String, Tone) {
    if !loss.lost.is_empty() {
        return (format!("items of {} are lost", ranges(&loss.lost)), Tone::Bad);
    }
    if let Some((left, all)) = loss.few_voters {
        let left = plural(left, "voter");
        return (format!("{left} of {all} would be left: the map could not change"), Tone::Bad);
    }
    if !loss.lacks.is_empty() {
        let lacks =
            loss.lacks.iter().map(|(cell, lacks)| format!("cell {cell} by {}", bytes(*lacks)));
        let lacks = lacks.collect::<Vec<_>>().join(", ");
        return (format!("memory is short: {lacks}"), Tone::Warn);
    }
    if !loss.uncopied.is_empty() {
        return ("fewer copies".to_owned(), Tone::Warn);
    }
    ("nothing is evicted".to_owned(), Tone::Plain)
}

/// What is wrong, or that nothing is.
fn findings(survey: &Survey, losses: &BTreeMap<u32, Loss>) -> Vec<(Tone, String)> {
    let map = &survey.map;
    let mut lines = Vec::new();
    for (id, asked) in &survey.cells {
        if let Err(reason) = &asked.answer {
            lines.push((Tone::Bad, format!("cell {id} does not answer: {reason}")));
        }
    }
    for (id, _, answer) in survey.answers() {
        lines.extend(clocks(id, answer).map(|line| (Tone::Warn, line)));
        if answer.map.version < map.version {
            let (has, newest) = (answer.map.version, map.version);
            let line = format!("cell {id} goes by map {has}, others by {newest}");
            lines.push((Tone::Warn, line));
        }
        let waits = answer.map.ranges.iter().filter(|range| range.serves == Some(false));
        let waits = waits.filter(|range| !range.waits_for_operator);
        lines.extend(waits.map(|range| {
            let line = format!("range {}: cell {id} leads it and may not answer now", range.id);
            (Tone::Bad, line)
        }));
        // Those that answer here are not heard there: the network between them is broken.
        let unheard = not_heard(answer).filter(|cell| losses.contains_key(cell));
        let unheard = numbers(unheard);
        if unheard != "-" {
            lines.push((Tone::Bad, format!("cell {id} does not hear cell {unheard}")));
        }
    }
    let waiting = map.ranges.iter().filter(|range| range.waits_for_operator);
    lines.extend(waiting.map(|range| {
        let what = "its last copy has lost its journal, and nobody serves it: see ctl forgive";
        (Tone::Bad, format!("range {}: {what}", range.id))
    }));
    lines.extend(operations(map).into_iter().map(|it| (Tone::Plain, it.text)));
    lines.extend(map.short().map(|range| (Tone::Warn, short(survey, range))));
    if map.losses > 0 {
        let lost = map.ranges.iter().filter(|range| range.losses > 0);
        let lost = lost.map(|range| format!("range {} {}", range.id, plural_times(range.losses)));
        let lost = lost.collect::<Vec<_>>().join(", ");
        lines.push((Tone::Bad, format!("last copies lost, and begun again empty: {lost}")));
    }
    let answers = |cell: &u32| losses.contains_key(cell);
    let unled = map.ranges.iter().filter(|range| !answers(&range.primary));
    lines.extend(unled.map(|range| match range.in_sync().find(answers) {
        Some(copy) => {
            let line =
                format!("range {}: its primary does not answer; cell {copy} has it", range.id);
            (Tone::Bad, line)
        }
        None => {
            let id = range.id;
            let what = "no cell that has it answers: start one again, or see ctl forgive";
            (Tone::Bad, format!("range {id}: {what}"))
        }
    }));
    let holders = || map.ranges.iter().flat_map(Range::in_sync);
    if map.short().next().is_none() && !map.ranges.is_empty() && holders().all(|it| answers(&it)) {
        let (ranges, copies) = (plural(map.ranges.len(), "range"), map.copies_wanted);
        let line = format!("{ranges}, copies in sync of each: {copies} of {copies}");
        lines.push((Tone::Good, line));
    }
    if !matches!((map.durability.as_str(), map.reads.as_str()), ("", _) | ("d1", "lease")) {
        lines.push((Tone::Plain, format!("changes at {}, reads by {}", map.durability, map.reads)));
    }
    lines.extend(agreement(survey));
    if map.version > 0 {
        lines.extend(worst(losses.values()));
    }
    lines
}

/// What a cell says of wrong clocks.
fn clocks(id: u32, answer: &Answer) -> impl Iterator<Item = String> {
    let side = |ahead_s: i64| if ahead_s > 0 { "ahead of" } else { "behind" };
    let ahead_s = answer.map.clock_ahead_s;
    let wall = (ahead_s.unsigned_abs() > CLOCK_WRONG_S).then(|| {
        let seconds = ahead_s.unsigned_abs();
        let side = side(ahead_s);
        format!("cell {id}: the clock of its machine is {seconds} s {side} the time of the ring")
    });
    let apart = answer.map.cells.iter().filter_map(move |(cell, of)| {
        let ahead_s = of.time_ahead_s?;
        let (seconds, side) = (ahead_s.unsigned_abs(), side(ahead_s));
        Some(format!("cell {cell} expires items {seconds} s {side} cell {id}: start one again"))
    });
    wall.into_iter().chain(apart)
}

/// The cells that a cell does not hear.
fn not_heard(answer: &Answer) -> impl Iterator<Item = u32> {
    let cells = answer.map.cells.iter();
    cells.filter(|(_, cell)| cell.is_heard == Some(false)).map(|(id, _)| *id)
}

/// What the end of one cell would cost at worst.
fn worst<'a>(losses: impl Iterator<Item = &'a Loss> + Clone) -> Option<(Tone, String)> {
    let has = |part: fn(&Loss) -> bool| losses.clone().any(part);
    losses.clone().next()?;
    let (tone, line) = if has(|loss| !loss.lost.is_empty()) {
        (Tone::Bad, "the end of one more cell would lose items: it has the last copy of a range")
    } else if has(|loss| loss.few_voters.is_some()) {
        (
            Tone::Bad,
            "the end of one more cell would stop the ring: half of the voters or fewer would be \
             left; start one again, or add a cell or a witness",
        )
    } else if has(|loss| !loss.lacks.is_empty()) {
        (
            Tone::Warn,
            "the end of one cell would evict items, or leave no space for their copies: \
                      raise the limits, or store less",
        )
    } else if has(|loss| !loss.uncopied.is_empty()) {
        (Tone::Warn, "the end of one cell would leave fewer copies: add a cell")
    } else {
        (Tone::Good, "the end of any one cell would evict nothing")
    };
    Some((tone, line.to_owned()))
}

fn plural_times(times: u32) -> String {
    if times == 1 { "once".to_owned() } else { format!("{times} times") }
}

/// Who votes, by what the cell with the newest map says.
fn agreement(survey: &Survey) -> Option<(Tone, String)> {
    let voters = &survey.map.voters;
    let answer = survey.living_voters().len();
    if voters.is_empty() {
        return None;
    }
    let (all, shown) = (voters.len(), numbers(voters.iter().copied()));
    if answer * 2 <= all {
        let line = format!("voters: {shown}; {answer} of {all} answer: the map cannot change");
        return Some((Tone::Bad, line));
    }
    let leader = survey.map.leader.map_or_else(|| "none".to_owned(), |cell| format!("cell {cell}"));
    Some((Tone::Plain, format!("voters: {shown}; the agreement is led by {leader}")))
}

/// A range that lacks copies: how many it has, who learns it, since when.
fn short(survey: &Survey, range: &Range) -> String {
    let (has, wanted) = (range.in_sync().count(), survey.map.copies_wanted);
    let copies = if has == 1 { "copy" } else { "copies" };
    let learns = match range.learner {
        Some(cell) => format!("cell {cell} learns it"),
        None => "no cell learns it".to_owned(),
    };
    let since = short_since(survey, range.id).map(|(since_s, now_s)| {
        let ago = span(now_s.saturating_sub(since_s));
        format!(", since {} UTC ({ago})", date(since_s))
    });
    let since = since.unwrap_or_default();
    format!("range {}: {has} {copies} of {wanted}{since}; {learns}", range.id)
}

/// Since when a range lacks a copy, as the cell saw it that saw it first, and the second now.
fn short_since(survey: &Survey, range: u32) -> Option<(u64, u64)> {
    let seen = survey.answers().filter_map(|(_, _, answer)| {
        let range = answer.map.ranges.iter().find(|it| it.id == range)?;
        Some((range.short_since_s?, answer.time_s))
    });
    seen.min()
}

fn of_witness((id, witness): (u32, &Member)) -> Value {
    json!({ "cell": id, "control": witness.control, "heard": witness.is_heard })
}

fn of_range(survey: &Survey, range: &Range) -> Value {
    let serves = || {
        let (_, _, answer) = survey.answers().find(|(id, ..)| *id == range.primary)?;
        answer.map.ranges.iter().find(|it| it.id == range.id)?.serves
    };
    json!({
        "range": range.id,
        "slices": [range.first, range.last],
        "primary": range.primary,
        "copies": range.copies,
        "learner": range.learner,
        "moves_to": range.moves_to,
        "leaves": range.leaves,
        "unites_with": range.unites_with,
        "home": range.home,
        "absorbed": range.is_absorbed,
        "divides": range.divides.map(|(slice, cell)| json!({ "slice": slice, "cell": cell })),
        "journals": range.journals,
        "waits_for_operator": range.waits_for_operator,
        "epoch": range.epoch,
        "losses": range.losses,
        "serves": serves(),
        "is_short": range.in_sync().count() < survey.map.copies_wanted,
        "short_since_s": short_since(survey, range.id).map(|(since_s, _)| since_s),
    })
}

fn to_json(survey: &Survey, losses: &BTreeMap<u32, Loss>) -> Value {
    let map = &survey.map;
    let cell = |(id, asked): (&u32, &Asked)| {
        let (led, copied) = parts(map, *id);
        let (state, _) = State::of(map, *id, asked).name();
        let answer = asked.answer.as_ref().ok();
        let memory = answer.map(|answer| answer.memory);
        let loss = losses.get(id);
        json!({
            "cell": id,
            "clients": asked.at,
            "start": map.cells.get(id).map(|cell| cell.start),
            "state": state,
            "reason": asked.answer.as_ref().err(),
            "map_version": answer.map(|answer| answer.map.version),
            "leads": led,
            "copies": copied,
            "items": memory.map(|it| it.items),
            "bytes": memory.map(|it| it.item_bytes),
            "limit_bytes": memory.map(|it| it.limit),
            "evictions": answer.map(|answer| answer.evictions),
            "unconfirmed": answer.map(|answer| &answer.map.unconfirmed),
            "clock_ahead_s": answer.map(|answer| answer.map.clock_ahead_s),
            "not_heard": answer.map(|answer| not_heard(answer).collect::<Vec<_>>()),
            "if_it_ends": loss.map(|loss| json!({
                "map_can_change": loss.few_voters.is_none(),
                "evicts": !loss.lacks.is_empty(),
                "lacks_bytes": loss.lacks,
                "ranges_lost": loss.lost,
                "ranges_without_a_cell_for_a_copy": loss.uncopied,
            })),
        })
    };
    json!({
        "ring": map.ring,
        "map_version": map.version,
        "cells_wanted": map.cells_wanted,
        "copies_wanted": map.copies_wanted,
        "durability": map.durability,
        "reads": map.reads,
        "losses": map.losses,
        "leader": map.leader,
        "voters": map.voters,
        "cells": survey.cells.iter().map(cell).collect::<Vec<_>>(),
        "witnesses": map.witnesses().map(of_witness).collect::<Vec<_>>(),
        "ranges": map.ranges.iter().map(|range| of_range(survey, range)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::survey::Memory;
    use super::*;

    /// What is said if the cells `answer`, of a ring with these voters, whose only range is at the
    /// first two cells.
    fn said(voters: &[u32], answer: &[u32], copies: usize) -> (String, String, Value) {
        let mut map =
            Map { version: 1, copies_wanted: copies, voters: voters.to_vec(), ..Map::default() };
        map.ranges = vec![Range { id: 1, primary: answer[0], ..Range::default() }];
        map.ranges[0].copies = answer[1..copies].to_vec();
        let asked = |id: &u32| {
            let memory = Memory { limit: 1 << 20, ..Memory::default() };
            let answer = Ok(Answer { map: map.clone(), memory, time_s: 0, evictions: 0 });
            (*id, Asked { at: String::new(), answer })
        };
        let survey = Survey { cells: answer.iter().map(asked).collect(), map: map.clone() };
        let losses = losses(&survey);
        let last = findings(&survey, &losses).pop().expect("a line").1;
        let ends = &to_json(&survey, &losses)["cells"][0]["if_it_ends"];
        (verdict(&losses[&answer[0]]).0, last, ends["map_can_change"].clone())
    }

    #[test]
    fn where_too_few_voters_would_be_left_the_end_of_a_cell_stops_the_ring() {
        let nothing = ("nothing is evicted", "the end of any one cell would evict nothing", true);
        let stops = "the end of one more cell would stop the ring: half of the voters or fewer \
                     would be left; start one again, or add a cell or a witness";
        let of_five = "2 voters of 5 would be left: the map could not change";
        let of_three = "1 voter of 3 would be left: the map could not change";
        let of_one = "0 voters of 1 would be left: the map could not change";
        type Case<'a> = (&'a [u32], &'a [u32], (&'a str, &'a str, bool));
        let cases: [Case<'_>; 6] = [
            (&[1, 2, 3, 4, 5], &[1, 2, 3, 4], nothing),
            (&[1, 2, 3, 4, 5], &[1, 2, 3], (of_five, stops, false)),
            (&[1, 2, 3], &[1, 2, 3], nothing),
            (
                &[1, 2, 3],
                &[1, 4, 5],
                ("0 voters of 3 would be left: the map could not change", stops, false),
            ),
            // Nobody leads the ranges of any cell that ends then.
            (&[1, 2, 3], &[4, 5, 1], (of_three, stops, false)),
            (&[1], &[1, 2, 3], (of_one, stops, false)),
        ];
        for (voters, answer, expected) in cases {
            let (verdict, last, can_change) = said(voters, answer, 2);
            assert_eq!(
                (&*verdict, &*last, can_change),
                (expected.0, expected.1, json!(expected.2))
            );
        }
    }
}
