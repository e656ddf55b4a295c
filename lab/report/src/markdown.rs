//! A report as a page of Markdown, for a repository: the same page as the HTML, without pictures.
//!
//! Headings: `#` the title, `##` a section, `###` a table. A bar in a cell is escaped, so a table
//! always has the columns of its head.

use std::fmt::Write as _;

use crate::figure::{Figure, Table};
use crate::html::Page;

/// The whole file.
#[must_use]
pub fn markdown(page: &Page) -> String {
    let mut text = format!("# {}\n\n{}\n\n", page.title, page.setup);
    for (name, value) in &page.facts {
        let _ = writeln!(text, "- {name}: {value}");
    }
    for warning in &page.warnings {
        let _ = writeln!(text, "- {warning}");
    }
    for (heading, figures) in &page.sections {
        let _ = writeln!(text, "\n## {heading}");
        for figure in figures {
            match figure {
                Figure::Table(table) => write_table(&mut text, table),
                Figure::Text(lines) => lines.iter().for_each(|line| {
                    let _ = writeln!(text, "\n{line}");
                }),
                Figure::Plot(_) | Figure::Heat(_) => {}
            }
        }
    }
    text
}

fn write_table(text: &mut String, table: &Table) {
    let _ = writeln!(text, "\n### {}\n", table.title);
    let mut row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    };
    row(&table.head);
    row(&vec!["---".to_string(); table.head.len()]);
    table.rows.iter().for_each(|cells| row(cells));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_sentences_are_written_and_bars_escaped() {
        let table = Table {
            title: "t".into(),
            head: vec!["a".into(), "b".into()],
            rows: vec![vec!["1 | 2".into(), "3".into()]],
        };
        let page = Page {
            title: "Report".into(),
            setup: "setup".into(),
            facts: vec![("rate".into(), "5".into())],
            warnings: vec!["doubt".into()],
            sections: vec![(
                "Figures".into(),
                vec![Figure::Text(vec!["line".into()]), Figure::Table(table)],
            )],
        };
        let expected = "# Report\n\nsetup\n\n- rate: 5\n- doubt\n\n## Figures\n\nline\n\n### t\n\n\
                        | a | b |\n| --- | --- |\n| 1 \\| 2 | 3 |\n";
        assert_eq!(markdown(&page), expected);
    }
}
