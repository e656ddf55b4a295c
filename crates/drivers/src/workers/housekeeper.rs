//! Housekeeping: everything that is not a client's request. Messages from other threads, accepting,
//! time-outs, and the end of the worker.
//!
//! ```text
//! drain   first pass: handle messages, stop listening, give each connection one more turn
//!         later ones: close each client that is between two requests; when the server has none
//!         left, close the links
//! end     the server has no client and the worker no connection left, the time for draining is
//!         over, or the server stops
//! ```
//!
//! It runs after the replies are sent: when no event came, when a message came, and every
//! [`SHORT_WAIT_NS`] while the worker is busy. Nothing in it is due more often than twice a second.
//!
//! Times are nanoseconds of the monotonic clock.

use rustix::io::Errno;
use session::{Connection, Serve};

use super::acceptor::Acceptor;
use super::connections::Connections;
use super::key::{Key, key_of};
use super::sender::Sender;
use super::source::Source;
use super::timeouts::Timeouts;
use crate::clock::SECOND_NS;
use crate::shared::{Message, Phase};
use crate::sockets::Listener;

/// A worker wakes up at least this often, so that no wait is without an end.
const WAIT_NS_MAX: u64 = 60 * SECOND_NS;

/// How late housekeeping may be while the worker is busy, and how long a busy worker waits before
/// it computes how long it may sleep.
pub(super) const SHORT_WAIT_NS: u64 = SECOND_NS / 10;

pub(super) struct Housekeeper {
    /// At the first worker, until the server ends.
    acceptor: Option<Acceptor>,
    timeouts: Timeouts,
    /// When to run while the worker is busy.
    due_ns: u64,
    draining: bool,
}

impl Housekeeper {
    /// One that accepts from `listeners`, if there are any.
    pub(super) fn new<H: Serve, S: Source>(
        listeners: Option<Vec<Listener>>,
        conns: &mut Connections<H, S>,
    ) -> Result<Self, Errno> {
        let new = |listeners| Acceptor::new(listeners, &mut conns.source, &conns.shared);
        let acceptor = listeners.map(new).transpose()?;
        Ok(Self { acceptor, timeouts: Timeouts::default(), due_ns: 0, draining: false })
    }

    /// Whether it is to run although the worker is busy.
    #[inline]
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// How long nothing is due.
    pub(super) fn wait_ns<H: Serve, S: Source>(&self, conns: &Connections<H, S>) -> u64 {
        let handler = &conns.context.handler;
        let mut at_ns = handler.wake_at_ns().min(self.timeouts.due_at_ns(conns));
        at_ns = at_ns.min(conns.connects.due_at_ns());
        if let Some(acceptor) = &self.acceptor {
            at_ns = at_ns.min(acceptor.retry_at_ns());
        }
        if self.draining {
            at_ns = at_ns.min(conns.shared.drain_until_ns());
        }
        let now_ns = conns.now_ns();
        at_ns.saturating_sub(now_ns).min(conns.waits.wait_ns(now_ns)).min(WAIT_NS_MAX)
    }

    /// Does what is due.
    #[cold]
    pub(super) fn run<H: Serve, S: Source>(&mut self, sender: &mut Sender<H, S>) {
        let conns = &mut sender.conns;
        let now_ns = conns.now_ns();
        self.due_ns = now_ns + SHORT_WAIT_NS;
        if now_ns >= self.timeouts.due_at_ns(conns) {
            self.timeouts.scan(conns);
        }
        conns.end_late_connects(now_ns);
        if let Some(acceptor) = &mut self.acceptor
            && now_ns >= acceptor.retry_at_ns()
        {
            acceptor.resume(conns);
        }
        if conns.shared.phase() != Phase::Running {
            self.drain(sender);
        }
    }

    /// Accepts the clients that wait at the listener of `key`.
    #[cold]
    pub(super) fn accept<H: Serve, S: Source>(&mut self, key: Key, conns: &mut Connections<H, S>) {
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.accept(key, conns);
        }
    }

    /// Handles the messages from other threads.
    pub(super) fn on_messages<H: Serve, S: Source>(&mut self, sender: &mut Sender<H, S>) {
        let taken = sender.conns.handle.mailbox().take();
        self.on_taken(taken.messages, sender);
        if taken.release {
            sender.conns.waits.ask_again();
        }
        if taken.overflown {
            sender.conns.close_unanswered();
        }
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.resume(&mut sender.conns);
        }
        self.due_ns = 0;
    }

    fn on_taken<H: Serve, S: Source>(&self, messages: Vec<Message>, sender: &mut Sender<H, S>) {
        for message in messages {
            match message {
                Message::Complete { ticket, bytes, last } => sender.complete(ticket, &bytes, last),
                Message::Mail(mail) => {
                    let context = &mut sender.conns.context;
                    mail.deliver(&mut context.handler, context.now);
                }
                Message::Close(conn) => sender.conns.close(key_of(conn)),
                Message::PauseRead { conn, on } => {
                    let key = key_of(conn);
                    let now_s = sender.conns.now_s;
                    if let Some(client) = sender.conns.clients.get(key) {
                        client.paused = on;
                        client.info.touch(now_s);
                        sender.conns.settle(key);
                    }
                }
                Message::Serve(accepted) => sender.conns.open(accepted),
            }
        }
        sender.release_completed();
    }

    /// Closes the clients that are between two requests, and then the links.
    fn drain<H: Serve, S: Source>(&mut self, sender: &mut Sender<H, S>) {
        let first = !self.draining;
        self.draining = true;
        if first {
            self.on_messages(sender);
            sender.flush();
        }
        let conns = &mut sender.conns;
        self.stop_listening(conns);
        let clients_left = conns.shared.open() > 0;
        for index in 0..conns.clients.places() {
            let Some(client) = conns.clients.at(index) else { continue };
            let key = client.key();
            if first {
                // What has arrived already is still answered.
                client.readable = true;
                conns.enqueue(key);
            } else if client.connection.is_client() && client.is_at_rest()
                || !client.connection.is_client() && !clients_left
            {
                conns.close(key);
            }
        }
    }

    fn stop_listening<H: Serve, S: Source>(&mut self, conns: &mut Connections<H, S>) {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.close(&mut conns.source);
        }
    }

    /// Whether the worker is at its end.
    pub(super) fn is_over<H: Serve, S: Source>(&self, conns: &Connections<H, S>) -> bool {
        match conns.shared.phase() {
            Phase::Running => false,
            Phase::Draining => {
                let late = conns.now_ns() >= conns.shared.drain_until_ns();
                let none_left = conns.clients.len() == 0 && conns.shared.open() == 0;
                self.draining && (none_left || late)
            }
            Phase::Stopping => true,
        }
    }

    /// Closes everything.
    pub(super) fn end<H: Serve, S: Source>(&mut self, sender: &mut Sender<H, S>) {
        self.stop_listening(&mut sender.conns);
        let messages = sender.conns.handle.mailbox().close();
        self.on_taken(messages, sender);
        sender.conns.close_all();
    }
}
