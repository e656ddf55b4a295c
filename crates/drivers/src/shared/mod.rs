//! What the threads of one server share, and what others may do with the server.
//!
//! Each worker has a [`WorkerHandle`]: its mailbox, its counters, what is known of its connections.
//! Locks here are taken when a connection opens or closes, when a message is posted and when
//! statistics are read. No request takes one.

mod accept;
mod handle;
mod mail;
mod mailbox;
mod orders;
mod post;
mod remote;
mod state;
mod waiting;

pub(crate) use accept::{ACCEPTS_MAX, Attempt, RETRY_NS, attempt};
pub(crate) use handle::WorkerHandle;
pub(crate) use mailbox::{Message, Taken, Waker};
pub(crate) use orders::ORDERS_MAX;
pub use post::Post;
pub use remote::{Remote, Slot};
pub(crate) use state::{Phase, Shared};
pub(crate) use waiting::{PARKED_RETRY_NS, bit_of};
