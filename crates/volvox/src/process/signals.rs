//! Signals as requests to the cell, taken one at a time by the main thread.
//!
//! SIGTERM and SIGINT stop at once, what is composed still being sent; SIGUSR1 drains: no new
//! connections, the present ones end in their own time; SIGHUP, as in memcached, reads the
//! authentication file again, and the log file is opened anew. SIGPIPE is ignored by the runtime.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals as Source;
use signal_hook::low_level::raise;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Stop at once.
    Stop,
    /// Stop when the clients are done.
    Drain,
    /// Read the files again.
    Reload,
}

impl Request {
    /// Asks the process itself, as the `shutdown` command does.
    ///
    /// # Errors
    /// The system's, when a signal cannot be raised.
    pub fn raise(self) -> io::Result<()> {
        raise(match self {
            Self::Stop => SIGTERM,
            Self::Drain => SIGUSR1,
            Self::Reload => SIGHUP,
        })
    }
}

/// The signals of the process, from the moment this exists.
pub struct Signals(Source);

impl Signals {
    /// Takes over the signals.
    ///
    /// # Errors
    /// The system's, when a handler cannot be set.
    pub fn new() -> io::Result<Self> {
        Source::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP]).map(Self)
    }

    /// Waits for the next request, without end: to be told when to end is what it is for.
    pub fn wait(&mut self) -> Request {
        loop {
            if let Some(signal) = self.0.wait().next() {
                return meaning(signal);
            }
        }
    }
}

fn meaning(signal: i32) -> Request {
    match signal {
        SIGUSR1 => Request::Drain,
        SIGHUP => Request::Reload,
        _ => Request::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_requests_arrive() {
        let mut signals = Signals::new().expect("signals can be handled");
        for request in [Request::Drain, Request::Reload, Request::Stop] {
            request.raise().expect("signals can be raised");
            assert_eq!(signals.wait(), request);
        }
        assert_eq!(signals.0.pending().count(), 0);
    }
}
