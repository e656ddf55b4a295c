//! A plot as inline SVG: lines that differ in colour, dash and mark, so that any one is enough.
//!
//! Lengths are units of the drawing, not pixels. Invariant: every point lies inside the frame.

use std::fmt::Write as _;

use super::escape::escape;
use super::scale::Ruler;
use crate::figure::{Plot, Series};

/// Size of the drawing, in its own units; small, so that letters stay legible on a phone.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;

/// Margins for the names of the axes and their marks.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

/// Lines that look different before looks repeat: measured lines, and references.
const LOOKS: usize = 8;
const REFERENCE_LOOKS: usize = 2;

/// The most points of a line with marks; a denser line has none.
const MARKED_MAX: usize = 30;

/// Draws `plot`.
pub(super) fn draw(plot: &Plot) -> String {
    let points = || plot.series.iter().flat_map(|series| series.points.iter().copied());
    let x = Ruler::new(plot.x.scale, points().map(|(x, _)| x));
    let reach = |series: &Series| -> Vec<f64> {
        let spread = series.spread.iter().copied().chain(std::iter::repeat(0.0));
        series.points.iter().zip(spread).map(|((_, y), half)| y + half).collect()
    };
    let tops: Vec<f64> = plot.series.iter().flat_map(reach).collect();
    let y = Ruler::new(plot.y.scale, tops.iter().copied());
    let at_x = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
    let at_y = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM);

    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escape(&plot.title)
    );
    grid(&mut svg, plot, &x, &y);
    for (series, (class, look)) in plot.series.iter().zip(looks(&plot.series)) {
        let placed: Vec<(f64, f64)> =
            series.points.iter().map(|(x, y)| (at_x(*x), at_y(*y))).collect();
        let path: Vec<String> = placed.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polyline class=\"line {class}\" points=\"{}\"/>", path.join(" "));
        for ((point, half), (left, _)) in series.points.iter().zip(&series.spread).zip(&placed) {
            let (low, high) = (at_y(point.1 - half), at_y(point.1 + half));
            let _ =
                writeln!(svg, "<path class=\"bar {class}\" d=\"M{left:.1} {low:.1}V{high:.1}\"/>");
        }
        if !series.reference && placed.len() <= MARKED_MAX {
            for (x, y) in &placed {
                let _ = writeln!(svg, "{}", mark(&class, look, *x, *y));
            }
        }
    }
    svg.push_str("</svg>\n");
    svg + &legend(&plot.series)
}

/// The class of every line, and its number among its kind from 1: measured lines and references
/// have looks of their own.
fn looks(series: &[Series]) -> Vec<(String, usize)> {
    let (mut measured, mut references) = (0, 0);
    let look = |line: &Series| {
        if line.reference {
            references += 1;
            (format!("ref ref{}", (references - 1) % REFERENCE_LOOKS), references)
        } else {
            measured += 1;
            (format!("s{}", (measured - 1) % LOOKS), measured)
        }
    };
    series.iter().map(look).collect()
}

/// The grid, and the names on both axes.
fn grid(svg: &mut String, plot: &Plot, x: &Ruler, y: &Ruler) {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for (place, name) in y.marks() {
        let at = floor - place * (floor - TOP);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>");
        let (left, at) = (LEFT - 6.0, at + 4.0);
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{at:.1}\" class=\"end\">{name}</text>");
    }
    let mut free_from = f64::NEG_INFINITY;
    for (place, name) in x.marks() {
        let at = LEFT + place * (right - LEFT);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {TOP}V{floor}\"/>");
        // A name that would run into the one before it is left out; its line stays.
        let half = name.len() as f64 * 3.6;
        if at - half > free_from {
            let under = floor + 17.0;
            let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{under}\" class=\"mid\">{name}</text>");
            free_from = at + half + 6.0;
        }
    }
    let (middle, under) = ((LEFT + right) / 2.0, HEIGHT - 9.0);
    let label = escape(&plot.x.label);
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{under}\" class=\"mid name\">{label}</text>");
    let (beside, middle) = (13, (TOP + floor) / 2.0);
    let label = escape(&plot.y.label);
    let _ = writeln!(
        svg,
        "<text transform=\"translate({beside} {middle})rotate(-90)\" class=\"mid name\">{label}\
         </text>"
    );
}

/// The mark of the `look`th line at a point: disc, square, triangle, lozenge, in turn.
fn mark(class: &str, look: usize, x: f64, y: f64) -> String {
    match look % 4 {
        1 => format!("<circle class=\"mark {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"),
        2 => {
            let (left, top) = (x - 2.8, y - 2.8);
            format!(
                "<rect class=\"mark {class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"5.6\" \
                 height=\"5.6\"/>"
            )
        }
        3 => format!("<path class=\"mark {class}\" d=\"M{x:.1} {:.1}l3.6 6.2h-7.2z\"/>", y - 4.0),
        _ => format!(
            "<path class=\"mark {class}\" d=\"M{x:.1} {:.1}l3.8 3.8l-3.8 3.8l-3.8 -3.8z\"/>",
            y - 3.8
        ),
    }
}

/// Names of the lines, each beside a piece of its line.
fn legend(series: &[Series]) -> String {
    if series.len() < 2 {
        return String::new();
    }
    let mut html = "<ul class=\"legend\">\n".to_string();
    for (line, (class, look)) in series.iter().zip(looks(series)) {
        let sign = if line.reference { String::new() } else { mark(&class, look, 14.0, 6.0) };
        let _ = writeln!(
            html,
            "<li><svg viewBox=\"0 0 28 12\" aria-hidden=\"true\"><path class=\"line {class}\" \
             d=\"M0 6H28\"/>{sign}</svg>{}</li>",
            escape(&line.name)
        );
    }
    html.push_str("</ul>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Axis, Scale};

    fn plot(series: Vec<Series>) -> Plot {
        Plot {
            title: "a < b".into(),
            note: String::new(),
            x: Axis::new("x", Scale::Linear),
            y: Axis::new("y", Scale::Log),
            series,
        }
    }

    #[test]
    fn every_line_is_drawn_inside_the_frame() {
        let spread =
            Series { spread: vec![5.0, 9.0], ..Series::new("b", vec![(0.0, 10.0), (9.0, 10.0)]) };
        let svg = draw(&plot(vec![
            Series::new("a", vec![(0.0, 1.0), (10.0, 1e6)]),
            spread,
            Series::reference("c & d", vec![(0.0, 5.0), (10.0, 5.0)]),
        ]));
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert_eq!(svg.matches("class=\"bar").count(), 2);
        assert!(svg.contains("aria-label=\"a &lt; b\"") && svg.contains("c &amp; d"));
        for points in svg.split("points=\"").skip(1) {
            for pair in points.split('"').next().unwrap().split(' ') {
                let (x, y) = pair.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!((LEFT..=WIDTH - RIGHT).contains(&x), "{x}");
                assert!((TOP..=HEIGHT - BOTTOM).contains(&y), "{y}");
            }
        }
    }

    #[test]
    fn nothing_to_draw_is_drawn() {
        assert!(draw(&plot(Vec::new())).contains("</svg>"));
        let one = draw(&plot(vec![Series::new("a", vec![(1.0, f64::NAN)])]));
        assert!(!one.contains("NaN"), "{one}");
    }
}
