//! What was measured: one finding per job, kept in a folder, and the subject of the report.
//!
//! A folder holds findings of one subject only. Nothing here runs a server.

mod by_job;
mod counters;
mod finding;
mod folder;
mod subject;

pub(crate) use by_job::Findings;
pub(crate) use counters::Counters;
pub(crate) use finding::{Finding, LambdaMax, SATURATED, wrong};
pub(crate) use folder::Folder;
pub(crate) use subject::{Subject, fingerprint};

#[cfg(test)]
pub(crate) use finding::tests::lambda;
#[cfg(test)]
pub(crate) use subject::tests::subject;
