//! A table as text: aligned for a screen, as Markdown for a repository, as CSV for a tool.
//!
//! Pure. The head comes first, then the rows in their order; no form changes a cell beyond what its
//! syntax needs. Invariant: a row has as many cells as the head.

use crate::figure::Table;

/// Columns of equal width: the first to the left, the others to the right.
///
/// ```
/// use report::figure::Table;
///
/// let rows = vec![vec!["a".to_string(), "10".to_string()]];
/// let table = Table { rows, ..Table::new("Rates", &["name", "per second"]) };
/// assert_eq!(report::table::aligned(&table), "name  per second\na             10\n");
/// ```
#[must_use]
pub fn aligned(table: &Table) -> String {
    let all = || std::iter::once(&table.head).chain(&table.rows);
    let width = |column: usize| all().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let mut text = String::new();
    for row in all() {
        let cells = row.iter().zip(&widths).enumerate().map(|(nth, (cell, width))| {
            if nth == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The table without its title as Markdown.
///
/// ```
/// use report::figure::Table;
///
/// let rows = vec![vec!["a|b".to_string()]];
/// let table = Table { rows, ..Table::new("Names", &["name"]) };
/// assert_eq!(report::table::markdown(&table), "| name |\n| --- |\n| a\\|b |\n");
/// ```
#[must_use]
pub fn markdown(table: &Table) -> String {
    let rule = vec!["---".to_string(); table.head.len()];
    let rows = [&table.head, &rule].into_iter().chain(&table.rows);
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    rows.map(line).collect()
}

/// The rows as CSV, with the names of the columns in the first line. A cell with a comma, a quote
/// or a line end is quoted.
///
/// ```
/// use report::figure::Table;
///
/// let rows = vec![vec!["100:9,1000:1".to_string()]];
/// let table = Table { rows, ..Table::new("Sizes", &["bytes"]) };
/// assert_eq!(report::table::csv(&table), "bytes\n\"100:9,1000:1\"\n");
/// ```
#[must_use]
pub fn csv(table: &Table) -> String {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    let rows = std::iter::once(&table.head).chain(&table.rows).filter(|row| !row.is_empty());
    rows.for_each(|row| writer.write_record(row).expect("invariant: memory takes every record"));
    let bytes = writer.into_inner().expect("invariant: memory takes every record");
    String::from_utf8(bytes).expect("invariant: records of strings are UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_need_it_are_quoted() {
        for (cell, text) in
            [("a", "a"), ("100:9,1000:1", "\"100:9,1000:1\""), ("a\"b", "\"a\"\"b\"")]
        {
            let table = Table { rows: vec![vec![cell.into()]], ..Table::new("t", &["c"]) };
            assert_eq!(csv(&table), format!("c\n{text}\n"));
        }
        assert_eq!(csv(&Table::new("t", &[])), "");
    }
}
