//! The report as a page of Markdown, for a repository.

use std::fmt::Write as _;

use report::figure::Table;

use crate::document::Document;
use crate::pictures::{calls_table, cell_table, cost_table, lambda_table, point_table};

impl Document {
    /// As Markdown; `command` is what made it.
    pub fn to_markdown(&self, command: &str) -> String {
        let mut text = format!("# {}\n\n{}\n\n", self.title(), self.setup());
        let _ = writeln!(text, "```sh\n{command}\n```\n\n{}\n", self.scope);
        list(&mut text, "Who wins where, and why", &self.verdict);
        list(&mut text, "Doubts", &self.doubts);
        list(&mut text, "Not measured, or not well", &self.missing);
        for table in [lambda_table(self), cost_table(self), calls_table(self)] {
            write_table(&mut text, &table);
        }
        for (size, cells) in self.by_size() {
            write_table(&mut text, &cell_table(&cells, &format!("Values of {size} bytes")));
        }
        for (points, title, what) in [
            (&self.clients, "By clients, closed loop, one request each", "clients"),
            (&self.workers, "By workers, nobody on a core of its own", "workers"),
            (&self.index_cold, "Index, cold: every key missed and stored", "entries"),
            (&self.index_warm, "Index, warm: as many requests, all found", "entries"),
        ] {
            write_table(&mut text, &point_table(points, title, what));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}

fn list(text: &mut String, heading: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "## {heading}\n");
    lines.iter().for_each(|line| {
        let _ = writeln!(text, "- {line}");
    });
    text.push('\n');
}

fn write_table(text: &mut String, table: &Table) {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let _ = writeln!(text, "## {}\n", table.title);
    text.push_str(&row(&table.head));
    text.push_str(&row(&vec!["---".to_string(); table.head.len()]));
    table.rows.iter().for_each(|cells| text.push_str(&row(cells)));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use crate::document::tests::document;

    #[test]
    fn the_page_holds_every_cell_and_its_command() {
        let document = document();
        let text = document.to_markdown("volvox lab --quick");
        assert!(text.contains("```sh\nvolvox lab --quick\n```") && text.contains("memory alone"));
        let rows = text.lines().filter(|line| line.contains("| GET |")).count();
        assert_eq!(rows * 2, document.cells.len());
        assert!(text.contains("## Lambda-max") && !text.contains("## Not measured"));
    }
}
