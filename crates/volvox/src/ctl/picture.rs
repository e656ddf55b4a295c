//! The ring as a picture of characters.
//!
//! With few ranges it is a circle of all slices, clockwise from the top, and beside each range the
//! cells that have it. With more it is a line of slices for each cell.

use std::f64::consts::TAU;

use super::map::{Map, Range};
use super::style::{Style, Tone};
use super::table::numbers;

/// Most ranges of a circle.
const CIRCLE_RANGES_MAX: usize = 8;
/// Half of the height of the circle, in lines, and half of its width, in columns.
const RADII: (i32, i32) = (5, 15);
/// Points of the circle: more than it has places.
const POINTS: usize = 360;
/// Columns of the lines.
const COLUMNS: usize = 64;
/// All slices.
const SLICES: usize = base::SLICES;

/// A canvas of characters, each with its tone.
struct Canvas(Vec<Vec<(char, Tone)>>);

impl Canvas {
    fn put(&mut self, row: i32, column: i32, text: &str, tone: Tone) {
        let Some(line) = self.0.get_mut(row.max(0) as usize) else { return };
        for (at, mark) in (column.max(0) as usize..).zip(text.chars()) {
            if line.len() <= at {
                line.resize(at + 1, (' ', Tone::Plain));
            }
            line[at] = (mark, tone);
        }
    }

    fn render(&self, style: Style) -> String {
        let mut text = String::new();
        for line in self.0.iter().skip_while(|line| line.is_empty()) {
            let end = line.iter().rposition(|(mark, _)| *mark != ' ').map_or(0, |at| at + 1);
            for run in line[..end].chunk_by(|a, b| a.1 == b.1) {
                let marks: String = run.iter().map(|(mark, _)| mark).collect();
                text += &style.paint(run[0].1, &marks);
            }
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }
}

/// The picture of `map`. `answers` says whether a cell answers.
pub(super) fn picture(map: &Map, answers: impl Fn(u32) -> bool, style: Style) -> String {
    if map.version == 0 {
        let (cell, voters) = (map.cell, numbers(map.voters.iter().copied()));
        return format!("Cell {cell} has no map yet: it has heard none of the voters {voters}.\n");
    }
    if map.ranges.is_empty() {
        let (has, wanted) = (map.cells.len() - map.witnesses().count(), map.cells_wanted);
        return format!("The ring forms when {wanted} cells have joined; there are {has}.\n");
    }
    let tone = |range: &Range| {
        if range.serves == Some(false) || !answers(range.primary) {
            Tone::Bad
        } else if range.in_sync().filter(|cell| answers(*cell)).count() < map.copies_wanted {
            Tone::Warn
        } else {
            Tone::Good
        }
    };
    if map.ranges.len() <= CIRCLE_RANGES_MAX {
        circle(map, tone, style).render(style)
    } else {
        lines(map, answers, style).render(style)
    }
}

fn circle(map: &Map, tone: impl Fn(&Range) -> Tone, style: Style) -> Canvas {
    let mut canvas = Canvas(vec![Vec::new(); 2 * RADII.0 as usize + 4]);
    let place = |slice: usize, out: f64| {
        let angle = TAU * slice as f64 / SLICES as f64;
        let row = -angle.cos() * (f64::from(RADII.0) + out);
        (row.round() as i32 + RADII.0 + 1, angle.sin() * (f64::from(RADII.1) + 3.0 * out))
    };
    let labels = map.ranges.iter().map(|range| {
        let middle = if map.ranges.len() == 1 { 0 } else { range.first.midpoint(range.last + 1) };
        let (row, column) = place(middle, 1.0);
        let (text, column) = (describe(range, style), column.round() as i32);
        let length = text.chars().count() as i32;
        let column = match column {
            -1..=1 => -length / 2,
            right @ 2.. => right,
            left => left - length + 1,
        };
        (row, column, text, tone(range))
    });
    let labels: Vec<_> = labels.collect();
    let left = labels.iter().map(|(_, column, ..)| -column).max().unwrap_or(0);
    let centre = left.max(RADII.1);
    let dot = |tone| match tone {
        Tone::Bad => "x",
        Tone::Warn => "o",
        _ if style.unicode => "\u{2022}",
        _ => "*",
    };
    for point in 0..POINTS {
        let slice = point * SLICES / POINTS;
        let Some(range) = map.range_of(slice) else { continue };
        let (row, column) = place(slice, 0.0);
        let tone = tone(range);
        canvas.put(row, centre + column.round() as i32, dot(tone), tone);
    }
    if map.ranges.len() > 1 {
        for range in &map.ranges {
            let (row, column) = place(range.first, 0.0);
            canvas.put(row, centre + column.round() as i32, "+", Tone::Plain);
        }
    }
    let is_well = labels.iter().all(|(.., tone)| *tone == Tone::Good);
    for (row, column, text, tone) in labels {
        canvas.put(row, centre + column, &text, tone);
    }
    if !is_well {
        let key = format!("{} has its copies   o lacks copies   x is not served", dot(Tone::Good));
        let row = canvas.0.len() as i32 - 1;
        canvas.put(row, centre - key.chars().count() as i32 / 2, &key, Tone::Dim);
    }
    let inside = [
        format!("ring {}", map.ring),
        format!("map {}", map.version),
        format!("copies wanted: {}", map.copies_wanted),
    ];
    for (row, text) in (RADII.0..).zip(inside) {
        canvas.put(row, centre - text.chars().count() as i32 / 2, &text, Tone::Dim);
    }
    canvas
}

/// `range 1: cell 1 -> 2, 3`.
fn describe(range: &Range, style: Style) -> String {
    let copies: Vec<_> = range.copies.iter().map(u32::to_string).collect();
    let copies = if copies.is_empty() { "none".to_owned() } else { copies.join(", ") };
    let learns = range.learner.map(|cell| format!(" ({cell} learns)")).unwrap_or_default();
    let (id, primary, arrow) = (range.id, range.primary, style.arrow());
    format!("range {id}: cell {primary} {arrow} {copies}{learns}")
}

/// What a cell is to each part of the slices.
fn lines(map: &Map, answers: impl Fn(u32) -> bool, style: Style) -> Canvas {
    let [leads, copies, learns, nothing] =
        if style.unicode { ["\u{2588}", "\u{2592}", "~", "\u{b7}"] } else { ["#", "=", "~", "."] };
    let mut canvas = Canvas(vec![Vec::new(); map.cells.len() + 3]);
    let first = 12;
    for quarter in 0..4 {
        let column = quarter * COLUMNS / 4;
        let slice = (column * SLICES / COLUMNS).to_string();
        canvas.put(0, (first + column) as i32, &slice, Tone::Dim);
    }
    for (row, cell) in (1..).zip(map.cells.keys().copied()) {
        let is_there = answers(cell);
        let tone = if is_there { Tone::Plain } else { Tone::Bad };
        canvas.put(row, 0, &format!("cell {cell}"), tone);
        for column in 0..COLUMNS {
            let slice = (column * SLICES + SLICES / 2) / COLUMNS;
            let Some(range) = map.range_of(slice) else { continue };
            let mark = match range {
                range if range.primary == cell => leads,
                range if range.copies.contains(&cell) => copies,
                range if range.learner == Some(cell) => learns,
                _ => nothing,
            };
            let tone = match mark {
                _ if !is_there => Tone::Bad,
                mark if mark == nothing => Tone::Dim,
                _ if range.in_sync().count() < map.copies_wanted => Tone::Warn,
                _ => Tone::Good,
            };
            canvas.put(row, (first + column) as i32, mark, tone);
        }
    }
    let key = format!("{leads} leads   {copies} copies   {learns} learns   slices from 0 to 16383");
    canvas.put(map.cells.len() as i32 + 2, first as i32, &key, Tone::Dim);
    canvas
}

#[cfg(test)]
mod tests {
    use super::super::map::tests::two_of_three;
    use super::*;

