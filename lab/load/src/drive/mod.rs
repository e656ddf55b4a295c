//! The rim: threads, sockets and clocks that carry the exchanges.
//!
//! ```text
//! run -- one Worker per thread -- epoll -- Connection -- Exchange (pure)
//!  |        +-- Issue: what it may still request; OpenLoop: when
//!  +---- samples: CPU of server and generator at the start and the end of the measured window
//! ```
//!
//! A thread owns its connections, its part of the stream and its tally. Threads share only the flag
//! that stops them and, on a terminal, a snapshot once a second. Every wait has a deadline.

mod connection;
mod issue;
mod open_loop;
mod plan;
mod run;
mod usage;
mod watch;
mod worker;

pub use plan::{
    COMPOSED_BYTES_MAX, CONNECTIONS_MAX, KEYS_IN_FLIGHT_MAX, Limit, Mode, PIPELINE_MAX, Plan,
    THREADS_MAX,
};
pub use run::{Observed, ServerCpu, run};
pub use watch::{Glimpse, Watch};
