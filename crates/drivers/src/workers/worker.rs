//! One worker: its parts, and the loop that every request of its connections goes through.
//!
//! ```text
//! run -> wait                 once for all that has happened
//!     -> Receiver::turn       for each readable client: receive, parse and execute in place
//!     -> Sender::flush        orders, end_batch, then one send for each client that was answered
//!     -> tend_waits           deadlines of replies, and requests that are parked
//!     -> Housekeeper::run     when nothing happened, or after a tenth of a second
//! ```
//!
//! It has no state of its own but whether it was just busy. Replies are sent before it waits, and
//! `end_batch` is called before anything is sent.

use std::sync::Arc;

use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use session::{Serve, WorkerId};

use super::connections::Connections;
use super::housekeeper::{Housekeeper, SHORT_WAIT_NS};
use super::key::{KEY_CONNECTS, KEY_LISTENERS, KEY_SPECIAL, Key};
use super::receiver::{Progress, Receiver};
use super::sender::Sender;
use super::source::Source;
use crate::clock::{CoarseClock, timespec};
use crate::shared::Shared;
use crate::sockets::Listener;

/// How long a worker that was just busy waits before it computes how long it may sleep.
const SHORT_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: SHORT_WAIT_NS as i64 };

pub(super) struct Worker<H: Serve, S> {
    sender: Sender<H, S>,
    receiver: Receiver,
    housekeeper: Housekeeper,
    clock: CoarseClock,
    /// The latest wait has ended with events, so the next one most likely will.
    busy: bool,
}

impl<H: Serve, S: Source> Worker<H, S> {
    /// Worker `id` of `shared`. The one that is given `listeners` accepts for all.
    pub(super) fn new(
        shared: &Arc<Shared>,
        id: WorkerId,
        handler: H,
        listeners: Option<Vec<Listener>>,
    ) -> Result<Self, Errno> {
        let mut conns = Connections::new(shared, id, handler)?;
        let housekeeper = Housekeeper::new(listeners, &mut conns)?;
        let (sender, receiver) = (Sender::new(conns), Receiver::new());
        let clock = CoarseClock::new(shared.clock().clone());
        Ok(Self { sender, receiver, housekeeper, clock, busy: false })
    }

    /// Serves until the server ends.
    pub(super) fn run(mut self) {
        loop {
            let count = self.wait();
            let alone = !S::COMPLETES
                && count == 1
                && self.sender.is_empty()
                && !self.sender.conns.waits.has_gates();
            let (mut at, mut ended) = (0, false);
            while let Some((key, flags)) = self.sender.conns.source.event(at) {
                if flags == EventFlags::IN {
                    match self.receiver.turn(at, key, alone, &mut self.sender) {
                        Progress::Open => ended = false,
                        Progress::Ended => ended = true,
                        Progress::NoClient => self.on_event(key, flags),
                    }
                } else {
                    self.on_event(key, flags);
                }
                at += 1;
            }
            if self.sender.conns.has_queued() {
                self.receiver.turn_again(&mut self.sender);
                ended = false;
            }
            if !ended {
                self.sender.flush();
            }
            let is_due = self.sender.conns.waits.is_any() && self.tend_waits(count == 0);
            let conns = &self.sender.conns;
            let now_ns = conns.now_ns();
            self.busy =
                count > 0 && !is_due && conns.context.handler.wake_at_ns() > now_ns + SHORT_WAIT_NS;
            if !self.busy || self.housekeeper.is_due(now_ns) {
                self.housekeeper.run(&mut self.sender);
                if self.housekeeper.is_over(&self.sender.conns) {
                    break;
                }
            }
        }
        if !self.sender.is_empty() {
            // There is no further wait in which the source would send them.
            self.sender.flush_now();
        }
        self.housekeeper.end(&mut self.sender);
    }

    /// Waits for events and reads the clock; returns how many events there are.
    #[inline(always)]
    fn wait(&mut self) -> usize {
        self.sender.end_late();
        // What a source sends while it waits may be taken in part, which is seen after the wait.
        let may_wait = self.busy || !self.sender.is_empty();
        let conns = &self.sender.conns;
        let is_short = may_wait && !conns.has_queued() && !conns.waits.has_parked();
        let timeout = if is_short { None } else { Some(self.timeout()) };
        let count = match &timeout {
            None => self.sender.wait(&SHORT_WAIT),
            Some(timeout) => self.sender.wait(timeout),
        };
        self.sender.conns.withdraw_waits();
        self.sender.conclude();
        if let Some(now) = self.clock.step() {
            self.sender.conns.set_now(now);
        }
        self.sender.conns.handle.counters().wakeups.add(1);
        count
    }

    /// How long to wait when there may be something to do: until it is due, or not at all when a
    /// connection has more to do.
    #[cold]
    fn timeout(&self) -> Timespec {
        let conns = &self.sender.conns;
        let wait_ns = if conns.has_queued() { 0 } else { self.housekeeper.wait_ns(conns) };
        timespec(wait_ns)
    }

    /// Ends what has waited for too long, and tries again what is parked, more of it on an `idle`
    /// worker. Returns whether more of either is due soon.
    #[cold]
    #[inline(never)]
    fn tend_waits(&mut self, idle: bool) -> bool {
        let ended = self.sender.end_overdue();
        let tried = Receiver::turn_parked(idle, &mut self.sender);
        if ended || tried {
            self.sender.flush();
        }
        let conns = &self.sender.conns;
        conns.waits.wait_ns(conns.now_ns()) <= SHORT_WAIT_NS
    }

    /// Handles every event but that a client has sent something.
    #[cold]
    #[inline(never)]
    fn on_event(&mut self, key: Key, flags: EventFlags) {
        match key {
            KEY_CONNECTS.. => self.sender.on_connecting(key),
            KEY_LISTENERS.. => self.housekeeper.accept(key, &mut self.sender.conns),
            KEY_SPECIAL => self.housekeeper.on_messages(&mut self.sender),
            _ => self.receiver.on_event(key, flags, &mut self.sender),
        }
    }
}
