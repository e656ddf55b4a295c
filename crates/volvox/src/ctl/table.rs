//! Tables for people: aligned columns, short numbers, short lists.

use super::style::{Style, Tone};

/// Between two columns.
const GAP: &str = "  ";

/// Rows with as many cells as the head.
pub(super) struct Table {
    head: Vec<(&'static str, bool)>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    /// A table without rows. A column whose name begins with `>` is aligned to the right.
    pub(super) fn new(head: &[&'static str]) -> Self {
        let column = |name: &&'static str| {
            (name.trim_start_matches('>'), name.trim_start_matches('>') != *name)
        };
        Self { head: head.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<(String, Tone)>) {
        assert_eq!(cells.len(), self.head.len(), "invariant: a row has a cell for every column");
        self.rows.push(cells);
    }

    /// The table as text.
    pub(super) fn render(&self, style: Style) -> String {
        let head: Vec<_> = self.head.iter().map(|it| (it.0.to_owned(), Tone::Dim)).collect();
        let rows = || std::iter::once(&head).chain(&self.rows);
        let mut text = String::new();
        let widths: Vec<_> = (0..head.len())
            .map(|at| rows().map(|row| row[at].0.chars().count()).max().unwrap_or(0))
            .collect();
        for row in rows() {
            let mut line = String::new();
            let mut gap = String::new();
            for (at, (cell, tone)) in row.iter().enumerate() {
                let pad = " ".repeat(widths[at] - cell.chars().count());
                let painted = style.paint(*tone, cell);
                let (before, after) = if self.head[at].1 { (&*pad, "") } else { ("", &*pad) };
                if !cell.is_empty() {
                    line = line + &gap + before + &painted;
                    gap = after.to_owned() + GAP;
                } else {
                    gap = gap + &pad + GAP;
                }
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Bytes in a unit that leaves at most four digits: `812`, `1.5K`, `64M`.
pub(super) fn bytes(bytes: u64) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1023.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let has_part = unit > 0 && value < 99.95 && (value * 10.0).round() % 10.0 != 0.0;
    let digits = usize::from(has_part);
    format!("{value:.digits$}{}", units[unit])
}

/// Numbers in rising order, with runs as `1-4`; `-` if there is none.
pub(super) fn numbers(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut sorted: Vec<_> = numbers.into_iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.is_empty() {
        return "-".to_owned();
    }
    let runs = sorted.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [one, two] => format!("{one},{two}"),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// The ranges with these numbers: `range 3`, `ranges 1-3`.
pub(super) fn ranges(ids: &[u32]) -> String {
    let end = if ids.len() == 1 { "" } else { "s" };
    format!("range{end} {}", numbers(ids.iter().copied()))
}

/// `text` with an `s` unless `count` is one.
pub(super) fn plural(count: usize, text: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {text}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_nothing_trails() {
        let mut table = Table::new(&["cell", ">bytes", "state", "why"]);
        let plain = |text: &str| (text.to_owned(), Tone::Plain);
        table.row(vec![plain("1"), plain("12"), ("serves".into(), Tone::Good), plain("")]);
        table.row(vec![plain("12"), plain("1.5K"), plain("spare"), plain("it is new")]);
        table.row(vec![plain("3"), plain(""), plain("lost"), plain("x")]);
        let expected = "\
cell  bytes  state   why
1        12  serves
12     1.5K  spare   it is new
3            lost    x
";
        assert_eq!(table.render(Style::default()), expected);
        let painted = table.render(Style { colours: true, ..Style::default() });
        assert!(painted.contains("12  \x1b[32mserves\x1b[0m\n"), "{painted}");
    }

    #[test]
    fn numbers_are_short() {
        let cases = [(0, "0"), (1023, "1023"), (1024, "1K"), (1536, "1.5K"), (64 << 20, "64M")];
        for (value, text) in cases.into_iter().chain([(1_048_500, "1M"), (123 << 30, "123G")]) {
            assert_eq!(bytes(value), text);
        }
        for (list, text) in
            [(vec![], "-"), (vec![3], "3"), (vec![2, 1], "1,2"), (vec![9, 3, 2, 1, 7], "1-3,7,9")]
        {
            assert_eq!(numbers(list), text);
        }
        assert_eq!([&[3][..], &[1, 2, 3]].map(ranges), ["range 3", "ranges 1-3"]);
        assert_eq!([plural(1, "cell"), plural(2, "cell")], ["1 cell", "2 cells"]);
    }
}
