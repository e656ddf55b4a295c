//! What the service needs from the process that it runs in: the numbers of its drivers, and effects
//! that only a process has.
//!
//! The binary implements [`Host`]; the service calls it from any worker. Times are seconds, or
//! microseconds where the name ends in `_us`. Counts are since the start of the process.

/// Connections of the server, as counted by its drivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// The most that may be open.
    pub max: u64,
    /// Open now.
    pub open: u64,
    /// Whether further clients are accepted, if only to be rejected.
    pub accepting: bool,
    /// Accepted since the start.
    pub accepted: u64,
    /// Refused at the limit.
    pub rejected: u64,
    /// Closed because they were silent for too long.
    pub idle_kicks: u64,
    /// Closed because they did not receive their replies for too long.
    pub stall_kicks: u64,
    /// Closed because they sent nothing more of a long request for too long.
    pub upload_kicks: u64,
    /// Closed because there was no memory for replies that they did not receive.
    pub memory_kicks: u64,
    /// Times that accepting stopped at the limit.
    pub accept_stops: u64,
    /// Turns that ended early so that other connections had theirs.
    pub yields: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Threads that serve.
    pub threads: u64,
    /// Calls that wait for events.
    pub wait_calls: u64,
    /// Calls of `recv`.
    pub recv_calls: u64,
    /// Calls of `send` and `sendmsg`.
    pub send_calls: u64,
    /// Events of readable connections.
    pub readable: u64,
    /// Times that the queue of signals was full, so that a driver checked every connection.
    pub signals_lost: u64,
}

/// One connection, for `stats conns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionReport {
    /// Its number, which a person can tell it from others by.
    pub number: u64,
    /// The address of the client.
    pub address: String,
    /// The address it was accepted at; empty for a listening socket.
    pub listener: String,
    /// Its state, in memcached's words: `conn_read`, for example.
    pub state: &'static str,
    /// Seconds since its last request.
    pub idle_s: u64,
}

/// Processor time of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rusage {
    /// In user code, in microseconds.
    pub user_us: u64,
    /// In the kernel, in microseconds.
    pub system_us: u64,
}

/// How the limit on memory was changed, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitChange {
    /// What it was.
    pub from: u64,
    /// What it is.
    pub to: u64,
}

/// The process.
pub trait Host: Send + Sync {
    /// The numbers of all connections.
    fn connections(&self) -> Connections;
    /// All open connections and listening sockets.
    fn reports(&self) -> Vec<ConnectionReport>;
    /// Processor time since the start.
    fn rusage(&self) -> Rusage;
    /// Ends the process: at once, or if `graceful` after clients have finished.
    fn shutdown(&self, graceful: bool);
    /// Sets how much the process logs: 0 is the least.
    fn set_verbosity(&self, level: u32);
    /// A client has changed the limit on memory.
    fn limit_changed(&self, change: LimitChange);
}
