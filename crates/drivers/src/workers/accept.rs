//! Accepting, at the first worker: each client goes to the worker with the fewest.
//!
//! When descriptors run out, or the limit is reached and clients are to wait, nobody watches the
//! listeners: nothing spins. They return when a connection closes, or after a while.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use session::{Handler, WorkerId};

use super::client::{KEY_SPECIAL, Key};
use super::source::Source;
use super::worker::Worker;
use crate::accept::{ACCEPTS_MAX, AcceptError, RETRY_NS, classify, reject};
use crate::listen::{Accepted, Listener};
use crate::mailbox::Message;
use crate::shared::{Shared, WorkerHandle};

/// The key of the first listener; the others follow.
pub(crate) const KEY_LISTENERS: Key = KEY_SPECIAL + 1;

pub(super) struct Acceptor {
    listeners: Vec<Listener>,
    handles: Vec<Arc<WorkerHandle>>,
    /// The worker asked first, so that equals take turns.
    next: usize,
    /// Since accepting has stopped: when to try again.
    retry_at_ns: Option<u64>,
}

impl Acceptor {
    pub(super) fn new(
        listeners: Vec<Listener>,
        source: &mut impl Source,
        shared: &Shared,
    ) -> Result<Self, Errno> {
        let handle = |index| shared.handle(WorkerId(index)).expect("handles are set up before");
        let handles = (0..shared.config.workers).map(handle).collect();
        let this = Self { listeners, handles, next: 0, retry_at_ns: None };
        for listener in &this.listeners {
            shared.listens(listener.fd.as_raw_fd(), listener.address.clone());
        }
        this.register(source)?;
        Ok(this)
    }

    fn register(&self, source: &mut impl Source) -> Result<(), Errno> {
        for (key, listener) in (KEY_LISTENERS..).zip(&self.listeners) {
            source.watch_listener(&listener.fd, key)?;
        }
        Ok(())
    }

    fn deregister(&self, source: &mut impl Source) {
        for (key, listener) in (KEY_LISTENERS..).zip(&self.listeners) {
            source.unwatch_listener(&listener.fd, key);
        }
    }

    /// Closes the listeners.
    pub(super) fn close(self, source: &mut impl Source) {
        for (key, listener) in (KEY_LISTENERS..).zip(&self.listeners) {
            source.close_listener(&listener.fd, key);
        }
    }

    /// When to look again whether clients can be accepted.
    #[inline]
    pub(super) fn retry_at_ns(&self) -> u64 {
        self.retry_at_ns.unwrap_or(u64::MAX)
    }

    /// The worker with the fewest connections.
    fn choose(&mut self) -> usize {
        let count = self.handles.len();
        self.next = (self.next + 1) % count;
        let load = |at: &usize| self.handles[*at].load.load(Ordering::Relaxed);
        let turns = (0..count).map(|turn| (self.next + turn) % count);
        turns.min_by_key(load).expect("there is at least one worker")
    }
}

impl<H: Handler, S: Source> Worker<H, S> {
    /// Accepts the clients that wait at listener `index`.
    #[cold]
    pub(super) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(acceptor) = &mut self.acceptor else { return };
            if acceptor.retry_at_ns.is_some() {
                return;
            }
            let config = &self.shared.config;
            let full = self.shared.open.load(Ordering::Relaxed) >= config.connections_max;
            if full && !config.reject_at_limit {
                return self.stop_accepting();
            }
            match self.source.accept(&acceptor.listeners[index], KEY_LISTENERS + index as Key) {
                Ok(accepted) if full => {
                    self.handle.counters.rejected.add(1);
                    reject(&accepted);
                }
                Ok(accepted) => self.admit(accepted),
                Err(error) => match classify(error) {
                    AcceptError::Retry => {}
                    AcceptError::Pause => return self.stop_accepting(),
                    AcceptError::NoneWaiting => return,
                },
            }
        }
        if let Some(acceptor) = &self.acceptor {
            self.source.remind(&acceptor.listeners[index].fd, KEY_LISTENERS + index as Key);
        }
    }

    fn admit(&mut self, accepted: Accepted) {
        let Some(acceptor) = &mut self.acceptor else { return };
        let chosen = acceptor.choose();
        let handle = &acceptor.handles[chosen];
        handle.load.fetch_add(1, Ordering::Relaxed);
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        if chosen == usize::from(self.id.0) {
            self.adopt(accepted);
        } else if !handle.mailbox.post(Message::Adopt(accepted)) {
            handle.load.fetch_sub(1, Ordering::Relaxed);
            self.shared.left();
        }
    }

    fn stop_accepting(&mut self) {
        let Some(acceptor) = &mut self.acceptor else { return };
        acceptor.deregister(&mut self.source);
        acceptor.retry_at_ns = Some(self.context.now.mono_ns + RETRY_NS);
        self.handle.counters.accept_stops.add(1);
        self.shared.accept_stopped.store(true, Ordering::Relaxed);
    }

    /// Accepts again, if it had stopped and there is room.
    #[cold]
    pub(super) fn resume_accepting(&mut self) {
        let Some(acceptor) = &mut self.acceptor else { return };
        if acceptor.retry_at_ns.is_none() {
            return;
        }
        let config = &self.shared.config;
        let full = self.shared.open.load(Ordering::Relaxed) >= config.connections_max;
        if full && !config.reject_at_limit || acceptor.register(&mut self.source).is_err() {
            acceptor.deregister(&mut self.source);
            acceptor.retry_at_ns = Some(self.context.now.mono_ns + RETRY_NS);
            return;
        }
        acceptor.retry_at_ns = None;
        self.shared.accept_stopped.store(false, Ordering::Relaxed);
    }
}
