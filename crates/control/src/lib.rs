//! The control plane of a cell: what cells say to each other besides requests and changes.
//!
//! ```text
//! thread `ring`     heartbeats on connections of their own, the member: never blocked by a disk
//! thread `quorum`   the coordinator and its connections: maps come through it, so it never waits
//!                   for a disk itself
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
//! | `voting` | nothing | what an operator should know of the cells that vote |
//! | `keeps` | `config`, `known`, `time` | what is kept in the directory, without waiting for the disk |
//! | `member_loop` | `config`, `hub`, `keeps`, `present`, `time`, `voting` | the loop of the member |
//! | `threads` | `config` | the two threads |
//! | `join` | `config`, `messages`, `threads`, `wire` | asking a ring to be taken |
//! | `running` | `config`, `hub`, `member_loop`, `threads` | the control plane that runs |
//! | `start` | `calls`, `config`, `hub`, `join`, `keeps`, `known`, `member_loop`, `messages`, `running`, `threads`, `time`, `wire` | founding, joining, starting again |
#![forbid(unsafe_code)]

mod calls;
mod config;
mod hub;
mod join;
mod keeps;
mod known;
mod member_loop;
mod messages;
mod present;
mod running;
mod start;
mod threads;
mod time;
mod voting;
mod wire;

pub use config::{Clock, ControlConfig, ControlError, Founding, Plane, Seen};
pub use running::Control;
pub use start::Starting;
