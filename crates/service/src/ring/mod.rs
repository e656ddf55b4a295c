//! A cell of a ring: which requests it executes itself, which go to their owners, and how its
//! changes reach its copies.
//!
//! To read it, begin with `handler` (where every request arrives) and `keeper` (what follows from a
//! new map). Then `requests`, what clients ask, `jobs`, what is carried out for them, and
//! `executor`, what is executed here; `worker` and `link`, what goes between cells; `streams`,
//! `stream_out` and `stream_in`, the way of a change to a copy; `terms`, what a leadership is.

mod asked;
mod buffers;
mod cell;
mod copy;
mod emptying;
mod exchange;
mod exchanging;
mod executor;
mod finishing;
mod flush;
mod flushed;
mod gather;
mod handler;
mod history;
mod hold;
mod job;
mod jobs;
mod jump;
mod keeper;
#[cfg(test)]
mod keeper_test;
mod kept;
mod kind;
mod later;
mod learning;
mod lent;
mod link;
mod not_now;
mod origin;
mod outcome;
mod part;
mod peers;
mod reason;
mod report;
mod requests;
mod role;
mod room;
mod routes;
mod slice_counts;
mod slice_state;
mod stream_in;
mod stream_out;
mod streams;
mod tag;
mod tag_state;
mod tags;
mod tail;
mod target;
mod terms;
#[cfg(test)]
mod testing;
mod waiting;
mod walk;
mod wanted;
mod worker;

pub use cell::{Finding, Flushing, Mail, NoLog, Reach, RingCell, RingHost, RingIdentity};
pub use handler::RingService;
pub use keeper::Keeper;
pub use kind::RingConnection;
pub use link::Link;
