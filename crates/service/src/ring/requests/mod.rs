//! The requests of clients, and those of other cells: executed here, or sent to their owners.
//!
//! To read it, begin with `clients`, what they ask, then `jobs`, what is carried out for them, and
//! `executor`, what is executed here.

pub(super) mod as_copy;
mod asked;
mod buffers;
pub(super) mod clients;
mod executor;
mod finishing;
mod flush;
mod from_copies;
mod gather;
mod jobs;
mod later;
mod lent;
mod parked;
mod slice_counts;
mod target;
mod unserved;
mod wanted;
mod watching;

pub(super) use executor::{Executed, Executor, Leads, OVERTAKEN};
pub(super) use jobs::Jobs;
pub(super) use parked::{Parked, Question};
pub(super) use target::{Subject, subject};
pub(super) use watching::Wants;
