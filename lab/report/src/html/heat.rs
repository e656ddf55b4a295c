//! A heat map as inline SVG: shades of one ramp that is safe for colour-blind readers, and the
//! number in every cell, so that no reader needs the shade. Lengths are units of the drawing, not
//! pixels.

use std::fmt::Write as _;

use super::escape::escape;
use crate::figure::{Heat, short};

/// Sizes, in the drawing's own units.
const WIDTH: f64 = 480.0;
const LEFT: f64 = 132.0;
const TOP: f64 = 38.0;
const ROW: f64 = 26.0;

/// Shades from least to most.
const SHADES: f64 = 9.0;

/// Draws `heat`; shades follow the logarithm of the cells.
pub(super) fn draw(heat: &Heat) -> String {
    let cells = heat.rows.iter().flat_map(|(_, cells)| cells.iter().flatten());
    let logs = cells.filter(|cell| **cell > 0.0).map(|cell| cell.log10());
    let low = logs.clone().fold(f64::INFINITY, f64::min);
    let range = (logs.fold(f64::NEG_INFINITY, f64::max) - low).max(1e-9);
    let width = (WIDTH - LEFT) / heat.columns.len().max(1) as f64;
    let height = TOP + heat.rows.len() as f64 * ROW;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escape(&heat.title)
    );
    let middle = LEFT + (WIDTH - LEFT) / 2.0;
    let label = escape(&heat.columns_label);
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"13\" class=\"mid name\">{label}</text>");
    for (nth, name) in heat.columns.iter().enumerate() {
        let at = LEFT + (nth as f64 + 0.5) * width;
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"31\" class=\"mid\">{}</text>", escape(name));
    }
    for (nth, (name, cells)) in heat.rows.iter().enumerate() {
        let top = TOP + nth as f64 * ROW;
        let (left, line) = (LEFT - 8.0, top + ROW * 0.66);
        let name = escape(name);
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{line:.1}\" class=\"end\">{name}</text>");
        for (nth, cell) in cells.iter().enumerate() {
            let (left, shade) =
                (LEFT + nth as f64 * width, cell.map(|cell| shade(cell, low, range)));
            let class = shade.map_or("h-none".to_string(), |shade| format!("h{shade}"));
            let _ = writeln!(
                svg,
                "<rect class=\"cell {class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{ROW}\"/>\
                 <text x=\"{:.1}\" y=\"{line:.1}\" class=\"mid t-{class}\">{}</text>",
                left + width / 2.0,
                cell.map_or("-".to_string(), short)
            );
        }
    }
    svg + "</svg>\n"
}

fn shade(cell: f64, low: f64, range: f64) -> u32 {
    if cell <= 0.0 {
        return 0;
    }
    (((cell.log10() - low) / range * SHADES) as u32).min(SHADES as u32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_a_shade_and_a_number() {
        let svg = draw(&Heat {
            title: "p99".into(),
            note: String::new(),
            columns_label: "rate".into(),
            columns: vec!["30%".into(), "90%".into()],
            rows: vec![
                ("100 B".into(), vec![Some(10.0), Some(1_000.0)]),
                ("1 KB".into(), vec![Some(100.0), None]),
                ("0".into(), vec![Some(0.0)]),
            ],
        });
        assert_eq!(svg.matches("<rect").count(), 5);
        for part in ["cell h0", "cell h4", "cell h8", "cell h-none", ">1000<", ">-<"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }
}
