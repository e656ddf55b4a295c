//! What runs found: the report of one, the study of several, and where they are written.

mod by_time;
mod columns;
mod labelled;
mod latency;
mod outputs;
pub mod pictures;
mod report;
mod study;
mod text;
mod warnings;

pub use self::report::{
    Generator, Rate, Report, SCHEMA, Server, Setup, TimelineText, WorkloadText,
};
pub use by_time::{ByTimeText, SecondText};
pub use columns::csv;
pub use labelled::Labelled;
pub use latency::Latency;
pub use outputs::{Outputs, Sinks};
pub use pictures::page;
pub use study::{STUDY_SCHEMA, Study};
pub(crate) use warnings::{BOTTLENECK, DELAYED};

#[cfg(test)]
pub(crate) use self::report::tests;
