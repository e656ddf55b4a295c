//! The thread of one client: it receives, executes and sends, one after the other, and blocks
//! wherever it waits.
//!
//! Invariants: `end_batch` is called after each step, before anything is sent and before the thread
//! blocks; what the handler has ordered is carried out before that. While a reply waits or a
//! request is parked, the thread waits for messages and does not receive. While it waits for a log,
//! that is announced, and the gate was asked since. Dropping a client removes its worker and counts
//! the connection as closed, also where its thread could not start.

use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use session::{BatchEnd, ConnId, Connection, Context, Flow, Order, Serve, Span, Waited};

use crate::clock::seconds;
use crate::outbox::Outbox;
use crate::shared::{
    Message, ORDERS_MAX, PARKED_RETRY_NS, Phase, Shared, Taken, WorkerHandle, bit_of,
};
use crate::silence::{Expected, Limit};
use crate::sockets::{Accepted, ConnectionInfo, Sent, State, send_span};

/// Bytes that one `recv` takes at most: few, because there may be thousands of threads.
const RECV_BYTES: usize = 16 << 10;

/// Memory the output buffer keeps from one batch to the next.
const OUT_KEEP_BYTES: usize = 16 << 10;

/// How often a thread that waits for messages checks whether its client is still there.
const MESSAGE_WAIT: Duration = Duration::from_secs(1);

pub(super) struct Client<H: Serve> {
    fd: Arc<OwnedFd>,
    shared: Arc<Shared>,
    handle: Arc<WorkerHandle>,
    connection: H::Connection,
    context: Context<H>,
    info: Arc<ConnectionInfo>,
    buffer: Vec<u8>,
    /// How long its socket waits when it receives.
    limit: Option<Limit>,
    paused: bool,
}

impl<H: Serve> Client<H> {
    pub(super) fn new(
        accepted: Accepted,
        id: ConnId,
        shared: Arc<Shared>,
        handle: Arc<WorkerHandle>,
        mut handler: H,
    ) -> Self {
        let now = shared.clock().now();
        let connection = handler.accept(id, accepted.listener());
        assert!(connection.is_client(), "a listener for clients accepts no links");
        let (fd, info) = accepted.into_connection(seconds(now));
        handle.show(0, info.clone());
        let resources = shared.config().resources.clone();
        let context = Context::new(handler, now, resources);
        let fd = Arc::new(fd);
        handle.blocks_on(id, fd.clone());
        Self {
            fd,
            shared,
            handle,
            connection,
            context,
            info,
            buffer: vec![0; RECV_BYTES],
            limit: None,
            paused: false,
        }
    }

