//! What people see: aligned tables, colours, one line of progress.
//!
//! Colours and the moving line appear only on a terminal; `NO_COLOR` switches colours off.
//! Widths count characters, and escape sequences are added only after padding.

use std::io::{self, IsTerminal, Write};

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

impl Tone {
    fn escape(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Warn => "\x1b[33m",
        }
    }
}

/// One cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// Rows under a head, every column as wide as its widest cell.
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row; it must have as many cells as the head.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.head.len(), "invariant: a row has a cell for every column");
        self.rows.push(cells);
    }

    /// The table as text, the last column unpadded.
    pub fn render(&self, colours: bool) -> String {
        let last = self.head.len() - 1;
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].text.chars().count());
            cells.chain([self.head[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        let mut line = |cells: &[Cell]| {
            for (column, cell) in cells.iter().enumerate() {
                let pad = if column == last { 0 } else { widths[column] };
                let padded = format!("{:pad$}", cell.text);
                text.push_str(&paint(&padded, cell.tone, colours));
                text.push_str(if column == last { "" } else { "  " });
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        };
        line(&self.head.iter().map(|name| Cell::from(name.as_str())).collect::<Vec<_>>());
        let rules = widths.iter().map(|width| Cell::from("-".repeat(*width)));
        line(&rules.collect::<Vec<_>>());
        self.rows.iter().for_each(|row| line(row));
        text
    }

    /// The table as Markdown, for a document.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.head.clone());
        text.push_str(&line(vec!["---".to_owned(); self.head.len()]));
        for row in &self.rows {
            text.push_str(&line(row.iter().map(|cell| cell.text.replace('|', "\\|")).collect()));
        }
        text
    }

    /// Prints the table on standard output.
    pub fn print(&self) {
        print!("{}", self.render(colours(&io::stdout())));
    }
}

/// Whether a stream is a terminal that wants colours.
pub fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Wraps a text in the colour of its tone.
pub fn paint(text: &str, tone: Tone, colours: bool) -> String {
    if colours && tone != Tone::Plain {
        format!("{}{text}\x1b[0m", tone.escape())
    } else {
        text.to_owned()
    }
}

/// The line that tells how far long work has come: one moving line on a terminal, a new line
/// for each step elsewhere and none for the details within it.
pub struct Progress {
    done: usize,
    total: usize,
    step: String,
    moving: bool,
}

impl Progress {
    /// Progress over a known number of steps.
    pub fn new(total: usize) -> Self {
        Self { done: 0, total, step: String::new(), moving: io::stderr().is_terminal() }
    }

    /// Begins the next step.
    pub fn begin(&mut self, step: &str) {
        self.done += 1;
        self.step = step.to_owned();
        if self.moving {
            self.draw("");
        } else {
            eprintln!("[{}/{}] {step}", self.done, self.total);
        }
    }

    /// Tells what the step is at; shown on a terminal only.
    pub fn detail(&self, detail: &str) {
        if self.moving {
            self.draw(detail);
        }
    }

    /// Removes the moving line.
    pub fn clear(&self) {
        if self.moving {
            eprint!("\r\x1b[K");
        }
    }

    fn draw(&self, detail: &str) {
        const BAR: usize = 20;
        let filled = (self.done.saturating_sub(1) * BAR).checked_div(self.total).unwrap_or(BAR);
        let bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR - filled));
        let at = format!("{}/{}", self.done, self.total);
        eprint!("\r\x1b[K[{bar}] {at} {} {detail}", self.step);
        // A terminal that went away must not end the measurement.
        let _ = io::stderr().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["part", "time", "verdict"]);
        table.row(vec!["format".into(), "0.3 s".into(), Cell::new("ok", Tone::Good)]);
        table.row(vec!["a".into(), "10.0 s".into(), Cell::new("failed", Tone::Bad)]);
        table
    }

    #[test]
    fn columns_are_aligned_and_nothing_trails() {
        let expected = "\
part    time    verdict
------  ------  -------
format  0.3 s   ok
a       10.0 s  failed
";
        assert_eq!(table().render(false), expected);
    }

    #[test]
    fn colours_do_not_change_the_alignment() {
        let plain = table().render(true).replace("\x1b[32m", "").replace("\x1b[31m", "");
        assert_eq!(plain.replace("\x1b[0m", ""), table().render(false));
    }

    #[test]
    fn markdown_escapes_the_bars() {
        let mut table = Table::new(&["a"]);
        table.row(vec!["x | y".into()]);
        assert_eq!(table.markdown(), "| a |\n| --- |\n| x \\| y |\n");
    }
}
