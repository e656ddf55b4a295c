//! Figures and pages: what a measurement shows, as SVG, HTML and Markdown.
#![forbid(unsafe_code)]

pub mod figure;
pub mod html;
mod markdown;

pub use markdown::markdown;
