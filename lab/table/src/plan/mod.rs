//! What is measured: the contestants, the sizes of a form, and the jobs in their order.
//!
//! Pure: the same form and contestants give the same jobs on every machine.

mod contestant;
mod form;
mod job;

pub(crate) use contestant::{CONTESTANTS_MAX, Contestant, contestants};
pub(crate) use form::{Form, Level};
pub(crate) use job::{
    CONNECTIONS, COUNTED_REQUESTS, Job, KEYS, PIPELINE, ServerSettings, TIERED_MIB, Task, Workload,
    jobs,
};

#[cfg(test)]
pub(crate) use contestant::DRIVERS;
#[cfg(test)]
pub(crate) use job::SWEEP;
