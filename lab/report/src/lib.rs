//! Figures and pages: what a measurement shows, as SVG, HTML, CSV, Markdown or text.
//!
//! Pure: everything is a function from figures to text. The crate knows nothing of what was
//! measured, reads no file and writes none.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `figure` | nothing | plots, heat maps, tables and sentences before they are drawn |
//! | `table` | `figure` | a table aligned for the screen, as Markdown, as CSV |
//! | `html` | `figure` | a page with its drawings, in one file |
//! | `markdown` | `figure`, `html`, `table` | the same page without drawings, for a repository |
#![forbid(unsafe_code)]

pub mod figure;
pub mod html;
pub mod markdown;
pub mod table;
