//! Connections to other cells, and what goes over them: requests and their replies, and the streams
//! of changes.
//!
//! To read it, begin with `link`, then `peers`, the links on which this cell asks, and `streams`,
//! with `stream_out` and `stream_in`, the way of a change to a copy.

mod acks;
mod kind;
mod link;
mod peers;
mod refusals;
mod role;
mod stream_in;
mod stream_out;
mod streams;
mod waiting;

pub use kind::RingConnection;
pub use link::Link;
pub(super) use link::{Kind, LinkHandler};
pub(super) use peers::{Needs, Peers, Was};
pub(super) use role::Role;
pub(super) use streams::Streams;
pub(super) use waiting::Waiting;
