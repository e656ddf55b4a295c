//! Signals as requests to the cell, which the main thread takes one at a time.
//!
//! | signal | request |
//! |---|---|
//! | SIGINT | stop at once; replies that are composed are still sent |
//! | SIGTERM | leave the ring, if the cell is in one, and stop then |
//! | SIGUSR2 | the same, and begin again, with the program that stands now where this one stood |
//! | SIGUSR1 | drain: accept no new clients, close each between two requests, and stop then |
//! | SIGHUP | read the file of users again, as memcached does, and open the log file again |
//!
//! The runtime ignores SIGPIPE. No signal handler runs code of ours.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals as Source};
use signal_hook::low_level::raise;

/// What a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Stop at once.
    Stop,
    /// Leave the ring, and stop then.
    Leave,
    /// The same, and begin again.
    Restart,
    /// Stop when each client is between two requests.
    Drain,
    /// Read the files again.
    Reload,
}

impl Request {
    /// Sends the signal to this process, as the `shutdown` command does.
    ///
    /// # Errors
    /// The system's, when a signal cannot be raised.
    pub fn raise(self) -> io::Result<()> {
        raise(match self {
            Self::Stop => SIGINT,
            Self::Leave => SIGTERM,
            Self::Restart => SIGUSR2,
            Self::Drain => SIGUSR1,
            Self::Reload => SIGHUP,
        })
    }
}

/// The signals of the process, as long as this exists.
pub struct Signals {
    source: Source,
    ends: Arc<AtomicBool>,
}

impl Signals {
    /// Begins to receive the signals.
    ///
    /// # Errors
    /// The system's, when a handler cannot be set.
    pub fn new() -> io::Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGUSR1] {
            flag::register(signal, ends.clone())?;
        }
        let source = Source::new([SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP])?;
        Ok(Self { source, ends })
    }

    /// Set as soon as a signal requests the end, for what takes long before [`Signals::wait`].
    #[must_use]
    pub fn ends(&self) -> Arc<AtomicBool> {
        self.ends.clone()
    }

    /// Waits for the next request, without a time limit: a request is what ends the cell. `None`
    /// after the [`Closer`] was called.
    pub fn wait(&mut self) -> Option<Request> {
        loop {
            // Several signals may have come with the wake-up of one.
            if let Some(signal) = self.source.pending().next().or_else(|| self.source.wait().next())
            {
                return Some(meaning(signal));
            }
            if self.source.is_closed() {
                return None;
            }
        }
    }

    /// What ends [`Signals::wait`], from another thread.
    #[must_use]
    pub fn closer(&self) -> Closer {
        Closer(self.source.handle())
    }
}

/// Ends the wait for signals.
pub struct Closer(Handle);

impl Closer {
    /// Ends it, now and later.
    pub fn close(self) {
        self.0.close();
    }
}

fn meaning(signal: i32) -> Request {
    match signal {
        SIGTERM => Request::Leave,
        SIGUSR2 => Request::Restart,
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
        for request in
            [Request::Drain, Request::Reload, Request::Leave, Request::Restart, Request::Stop]
        {
            request.raise().expect("signals can be raised");
            assert_eq!(signals.wait(), Some(request));
        }
        Request::Reload.raise().expect("signals can be raised");
        Request::Stop.raise().expect("signals can be raised");
        assert_eq!(signals.wait(), Some(Request::Reload));
        assert_eq!(signals.wait(), Some(Request::Stop), "which came with the same wake-up");
        assert_eq!(signals.source.pending().count(), 0);
        signals.closer().close();
        assert_eq!(signals.wait(), None);
    }
}
