//! A cell of a ring: which requests it executes itself, which go to their owners, and how its
//! changes reach its copies.
//!
//! To read it, begin with `handler`, where every request arrives, and `keeping`, what follows from
//! a new map; `terms` says what a leadership is. `worker` is what one worker has: its requests, and
//! its links.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `copy_reads` | nothing | which reads copies may answer |
//! | `flushed` | nothing | which delayed flushes each slice has carried out |
//! | `granted` | nothing | what primaries have granted this cell |
//! | `history` | nothing | how the map has changed |
//! | `not_now` | nothing | why a request is not executed now |
//! | `reason` | nothing | why a stream ends |
//! | `terms` | nothing | leaderships, and how long each may answer |
//! | `journal_waits` | nothing | which workers wait for the journal |
//! | `job` | `not_now` | a request that is carried out for somebody |
//! | `retries` | nothing | what has come of requests that may be asked again |
//! | `copies` | `reason`, `retries` | both ends of what is copied |
//! | `routes` | `granted`, `terms` | where requests go, by one map |
//! | `routes_of_map` | `granted`, `routes`, `terms` | the same, for measurements |
//! | `jumps` | nothing | how often the counters of slices that are copied are to rise |
//! | `loads` | nothing | how often something is executed for each slice |
//! | `cell` | `copies`, `copy_reads`, `flushed`, `granted`, `history`, `job`, `journal_waits`, `jumps`, `loads`, `retries`, `routes`, `terms` | what all workers share |
//! | `written_back` | `cell`, `copies` | what copies are to know of what was written back |
//! | `jump` | `cell` | how counters rise where another cell has given numbers |
//! | `links` | `cell`, `copies`, `reason`, `retries` | connections to other cells |
//! | `requests` | `cell`, `copies`, `copy_reads`, `job`, `links`, `loads`, `not_now`, `retries`, `routes`, `terms` | what clients and other cells ask for |
//! | `keeping` | `cell`, `copies`, `flushed`, `jump`, `retries`, `routes`, `terms` | what follows from a new map |
//! | `worker` | `cell`, `links`, `not_now`, `requests`, `retries` | the jobs and streams of one worker |
//! | `cellcycle` | `cell` | the commands of CellCycle |
//! | `discovery` | nothing | `config get cluster` |
//! | `orders` | `cell` | what an operator wants, in words |
//! | `report` | `orders`, `cell`, `history` | `stats ring` |
//! | `handler` | `cell`, `cellcycle`, `discovery`, `job`, `links`, `report`, `requests`, `worker` | the handler of a worker |

mod cell;
mod cellcycle;
mod copies;
mod copy_reads;
mod discovery;
mod flushed;
mod granted;
mod handler;
#[cfg(test)]
mod handler_test;
mod history;
mod job;
mod journal_waits;
mod jump;
mod jumps;
mod keeping;
#[cfg(test)]
mod late_requests_test;
mod links;
mod loads;
mod not_now;
mod orders;
mod reason;
mod report;
mod requests;
mod retries;
mod routes;
mod routes_of_map;
mod terms;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod waits_below_test;
mod worker;
mod written_back;

pub use cell::{
    Finding, Flushing, LeaveProgress, Mail, NoLog, Reach, RingCell, RingHost, RingIdentity,
};
pub use copy_reads::{AGE_MS_MAX, CopyReads};
pub use handler::RingService;
pub use keeping::{Keeper, Rest};
pub use links::{Link, RingConnection};
pub use routes_of_map::RoutesOfMap;
pub use written_back::WrittenBackEntries;