    /// Its socket, which another thread may shut down to wake this one.
    pub(super) fn fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    /// Serves the client until its end.
    pub(super) fn run(mut self) {
        self.handle.counters().accepted.add(1);
        while self.step().is_continue() && self.shared.phase() != Phase::Stopping {}
        self.handle.counters().closed.add(1);
        self.context.handler.closed(self.connection.id());
        // The acceptor holds the descriptor a little longer, so closing it here would not end the
        // connection. An error means that the connection is broken.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// Makes its socket wait no longer than what is expected of the client may take.
    fn limit_silence(&mut self) -> Result<(), Errno> {
        let rest = self.connection.awaits_rest();
        let expected = if rest { Expected::Rest } else { Expected::Request };
        let limit = expected.limit(self.shared.config());
        if limit == self.limit {
            return Ok(());
        }
        let longest = limit.map(|limit| Duration::from_secs(limit.seconds.into()));
        set_socket_timeout(&self.fd, Timeout::Recv, longest)?;
        self.limit = limit;
        Ok(())
    }

    /// Does what the session needs next, then sends what there is to send. [`Break`] ends the
    /// connection.
    fn step(&mut self) -> ControlFlow<()> {
        // It does not block while the handler has orders, which the end of the step before may add.
        let any = self.carry_out_orders()?;
        let next = match self.connection.flow() {
            Flow::Close | Flow::Drop => return Break(()),
            _ if self.handle.mailbox().has_messages() => {
                let taken = self.handle.mailbox().take();
                self.on_messages(taken)
            }
            _ if any => Continue(()),
            Flow::Again | Flow::Full => self.resume(),
            Flow::Parked => self.retry(),
            Flow::Waiting => self.wait_for_messages(MESSAGE_WAIT),
            Flow::Idle if self.connection.is_pending() || self.paused => {
                self.wait_for_messages(MESSAGE_WAIT)
            }
            Flow::Idle => self.receive(),
        };
        self.carry_out_orders()?;
        if self.connection.flow() == Flow::Drop {
            return Break(());
        }
        let clock = self.shared.clock();
        match self.context.handler.end_batch(self.context.now, || clock.now()) {
            BatchEnd::Drop => Break(()),
            BatchEnd::Send => {
                self.withhold();
                self.release()?;
                self.send()?;
                next
            }
        }
    }

    /// Carries out what the handler has ordered, which is about this connection or has no effect.
    /// Returns whether there was anything.
    fn carry_out_orders(&mut self) -> ControlFlow<(), bool> {
        for count in 0..ORDERS_MAX {
            match self.context.handler.take_order() {
                None => return Continue(count > 0),
                Some(Order::Connect { purpose, .. }) => self.context.handler.unconnected(purpose),
                Some(Order::Turn(id)) if id == self.connection.id() => self.order_turn(),
                Some(Order::Complete(completions)) => {
                    for (ticket, bytes, last) in completions.iter() {
                        self.connection.complete(ticket, (bytes, last), &mut self.context);
                    }
                }
                Some(Order::Close(id)) if id == self.connection.id() => return Break(()),
                Some(Order::Turn(_) | Order::Close(_)) => {}
            }
        }
        Continue(true)
    }

    /// Gives the connection a turn, unless it waits or ends, or must send first.
    fn order_turn(&mut self) {
        let sent = self.context.out.is_empty();
        match self.connection.flow() {
            Flow::Idle | Flow::Again => self.turn(),
            Flow::Full | Flow::Parked if sent => self.turn(),
            _ => {}
        }
    }

    /// Queues the replies of this step whose gates have not passed.
    fn withhold(&mut self) {
        if self.context.has_held() && !self.context.held_may_leave() {
            let span = self.context.out.whole();
            let leaving = self.connection.withhold(span, &mut self.context);
            self.context.out.cut_after(leaving);
            self.context.forget_held();
        }
    }

    /// Lets replies leave whose completion or log mark has come, the present step included, or
    /// whose deadline has passed. No later mark is missed: it wakes the thread.
    fn release(&mut self) -> ControlFlow<()> {
        while self.connection.is_pending() {
            let waited = self.connection.waits_for();
            self.handle.announce(match waited {
                Some(Waited::Gate { log, .. }) => bit_of(log),
                Some(Waited::Ticket(_)) | None => 0,
            });
            if self.connection.release(&mut self.context) == Flow::Drop {
                return Break(());
            }
            if waited.is_some() && self.connection.waits_for() == waited {
                self.info.set_state(State::Wait);
                return Continue(());
            }
            self.handle.withdraw();
            self.info.set_state(State::Read);
        }
        Continue(())
    }

    /// Waits a little, then tries to run the parked request again.
    fn retry(&mut self) -> ControlFlow<()> {
        self.wait_for_messages(Duration::from_nanos(PARKED_RETRY_NS))?;
        self.resume()
    }

    fn resume(&mut self) -> ControlFlow<()> {
        self.turn();
        Continue(())
    }

    fn turn(&mut self) {
        self.connection.resume(&mut self.context);
        self.note_yield();
    }

    fn note_yield(&self) {
        if self.connection.flow() == Flow::Again {
            self.handle.counters().yields.add(1);
        }
    }

    fn receive(&mut self) -> ControlFlow<()> {
        if self.limit_silence().is_err() {
            return Break(());
        }
        let direct = self.connection.value_buffer(&self.shared.config().resources);
        let is_direct = direct.is_some();
        let result = match direct {
            Some(value) => recv(&self.fd, spare_capacity(value), RecvFlags::empty()),
            None => recv(&self.fd, &mut self.buffer[..], RecvFlags::empty()).map(|(_, n)| (n, n)),
        };
        self.context.now = self.shared.clock().now();
        let counters = self.handle.counters();
        counters.wakeups.add(1);
        counters.recv_calls.add(1);
        match result {
            Ok((0, _)) => Break(()),
            Ok((count, _)) => {
                counters.readable.add(1);
                counters.bytes_in.add(count as u64);
                self.info.touch(seconds(self.context.now));
                let input = if is_direct { &[] } else { &self.buffer[..count] };
                self.connection.receive(input, &mut self.context);
                self.note_yield();
                Continue(())
            }
            Err(Errno::INTR) => Continue(()),
            Err(Errno::AGAIN) => {
                if let Some(limit) = self.limit {
                    limit.kick.counter(counters).add(1);
                }
                Break(())
            }
            Err(_) => Break(()),
        }
    }

    /// Waits for messages up to `limit`, or to the deadline of the next reply.
    fn wait_for_messages(&mut self, limit: Duration) -> ControlFlow<()> {
        self.info.set_state(State::Wait);
        let due_ns = self.connection.due_ns().unwrap_or(u64::MAX);
        let until_due =
            Duration::from_nanos(due_ns.saturating_sub(self.shared.clock().now().mono_ns));
        let taken = self.handle.mailbox().wait(limit.min(until_due));
        self.context.now = self.shared.clock().now();
        if taken.messages.is_empty() && !taken.release && self.is_client_gone() {
            return Break(());
        }
        self.info.set_state(State::Read);
        self.on_messages(taken)
    }

    fn on_messages(&mut self, taken: Taken) -> ControlFlow<()> {
        for message in taken.messages {
            match message {
                Message::Complete { ticket, bytes, last } => {
                    self.connection.complete(ticket, (&bytes, last), &mut self.context);
                }
                Message::Mail(mail) => mail.deliver(&mut self.context.handler, self.context.now),
                Message::Close(conn) if conn == self.connection.id() => return Break(()),
                Message::PauseRead { conn, on } if conn == self.connection.id() => self.paused = on,
                Message::Close(_) | Message::PauseRead { .. } | Message::Serve(_) => {}
            }
        }
        if taken.overflown && self.connection.has_ticket() {
            self.handle.counters().mailbox_kicks.add(1);
            return Break(());
        }
        Continue(())
    }

    fn is_client_gone(&self) -> bool {
        let mut fds = [PollFd::new(&*self.fd, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Hang-up and error are reported although no event is requested.
        poll(&mut fds, Some(&at_once)).is_ok_and(|count| count > 0)
    }

    fn send(&mut self) -> ControlFlow<()> {
        let span = self.context.out.whole();
        let next = if span.is_empty() {
            Continue(())
        } else {
            let counters = self.handle.counters();
            match send_span(self.fd.as_fd(), &mut self.context.out, span, counters) {
                Sent::All => Continue(()),
                Sent::Part(rest) => self.send_rest(rest),
                Sent::Broken => Break(()),
            }
        };
        self.context.out.clear(OUT_KEEP_BYTES);
        next
    }

    /// Sends what the client did not take at once, as it takes it.
    fn send_rest(&mut self, rest: Span) -> ControlFlow<()> {
        let rest = self.context.out.detach(rest);
        self.context.out.clear(OUT_KEEP_BYTES);
        let counters = self.handle.counters();
        let Some(mut outbox) = Outbox::keep(rest, &mut self.context, self.shared.clock()) else {
            counters.memory_kicks.add(1);
            return Break(());
        };
        self.info.set_state(State::Write);
        loop {
            self.info.touch(seconds(self.shared.clock().now()));
            if !wait_until_writable(self.fd.as_fd(), self.shared.config().stall_timeout_s) {
                counters.stall_kicks.add(1);
                return Break(());
            }
            match outbox.send(self.fd.as_fd(), counters) {
                Sent::All => break,
                Sent::Part(_) => {}
                Sent::Broken => return Break(()),
            }
        }
        self.context.now = self.shared.clock().now();
        self.info.set_state(State::Read);
        Continue(())
    }
}

/// Waits until the socket takes more, or is broken; `false` when it has taken nothing for
/// `timeout_s` seconds, where 0 means no limit.
fn wait_until_writable(fd: BorrowedFd<'_>, timeout_s: u32) -> bool {
    let timeout = Timespec { tv_sec: timeout_s.into(), tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    // After a signal the caller sends, which finds out, and waits again.
    poll(&mut fds, (timeout_s > 0).then_some(&timeout)) != Ok(0)
}

impl<H: Serve> Drop for Client<H> {
    fn drop(&mut self) {
        self.handle.hide(0);
        self.shared.remove_worker(self.connection.id().worker);
        self.shared.closed();
    }
}
