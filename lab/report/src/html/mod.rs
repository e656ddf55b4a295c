//! A report as one HTML file: the page, and its drawings as inline SVG.

mod escape;
mod heat;
mod page;
mod plot;
mod scale;

pub use page::Page;
