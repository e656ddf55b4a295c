//! The costs of requests to a server while it was measured: processor time, switches, calls.
//!
//! A record without invariants. Cores are shares of the time: 1 is one core all the time. What a
//! server does not count is absent. `running` takes the two samples whose difference this is.

use serde::{Deserialize, Serialize};

/// The cost of one request, and how busy the server was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Seconds between the two samples.
    pub window_s: f64,
    /// Requests between them.
    pub requests: u64,
    /// Processor time, in cores.
    pub busy_cores: f64,
    /// Time in which a thread was ready and another program had its core, in cores.
    pub waiting_cores: f64,
    /// Taken from the whole machine by a hypervisor, in cores: no program here could use it.
    pub stolen_cores: f64,
    /// Processor time of a request.
    pub cpu_us_per_request: f64,
    /// Times a thread of the server went to sleep, per request.
    pub sleeps_per_request: f64,
    /// Times a thread lost its core, per request.
    pub preemptions_per_request: f64,
    /// Calls that received, per request.
    pub receives_per_request: Option<f64>,
    /// Calls that sent, per request.
    pub sends_per_request: Option<f64>,
    /// Requests per readable event.
    pub requests_per_event: Option<f64>,
}
