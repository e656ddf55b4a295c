//! A report as a page of Markdown, for a repository: the same page as the HTML, without pictures.
//!
//! Headings: `#` the title, `##` a section, `###` a table.

use std::fmt::Write as _;

use crate::figure::Figure;
use crate::html::Page;
use crate::table;

/// The whole file.
#[must_use]
pub fn page(page: &Page) -> String {
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
                Figure::Table(table) => {
                    let _ = write!(text, "\n### {}\n\n{}", table.title, table::markdown(table));
                }
                Figure::Text(lines) => lines.iter().for_each(|line| {
                    let _ = writeln!(text, "\n{line}");
                }),
                Figure::Plot(_) | Figure::Heat(_) => {}
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Table;

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
        assert_eq!(super::page(&page), expected);
    }
}
