//! Aligned tables for the screen, and the same as Markdown for a document.
//!
//! Columns are as wide as their widest cell; nothing is wrapped. A tone colours a cell where the
//! stream is a terminal and `NO_COLOR` is not set. A coloured cell stands in the last column, which
//! is not padded: escape sequences count as width.

use comfy_table::{Table as Aligned, TableStyle};
use console::Style;

/// How a cell is to be read at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary text.
    Plain,
    /// It holds.
    Good,
    /// It does not.
    Bad,
    /// Worth a look.
    Warn,
}

/// One cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a tone; in the last column only.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// Rows, the first of which is the head.
pub struct Table(Vec<Vec<Cell>>);

impl Table {
    /// An empty table.
    pub fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().copied().map(Cell::from).collect()])
    }

    /// Adds a row; it must have as many cells as the head.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.0[0].len(), "invariant: a row has a cell for every column");
        self.0.push(cells);
    }

    /// The table as text, in colours if standard output shows them.
    pub fn render(&self) -> String {
        let width = |column: usize| self.0.iter().map(move |row| row[column].text.chars().count());
        let rule = |column: usize| "-".repeat(width(column).max().unwrap_or(0));
        let mut table = Aligned::new();
        table.load_style(TableStyle::new());
        for (at, row) in self.0.iter().enumerate() {
            table.add_row(row.iter().map(|cell| paint(&cell.text, cell.tone)));
            table.add_row_if(|_, _| at == 0, (0..row.len()).map(rule));
        }
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });
        table.trim_fmt() + "\n"
    }

    /// The table as Markdown, for a document.
    pub fn markdown(&self) -> String {
        let escaped =
            |row: &Vec<Cell>| row.iter().map(|cell| cell.text.replace('|', "\\|")).collect();
        let mut rows: Vec<Vec<String>> = self.0.iter().map(escaped).collect();
        rows.insert(1, vec!["---".to_owned(); rows[0].len()]);
        rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect()
    }

    /// Prints the table on standard output.
    pub fn print(&self) {
        print!("{}", self.render());
    }
}

/// A text in the colour of its tone, if standard output shows colours.
pub fn paint(text: &str, tone: Tone) -> String {
    let style = match tone {
        Tone::Plain => return text.to_owned(),
        Tone::Good => Style::new().green(),
        Tone::Bad => Style::new().red(),
        Tone::Warn => Style::new().yellow(),
    };
    style.apply_to(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_nothing_trails() {
        let mut table = Table::new(&["part", "time", "verdict"]);
        table.row(vec!["format".into(), "0.3 s".into(), Cell::new("ok", Tone::Plain)]);
        table.row(vec!["a".into(), "10.0 s".into(), Cell::new("failed", Tone::Plain)]);
        let expected = "\
part    time    verdict
------  ------  -------
format  0.3 s   ok
a       10.0 s  failed
";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn markdown_escapes_the_bars() {
        let mut table = Table::new(&["a"]);
        table.row(vec!["x | y".into()]);
        assert_eq!(table.markdown(), "| a |\n| --- |\n| x \\| y |\n");
    }
}
