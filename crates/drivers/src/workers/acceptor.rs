//! Accepting, at the first worker: each connection goes to the worker with the fewest connections.
//!
//! When the limit is reached and clients are to wait, the source stops watching the listeners for
//! clients, so nothing spins; when descriptors run out, those for links too. Accepting resumes when
//! a client leaves, or after [`RETRY_NS`].
//!
//! Times are nanoseconds of the monotonic clock.

use std::sync::Arc;

use rustix::io::Errno;
use session::{Serve, WorkerId};

use super::connections::Connections;
use super::key::{KEY_LISTENERS, Key};
use super::source::Source;
use crate::shared::{ACCEPTS_MAX, Attempt, Message, RETRY_NS, Shared, WorkerHandle, attempt};
use crate::sockets::{Accepted, Listener};

/// The worker that accepts.
const ACCEPTING: usize = 0;

pub(super) struct Acceptor {
    listeners: Vec<Listener>,
    workers: Vec<Arc<WorkerHandle>>,
    /// The worker that is compared first, so that equal ones take turns.
    next: usize,
    /// While accepting has stopped: when to try again.
    retry_at_ns: Option<u64>,
    /// Links are not accepted either.
    links_stopped: bool,
}

impl Acceptor {
    pub(super) fn new(
        listeners: Vec<Listener>,
        source: &mut impl Source,
        shared: &Shared,
    ) -> Result<Self, Errno> {
        let worker = |id| shared.worker(WorkerId(id)).expect("handles are made before workers");
        let workers = (0..shared.config().pool()).map(worker).collect();
        let this = Self { listeners, workers, next: 0, retry_at_ns: None, links_stopped: false };
        for listener in &this.listeners {
            shared.show(listener);
        }
        this.watch(true, source)?;
        this.watch(false, source)?;
        Ok(this)
    }

    /// The listeners for links, or those for clients.
    fn listeners(&self, links: bool) -> impl Iterator<Item = (Key, &Listener)> {
        let all = (KEY_LISTENERS..).zip(&self.listeners);
        all.filter(move |(_, listener)| listener.is_for_links() == links)
    }

    fn watch(&self, links: bool, source: &mut impl Source) -> Result<(), Errno> {
        self.listeners(links).try_for_each(|(key, it)| source.watch_listener(it.fd(), key))
    }

    fn unwatch(&self, links: bool, source: &mut impl Source) {
        self.listeners(links).for_each(|(key, it)| source.unwatch_listener(it.fd(), key));
    }

    /// Closes the listeners.
    pub(super) fn close(self, source: &mut impl Source) {
        for (key, listener) in (KEY_LISTENERS..).zip(&self.listeners) {
            source.close_listener(listener.fd(), key);
        }
    }

    /// When to try again to accept; never while it accepts.
    #[inline]
    pub(super) fn retry_at_ns(&self) -> u64 {
        self.retry_at_ns.unwrap_or(u64::MAX)
    }

    /// Accepts the connections that wait at the listener of `key`.
    pub(super) fn accept<H: Serve, S: Source>(&mut self, key: Key, conns: &mut Connections<H, S>) {
        let index = (key - KEY_LISTENERS) as usize;
        let links = self.listeners[index].is_for_links();
        for _ in 0..ACCEPTS_MAX {
            if if links { self.links_stopped } else { self.retry_at_ns.is_some() } {
                return;
            }
            let listener = &self.listeners[index];
            let Connections { source, shared, handle, .. } = &mut *conns;
            match attempt(shared, handle.counters(), links, || source.accept(listener, key)) {
                Attempt::Accepted(accepted) => self.assign(accepted, conns),
                Attempt::Again => {}
                Attempt::Full => return self.stop(conns),
                Attempt::Pause => {
                    self.links_stopped = true;
                    self.unwatch(true, &mut conns.source);
                    return self.stop(conns);
                }
                Attempt::NoneWaiting => return,
            }
        }
        conns.source.report_again(self.listeners[index].fd(), key);
    }

    /// Gives a connection to a worker.
    fn assign<H: Serve, S: Source>(&mut self, accepted: Accepted, conns: &mut Connections<H, S>) {
        let chosen = self.choose();
        let worker = &self.workers[chosen];
        let is_client = !accepted.is_link();
        worker.add_load();
        if is_client {
            conns.shared.opened();
        }
        if chosen == ACCEPTING {
            conns.open(accepted);
        } else if !worker.mailbox().post(Message::Serve(accepted)) {
            worker.drop_load();
            if is_client {
                conns.shared.closed();
            }
        }
    }

    /// The worker with the fewest connections.
    fn choose(&mut self) -> usize {
        let count = self.workers.len();
        self.next = (self.next + 1) % count;
        let load = |at: &usize| self.workers[*at].load();
        let turns = (0..count).map(|turn| (self.next + turn) % count);
        turns.min_by_key(load).expect("there is at least one worker")
    }

    fn stop<H: Serve, S: Source>(&mut self, conns: &mut Connections<H, S>) {
        self.pause(conns);
        // First, so that who sees the count sees that clients are not accepted.
        self.tell_stopped(true, conns);
        conns.handle.counters().accept_stops.add(1);
    }

    /// Lets others see whether clients are accepted, if this worker accepts them.
    fn tell_stopped<H: Serve, S: Source>(&self, stopped: bool, conns: &Connections<H, S>) {
        if self.listeners(false).next().is_some() {
            conns.shared.set_accept_stopped(stopped);
        }
    }

    fn pause<H: Serve, S: Source>(&mut self, conns: &mut Connections<H, S>) {
        self.unwatch(false, &mut conns.source);
        self.retry_at_ns = Some(conns.now_ns() + RETRY_NS);
    }

    /// Accepts again, if accepting has stopped and nothing keeps it from that.
    #[cold]
    pub(super) fn resume<H: Serve, S: Source>(&mut self, conns: &mut Connections<H, S>) {
        if self.retry_at_ns.is_none() {
            return;
        }
        if self.links_stopped {
            if self.watch(true, &mut conns.source).is_err() {
                self.unwatch(true, &mut conns.source);
                return self.pause(conns);
            }
            self.links_stopped = false;
        }
        if conns.shared.must_wait() || self.watch(false, &mut conns.source).is_err() {
            return self.pause(conns);
        }
        self.retry_at_ns = None;
        self.tell_stopped(false, conns);
    }
}
