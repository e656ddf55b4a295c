//! The rim: threads, sockets and clocks that carry the exchanges.
//!
//! ```text
//! run -- one Worker per thread -- epoll -- Connection -- Exchange (pure)
//!  +---- marks: CPU of server and generator at the start and the end of the measured window
//! ```
//!
//! A thread owns its connections, its part of the stream and its tally; threads share only the
//! flag that stops them and, on a terminal, a snapshot once a second. One `recv` and one `send`
//! per readable event; one look at the clock between them. Every wait has a deadline.

mod connection;
mod open_loop;
mod plan;
mod run;
mod usage;
mod worker;

pub use plan::{
    COMPOSED_BYTES_MAX, CONNECTIONS_MAX, KEYS_IN_FLIGHT_MAX, Limit, Mode, PIPELINE_MAX,
};
pub use plan::{Plan, THREADS_MAX};
pub use run::{Glimpse, Observed, ServerCpu, Watch, run};
