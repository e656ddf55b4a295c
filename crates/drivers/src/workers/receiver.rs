//! Receiving: the turns of connections, from readiness to a reply in the output.
//!
//! ```text
//! turn         a readable client: receive, then parse and execute in place
//! turn_again   a connection with more to do: a bound has stopped it, or it was not receivable
//! turn_parked  connections whose request could not run: it is tried again
//! on_event     any other event of a client: it takes again, or it has hung up
//! ```
//!
//! A batch of one client is the common case of a server that is not busy: `turn` ends and sends it
//! itself, so one request costs one `recv`, one execution and one `send`.
//!
//! Invariants: only a client that [may receive](super::client::Client::may_receive) is received
//! from, once per turn. A turn that did not simply produce a reply ends in [`Sender::after_turn`].

use rustix::event::epoll::EventFlags;
use session::{BatchEnd, Connection, Flow, Mark, Serve};

use super::client::{Received, Turn};
use super::connections::Connections;
use super::key::Key;
use super::sender::Sender;
use super::source::Source;
use crate::sockets::Sent;

/// Bytes that one `recv` takes at most.
const RECV_BYTES: usize = 64 << 10;

/// The buffer that clients are received into.
pub(super) struct Receiver {
    buffer: Box<[u8]>,
}

/// How far a turn has brought the batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The batch has ended and its reply is sent.
    Ended,
    /// The batch is open.
    Open,
    /// No client has this key, so there was no turn.
    NoClient,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; RECV_BYTES].into_boxed_slice() }
    }

    /// Receives from a client that has sent something, and executes. The reply of a client that is
    /// `alone` in its batch is sent at once, which ends the batch; otherwise it joins the others.
    #[inline(always)]
    pub(super) fn turn<H: Serve, S: Source>(
        &mut self,
        at: usize,
        key: Key,
        alone: bool,
        sender: &mut Sender<H, S>,
    ) -> Progress {
        let Connections { source, clients, context, handle, clock, now_s, .. } = &mut sender.conns;
        let counters = handle.counters();
        let Some(client) = clients.get(key) else { return Progress::NoClient };
        counters.readable.add(1);
        if !client.may_receive() {
            self.turn_unready(at, key, sender);
            return Progress::Open;
        }
        let mark = context.out.mark();
        let turn = Turn { buffer: &mut self.buffer, context, counters };
        let received = source.receive(at, client, turn);
        if received != Received::Input {
            conclude(key, mark, received, sender);
            return Progress::Open;
        }
        client.info.touch(*now_s);
        let span = context.out.span_since(mark);
        if span.is_empty() || !client.is_settled() {
            conclude(key, mark, Received::Input, sender);
            return Progress::Open;
        }
        if alone && client.only_waits() && !context.has_held() {
            if context.handler.end_batch(context.now, || clock.now()) == BatchEnd::Drop {
                sender.conns.close(key);
            } else {
                match client.send(&mut context.out, span, counters) {
                    Sent::All => {}
                    Sent::Part(rest) => sender.keep(key, rest),
                    Sent::Broken => sender.conns.close(key),
                }
            }
            sender.conns.clear_output();
            return Progress::Ended;
        }
        client.unsent += 1;
        sender.push(key, span);
        Progress::Open
    }

    /// Handles event number `at`, which is about a client that may not be received from now. What a
    /// completing source has received already is taken in, and the source is stopped.
    #[cold]
    fn turn_unready<H: Serve, S: Source>(
        &mut self,
        at: usize,
        key: Key,
        sender: &mut Sender<H, S>,
    ) {
        let Connections { source, clients, context, handle, .. } = &mut sender.conns;
        let Some(client) = clients.get(key) else { return };
        if !S::COMPLETES {
            client.readable = true;
            return self.turn_apart(key, sender);
        }
        let mark = context.out.mark();
        let turn = Turn { buffer: &mut self.buffer, context, counters: handle.counters() };
        let received = source.receive(at, client, turn);
        if client.receiving {
            source.stop_receiving(key);
        }
        match received {
            Received::Broken => sender.conns.close(key),
            // A bound cannot have ended this turn: its session has executed nothing.
            Received::Input | Received::Nothing => sender.after_turn(key, mark),
        }
    }

    /// Gives a turn to each connection that has more to do.
    #[inline(never)]
    pub(super) fn turn_again<H: Serve, S: Source>(&mut self, sender: &mut Sender<H, S>) {
        for key in sender.conns.take_queued() {
            if let Some(client) = sender.conns.clients.get(key) {
                client.queued = false;
                self.turn_apart(key, sender);
            }
        }
    }

    /// Tries again to run requests that are parked, those first that were parked first: more of
    /// them if the worker is `idle`. Returns whether it has tried any.
    pub(super) fn turn_parked<H: Serve, S: Source>(idle: bool, sender: &mut Sender<H, S>) -> bool {
        let (mut tried, mut oldest) = (false, true);
        for _ in 0..sender.conns.waits.begin_retries(idle) {
            let Some(key) = sender.conns.take_parked(oldest) else { break };
            let Connections { clients, context, now_s, .. } = &mut sender.conns;
            let Some(client) = clients.get(key) else { continue };
            tried = true;
            let mark = context.out.mark();
            client.connection.resume(context);
            if !client.waits() {
                client.info.read_again(*now_s);
            }
            conclude(key, mark, Received::Nothing, sender);
            oldest &= sender.conns.clients.get(key).is_none_or(|client| !client.parked);
        }
        sender.conns.waits.end_retries();
        tried
    }

    /// Gives a connection a turn without bytes from an event: its session resumes input that it
    /// kept, or it is received from once.
    #[cold]
    fn turn_apart<H: Serve, S: Source>(&mut self, key: Key, sender: &mut Sender<H, S>) {
        let Connections { source, clients, context, handle, now_s, .. } = &mut sender.conns;
        let Some(client) = clients.get(key) else { return };
        if !client.has_more_to_do() {
            return;
        }
        let mark = context.out.mark();
        let mut received = Received::Nothing;
        if client.connection.flow() == Flow::Idle {
            let turn = Turn { buffer: &mut self.buffer, context, counters: handle.counters() };
            received = source.receive_again(client, turn);
            if received == Received::Input {
                client.info.touch(*now_s);
            }
        } else {
            client.connection.resume(context);
        }
        conclude(key, mark, received, sender);
    }

    /// Handles an event of a client that is not only that it has sent something: it takes again, or
    /// it has hung up.
    pub(super) fn on_event<H: Serve, S: Source>(
        &mut self,
        key: Key,
        flags: EventFlags,
        sender: &mut Sender<H, S>,
    ) {
        let gone = EventFlags::HUP | EventFlags::ERR;
        if flags.contains(EventFlags::OUT) {
            sender.send_rest(key);
        }
        let Some(client) = sender.conns.clients.get(key) else { return };
        if flags.intersects(EventFlags::RDHUP | gone) {
            client.hung_up = true;
            client.readable = true;
            if flags.intersects(gone) && !client.has_more_to_do() {
                return sender.conns.close(key);
            }
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | gone) {
            client.readable = true;
            sender.conns.handle.counters().readable.add(1);
            self.turn_apart(key, sender);
        }
    }
}

/// Ends a turn that did not simply produce a reply.
#[cold]
fn conclude<H: Serve, S: Source>(
    key: Key,
    mark: Mark,
    received: Received,
    sender: &mut Sender<H, S>,
) {
    let Some(client) = sender.conns.clients.get(key) else { return };
    if received == Received::Broken {
        return sender.conns.close(key);
    }
    if client.connection.flow() == Flow::Again {
        sender.conns.handle.counters().yields.add(1);
    }
    sender.after_turn(key, mark);
}
