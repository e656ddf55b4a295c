//! The way of every request through a worker, from top to bottom: wait, receive and execute, send.
//!
//! ```text
//! run -> wait            once for all that has happened
//!     -> turn            for each readable client: receive, then parse and execute in place
//!     -> flush           end_batch, then one send for each client that was answered
//! ```
//!
//! A batch of one client is the common case of a server that is not busy: `turn` ends it itself.
//!
//! What is rare stands elsewhere: `again.rs` goes on with clients that a bound has stopped,
//! `output.rs` keeps what a client does not take, `worker.rs` sees to everything that is not a
//! client. Only a client that is *receptive* is received from here, and only one that is *content*
//! is left alone after its replies; all others take the longer way.

use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use session::{BatchEnd, Context, Handler, Span};

use super::client::{Client, Key};
use super::source::{Source, Unsent};
use super::worker::{SHORT_WAIT, SHORT_WAIT_NS, Worker};
use crate::counters::Counters;
use crate::net::{Sent, send_span};
use crate::shared::seconds;

/// Output of one batch after which it is sent before anything else is executed: what a core's own
/// cache holds, and what the buffer keeps memory for.
const BATCH_BYTES_MAX: usize = 128 << 10;

/// Memory the output buffer of a worker keeps from one batch to the next.
const OUT_KEEP_BYTES: usize = 512 << 10;
const _: () = assert!(BATCH_BYTES_MAX <= OUT_KEEP_BYTES);

/// What came of reading once from a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// The session has dealt with what there was.
    Input,
    /// There was nothing, or its end.
    Nothing,
    /// The connection is broken.
    Broken,
}

impl<H: Handler, S: Source> Worker<H, S> {
    /// Serves until the server ends.
    pub(super) fn run(mut self) {
        loop {
            let count = self.wait();
            let alone = !S::COMPLETES && count == 1 && self.sends.is_empty();
            let (mut at, mut ended) = (0, false);
            while let Some((key, flags)) = self.source.news(at) {
                if flags == EventFlags::IN {
                    ended = self.turn(at, key, alone);
                } else {
                    self.on_unusual(key, flags);
                }
                at += 1;
            }
            if !self.again.is_empty() {
                self.turn_again();
                ended = false;
            }
            if !ended {
                self.flush();
            }
            self.busy = count > 0
                && self.context.handler.wake_at_ns() > self.context.now.mono_ns + SHORT_WAIT_NS;
            if !self.busy || self.context.now.mono_ns >= self.housekeep_at_ns {
                self.housekeep();
                if self.is_over() {
                    break;
                }
            }
        }
        self.send_now();
        self.close_all();
    }

    /// Waits for news and reads the clock; returns how many news there are.
    #[inline(always)]
    fn wait(&mut self) -> usize {
        if S::COMPLETES && self.sends.len() > self.ended_sends {
            self.flush();
        }
        let rest = if self.busy && self.again.is_empty() { None } else { Some(self.rest()) };
        let unsent = Unsent { clients: &self.clients, sends: &self.sends, out: &self.context.out };
        let counters = &self.handle.counters;
        let count = match &rest {
            None => self.source.wait(&unsent, &SHORT_WAIT, counters),
            Some(rest) => self.source.wait(&unsent, rest, counters),
        };
        if S::COMPLETES && !self.sends.is_empty() {
            self.conclude_sends();
        }
        if let Some(now) = self.watch.step() {
            self.context.now = now;
            self.now_s = seconds(now);
        }
        self.handle.counters.wakeups.add(1);
        count
    }

    /// Has a client that has sent something be received from and answered: at once when it is the
    /// only one of its batch, which ends the batch, else with all others. Returns whether the batch
    /// has ended.
    #[inline(always)]
    fn turn(&mut self, at: usize, key: Key, alone: bool) -> bool {
        let Self { source, clients, context, buffer, handle, now_s, .. } = self;
        let counters = &handle.counters;
        let Some(client) = clients.get(key) else {
            self.on_unusual(key, EventFlags::IN);
            return false;
        };
        counters.readable.add(1);
        if !client.is_receptive() {
            self.turn_unready(at, key);
            return false;
        }
        let mark = context.out.mark();
        let received = source.receive(at, client, buffer, context, counters);
        if received != Received::Input {
            self.conclude(key, mark, received);
            return false;
        }
        client.info.touch(*now_s);
        let span = context.out.span_since(mark);
        if span.is_empty() || !client.is_settled() {
            self.conclude(key, mark, Received::Input);
            return false;
        }
        if alone && client.is_content() {
            if context.handler.end_batch(context.now) == BatchEnd::Drop {
                self.close(key);
            } else {
                match send_span(client.fd.as_fd(), &mut context.out, span, counters) {
                    Sent::All => {}
                    Sent::Part(rest) => self.send_later(key, rest),
                    Sent::Broken => self.close(key),
                }
            }
            self.context.out.clear(OUT_KEEP_BYTES);
            return true;
        }
        client.unsent += 1;
        self.sends.push((key, span));
        self.flush_if_large();
        false
    }

