//! The control plane of a cell: what cells say to each other besides requests and changes.
//!
//! ```text
//! thread `ring`     heartbeats on connections of their own, the member: never blocked by a disk
//! thread `quorum`   the coordinator, which waits for its disk, and its connections
//! ```
//!
//! So a heartbeat, and a call of the coordinator, wakes one thread of its receiver. All cells call
//! at one address: a connection goes to the thread `quorum` with its first call.
//!
//! It finds out who the cell is (it founds a ring, joins one, or starts again), and then says what
//! follows from the map and from heartbeats to the [`Plane`] that serves requests. It serves none
//! itself.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `config` | nothing | what a cell is started with |
//! | `known` | nothing | the map that a directory had last |
//! | `wire` | nothing | frames over a socket |
//! | `messages` | nothing | the bodies of calls |
//! | `hub` | `messages`, `wire` | the connections to all other cells |
//! | `calls` | `hub`, `messages`, `wire` | what other cells call |
//! | `time` | nothing | the second that a directory had last, and warnings about clocks |
//! | `present` | nothing | which cells run, as the coordinator is notified |
//! | `member` | `config`, `hub`, `known`, `present`, `time` | the loop of the member |
//! | `start` | `calls`, `config`, `hub`, `known`, `member`, `messages`, `time`, `wire` | founding, joining, starting again |
#![forbid(unsafe_code)]

mod calls;
mod config;
mod hub;
mod known;
mod member;
mod messages;
mod present;
mod start;
mod time;
mod wire;

pub use config::{Clock, ControlConfig, ControlError, Founding, Plane, Seen};
pub use start::{Control, Starting};
