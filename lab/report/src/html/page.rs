//! A report as one HTML file that needs nothing else: no script, no font, no address.
//!
//! Plots are inline SVG coloured by the page's style, so the same drawing serves light and dark
//! screens, paper, and a phone. Invariant: every text of the report passes [`escape`].

use std::fmt::Write as _;

use super::escape::escape;
use super::{heat, plot};
use crate::figure::{Figure, Table};

const STYLE: &str = include_str!("style.css");

/// The contents of a page.
///
/// ```
/// use report::html::Page;
///
/// let page = Page { title: "a < b".to_string(), ..Page::default() };
/// assert!(page.to_html().contains("<h1>a &lt; b</h1>"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// What was measured, in a line.
    pub setup: String,
    /// The headline: names and values.
    pub facts: Vec<(String, String)>,
    /// Why the figures may not mean what they seem to.
    pub warnings: Vec<String>,
    /// Headings with their figures.
    pub sections: Vec<(String, Vec<Figure>)>,
}

impl Page {
    /// The whole file.
    #[must_use]
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n<p class=\"setup\">{}</p>\n",
            escape(&self.setup)
        );
        if !self.facts.is_empty() {
            html.push_str("<dl class=\"facts\">\n");
            for (name, value) in &self.facts {
                let (name, value) = (escape(name), escape(value));
                let _ = writeln!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
            }
            html.push_str("</dl>\n");
        }
        if !self.warnings.is_empty() {
            html.push_str("<ul class=\"warnings\">\n");
            for warning in &self.warnings {
                let _ = writeln!(html, "<li>{}</li>", escape(warning));
            }
            html.push_str("</ul>\n");
        }
        for (heading, figures) in &self.sections {
            let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(heading));
            write_figures(&mut html, figures);
            html.push_str("</section>\n");
        }
        html.push_str(
            "<footer>Made by volvox load. Latencies of an open loop count from the moment a \
             request was due.</footer>\n</main>\n</body>\n</html>\n",
        );
        html
    }
}

/// Sentences first, pictures side by side where there is room, tables across the page.
fn write_figures(html: &mut String, figures: &[Figure]) {
    let (mut drawings, mut tables) = (String::new(), String::new());
    for figure in figures {
        let (title, note, svg) = match figure {
            Figure::Plot(plot) => (&plot.title, &plot.note, plot::draw(plot)),
            Figure::Heat(heat) => (&heat.title, &heat.note, heat::draw(heat)),
            Figure::Table(table) => {
                write_table(&mut tables, table);
                continue;
            }
            Figure::Text(sentences) => {
                for sentence in sentences {
                    let _ = writeln!(html, "<p>{}</p>", escape(sentence));
                }
                continue;
            }
        };
        let title = escape(title);
        let _ = write!(drawings, "<figure>\n<figcaption>{title}</figcaption>\n{svg}");
        if !note.is_empty() {
            let _ = writeln!(drawings, "<p>{}</p>", escape(note));
        }
        drawings.push_str("</figure>\n");
    }
    if !drawings.is_empty() {
        let _ = writeln!(html, "<div class=\"figures\">\n{drawings}</div>");
    }
    html.push_str(&tables);
}

/// A column with a longer cell holds words, not figures: it may be broken into lines.
const CELL_LONG: usize = 32;

fn write_table(html: &mut String, table: &Table) {
    let is_long = |column: usize| table.rows.iter().any(|row| row[column].len() > CELL_LONG);
    let columns = (0..table.head.len()).map(is_long);
    let classes: Vec<_> = columns.map(|long| if long { " class=\"long\"" } else { "" }).collect();
    let row = |cells: &[String], tag: &str| {
        let cells = cells.iter().zip(&classes);
        let cells = cells.map(|(text, class)| format!("<{tag}{class}>{}</{tag}>", escape(text)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let _ = write!(html, "<figure>\n<figcaption>{}</figcaption>\n", escape(&table.title));
    let _ =
        write!(html, "<div class=\"scroll\"><table>\n<thead>{}</thead>\n", row(&table.head, "th"));
    html.push_str("<tbody>\n");
    for cells in &table.rows {
        html.push_str(&row(cells, "td"));
    }
    html.push_str("</tbody>\n</table></div>\n</figure>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stands_alone_and_lets_nothing_through() {
        let page = Page {
            title: "<script>".into(),
            setup: "a & b".into(),
            facts: vec![("rate".into(), "5 > 4".into())],
            warnings: vec!["\"quoted\"".into()],
            sections: vec![(
                "Figures".into(),
                vec![Figure::Table(Table {
                    title: "t".into(),
                    head: vec!["<b>".into()],
                    rows: vec![vec!["<i>".into()]],
                })],
            )],
        };
        let html = page.to_html();
        for part in
            ["&lt;script&gt;", "a &amp; b", "5 &gt; 4", "&quot;quoted", "&lt;b&gt;", "&lt;i&gt;"]
        {
            assert!(html.contains(part), "{part}");
        }
        for foreign in ["http", "url(", "@import", "<script", "src=", "<link"] {
            assert!(!html.contains(foreign), "{foreign}");
        }
        assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
    }
}
