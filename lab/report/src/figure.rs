//! Figures of a report before they are drawn: axes, points, cells.
//!
//! Pure data. It never says how a figure looks: the page or the text that shows it decides that.
//! Units stand in the labels.

/// How numbers are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By powers of ten.
    Log,
    /// Percentiles, each nine after the point as wide as the one before.
    Percentile,
}

/// One axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How it is laid out.
    pub scale: Scale,
}

impl Axis {
    /// An axis called `label`.
    #[must_use]
    pub fn new(label: &str, scale: Scale) -> Self {
        Self { label: label.to_string(), scale }
    }
}

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Series {
    /// As the legend names it.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
    /// Half widths of the intervals around the points; empty without any.
    pub spread: Vec<f64>,
    /// Whether it is a reference beside the measured lines.
    pub reference: bool,
}

impl Series {
    /// A measured line.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, spread: Vec::new(), reference: false }
    }

    /// A line that measured ones are compared with.
    #[must_use]
    pub fn reference(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { reference: true, ..Self::new(name, points) }
    }
}

/// Lines over two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// A number for every pair of row and column, as shades.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// What the columns are.
    pub columns_label: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows with their cells; an absent cell was not measured.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

/// Words and numbers in columns; the first column names the row.
#[derive(Clone, Debug)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        let head = head.iter().map(|name| (*name).to_string()).collect();
        Self { title: title.into(), head, rows: Vec::new() }
    }
}

/// A part of a page.
#[derive(Clone, Debug)]
pub enum Figure {
    /// Lines.
    Plot(Plot),
    /// Shades.
    Heat(Heat),
    /// Words.
    Table(Table),
    /// Sentences, a paragraph each.
    Text(Vec<String>),
}

impl Figure {
    /// Lines over two axes, with a note on how to read them.
    #[must_use]
    pub fn plot(title: &str, note: &str, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self::Plot(Plot { title: title.to_string(), note: note.to_string(), x, y, series })
    }
}

/// A number with three significant digits, thousands as k and M.
///
/// ```
/// assert_eq!(report::figure::short(12_340.0), "12.3k");
/// ```
#[must_use]
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 999_500.0 => (value / 1e6, "M"),
        size if size >= 9_995.0 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{scaled:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (100.0, "100"),
            (1_234.0, "1234"),
            (12_340.0, "12.3k"),
            (100_000.0, "100k"),
            (1_500_000.0, "1.5M"),
            (-20.0, "-20"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
