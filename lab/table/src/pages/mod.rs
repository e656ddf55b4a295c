//! The report: rows from findings, the conclusions from them, and the files that people read.
//!
//! ```text
//! rows        cells, lambda-max and sweeps, with gaps where nothing was measured
//! winners     who wins where, and why
//! doubts      reasons not to rely on the figures
//! document    all of that as one structure: the JSON and the CSV
//! tables, plots, page     the same for readers: one page, as HTML and as Markdown
//! ```
//!
//! Pure: nothing here measures or writes a file.

mod document;
mod doubts;
mod page;
mod plots;
mod rows;
mod tables;
mod winners;

pub(crate) use document::Document;
pub(crate) use page::page;
pub(crate) use tables::{cost_table, csv_table, lambda_table, win_table};

#[cfg(test)]
pub(crate) use document::tests::document;
