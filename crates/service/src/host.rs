//! What the service asks of the process it runs in.

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
    /// Turned away at the limit.
    pub rejected: u64,
    /// Closed for being silent too long.
    pub idle_kicks: u64,
    /// Closed for taking nothing of their replies too long.
    pub stall_kicks: u64,
    /// Closed because there was no memory for what they did not take.
    pub memory_kicks: u64,
    /// Times accepting stopped.
    pub accept_stops: u64,
    /// Turns cut short so that other connections had theirs.
    pub yields: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Threads that serve.
    pub threads: u64,
    /// Calls of `recv`.
    pub recv_calls: u64,
    /// Calls of `send` and `sendmsg`.
    pub send_calls: u64,
    /// Events of readable connections.
    pub readable: u64,
    /// Times that a full queue of signals made a driver look at every connection.
    pub signals_lost: u64,
}

/// One connection, for `stats conns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionReport {
    /// Its number, as a person would tell connections apart.
    pub number: u64,
    /// Whose it is: the address of the client.
    pub address: String,
    /// Where it was accepted.
    pub listener: String,
    /// What it is doing, in memcached's words (`conn_read` and so on).
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

/// The process, as the service sees it.
pub trait Host: Send + Sync {
    /// Connections now.
    fn connections(&self) -> Connections;
    /// Every open connection.
    fn reports(&self) -> Vec<ConnectionReport>;
    /// Processor time so far.
    fn rusage(&self) -> Rusage;
    /// Ends the process: at once, or after clients have finished.
    fn shutdown(&self, graceful: bool);
    /// Sets how much is logged.
    fn set_verbosity(&self, level: u32);
}