    #[test]
    fn few_ranges_are_a_circle() {
        let map = Map::parse(&two_of_three()).expect("it can be read");
        let expected = "                             ******+oooooo
                        *****             ooooo
range 3: cell 3 -> 2  ***                     ooo  range 1: cell 2 -> none (3 learns)
                     **                         oo
                    **   ring 94684a67169ad909   oo
                    *            map 9            o
                    **     copies wanted: 2      oo
                     **                         +o
                      +xx                     xxx
                        xxxxx             xxxxx
                             xxxxxxxxxxxxx
                         range 2: cell 2 -> 3
          * has its copies   o lacks copies   x is not served
";
        assert_eq!(picture(&map, |cell| cell != 1, Style::default()), expected);
    }

    #[test]
    fn many_ranges_are_a_line_for_each_cell() {
        let slices = SLICES / 16;
        let range = |at: usize| Range {
            id: at as u32 + 1,
            first: at * slices,
            last: (at + 1) * slices - 1,
            primary: at as u32 % 3 + 1,
            copies: if at == 4 { vec![] } else { vec![(at as u32 + 1) % 3 + 1] },
            learner: (at == 4).then_some(1),
            ..Range::default()
        };
        let cells = (1..=3).map(|id| (id, super::super::map::Member::default())).collect();
        let ranges = (0..16).map(range).collect();
        let map = Map { version: 9, copies_wanted: 2, cells, ranges, ..Map::default() };
        let expected = "            0               4096            8192            12288
cell 1      ####....====####~~~~====####....====####....====####....====####
cell 2      ====####....====####....====####....====####....====####....====
cell 3      ....====####........####....====####....====####....====####....

            # leads   = copies   ~ learns   slices from 0 to 16383
";
        assert_eq!(picture(&map, |_| true, Style::default()), expected);
    }

    #[test]
    fn before_the_ring_has_formed_it_says_so() {
        let map = Map { version: 1, cells_wanted: 3, ..Map::default() };
        let expected = "The ring forms when 3 cells have joined; there are 0.\n";
        assert_eq!(picture(&map, |_| true, Style::default()), expected);
        let map = Map { cell: 3, voters: vec![1, 2, 3], ..Map::default() };
        let expected = "Cell 3 has no map yet: it has heard none of the voters 1-3.\n";
        assert_eq!(picture(&map, |_| true, Style::default()), expected);
    }
}
