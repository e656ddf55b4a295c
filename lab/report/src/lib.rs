//! Figures and pages: what a measurement shows, drawn as SVG and HTML.
#![forbid(unsafe_code)]

pub mod figure;
pub mod html;