    /// Sends in the middle of a batch when there is much to send.
    #[inline(always)]
    pub(super) fn flush_if_large(&mut self) {
        if self.context.out.len() >= BATCH_BYTES_MAX {
            self.flush_early();
        }
    }

    /// Ends the batch and sends its replies, or leaves that to a source that sends when it waits.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        let end = self.context.handler.end_batch(self.context.now);
        if self.sends.is_empty() {
            return;
        }
        if S::COMPLETES && end == BatchEnd::Send && self.may_send_later() {
            self.ended_sends = self.sends.len();
            return;
        }
        self.send_all(end);
    }

    /// Sends the replies of the batch, if they may be sent.
    #[inline(always)]
    pub(super) fn send_all(&mut self, end: BatchEnd) {
        let mut at = 0;
        while let Some((key, span)) = self.sends.get(at).copied() {
            at += 1;
            match end {
                BatchEnd::Send => self.send(key, span),
                BatchEnd::Drop => self.close(key),
            }
        }
        self.forget_sends();
    }

    /// Everything that was to be sent is sent or kept elsewhere.
    #[inline(always)]
    pub(super) fn forget_sends(&mut self) {
        self.sends.clear();
        self.ended_sends = 0;
        self.context.out.clear(OUT_KEEP_BYTES);
    }

    #[inline(always)]
    pub(super) fn send(&mut self, key: Key, span: Span) {
        let Some(client) = self.clients.get(key) else { return };
        client.unsent -= 1;
        if client.outbox.is_some() {
            return self.send_later(key, span);
        }
        match send_span(client.fd.as_fd(), &mut self.context.out, span, &self.handle.counters) {
            Sent::All if client.is_content() => {}
            Sent::All => self.settle(key),
            Sent::Part(rest) => self.send_later(key, rest),
            Sent::Broken => self.close(key),
        }
    }
}

/// Receives once, into `buffer` or into the place of a value in progress, and has the session deal
/// with it.
#[inline(always)]
pub(super) fn receive<H: Handler>(
    client: &mut Client,
    buffer: &mut [u8],
    context: &mut Context<H>,
    counters: &Counters,
) -> Received {
    if !client.session.can_parse_in_place() {
        return receive_after_tail(client, buffer, context, counters);
    }
    counters.recv_calls.add(1);
    let room = buffer.len();
    match recv(&client.fd, &mut *buffer, RecvFlags::empty()).map(|(_, count)| count) {
        Ok(count) if count > 0 => {
            note_received(client, count, room, counters);
            client.session.receive_in_place(&buffer[..count], context);
            Received::Input
        }
        result => nothing_received(client, result),
    }
}

/// [`receive`] from a client whose earlier input is not used up.
#[cold]
fn receive_after_tail<H: Handler>(
    client: &mut Client,
    buffer: &mut [u8],
    context: &mut Context<H>,
    counters: &Counters,
) -> Received {
    counters.recv_calls.add(1);
    let value_buffer = client.session.value_buffer(&context.resources);
    let into_place = value_buffer.is_some();
    let (room, result) = match value_buffer {
        Some(place) => {
            let room = place.capacity() - place.len();
            (room, recv(&client.fd, spare_capacity(place), RecvFlags::empty()).map(|(_, n)| n))
        }
        None => (buffer.len(), recv(&client.fd, &mut *buffer, RecvFlags::empty()).map(|(_, n)| n)),
    };
    match result {
        Ok(count) if count > 0 => {
            note_received(client, count, room, counters);
            let input = if into_place { &[] } else { &buffer[..count] };
            client.session.receive(input, context);
            Received::Input
        }
        result => nothing_received(client, result),
    }
}

/// A `recv` that had so much `room` has brought `count` bytes: fewer have emptied the socket.
#[inline(always)]
fn note_received(client: &mut Client, count: usize, room: usize, counters: &Counters) {
    counters.bytes_in.add(count as u64);
    client.readable = count == room || client.hung_up;
}

/// A `recv` has brought no bytes.
#[cold]
fn nothing_received(client: &mut Client, result: Result<usize, Errno>) -> Received {
    client.readable = result == Err(Errno::INTR);
    match result {
        Ok(_) => {
            client.ended = true;
            Received::Nothing
        }
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(_) => Received::Broken,
    }
}
