//! Sending: the replies of the present batch, and what clients do not take of them.
//!
//! ```text
//! turn   -> push                 a reply is in the output; nothing is sent unless there is much
//! order  -> carry_out            what the handler wants done before the batch ends
//! batch  -> flush: end_batch, then one send for each reply      or the source sends, and
//!                                                               conclude sees the results
//!           socket took a part -> keep: the rest moves to an outbox, out of the output
//! event  -> send_rest: the client takes again
//! ```
//!
//! Invariants: a reply leaves only after [`session::Handler::end_batch`] has said
//! [`BatchEnd::Send`] for it. `ended` replies, the first ones, are past that and wait for the
//! source; all others are not. While any reply is in `spans`, its bytes stand in the output, and
//! its connection counts it as unsent. A connection with an outbox sends nothing before it.

use rustix::event::Timespec;
use rustix::io::Errno;
use session::{BatchEnd, Connection, Flow, Mark, Order, Serve, Span, Ticket};

use super::client::Client;
use super::connections::{Connections, OUT_KEEP_BYTES};
use super::key::{Key, key_of};
use super::source::{Source, Unsent};
use crate::outbox::Outbox;
use crate::shared::ORDERS_MAX;
use crate::sockets::{Sent, State, sent};

/// Bytes of output after which a batch is sent before anything else is executed: the size of a
/// core's own cache, and less than the output buffer keeps.
const BATCH_BYTES_MAX: usize = 128 << 10;
const _: () = assert!(BATCH_BYTES_MAX <= OUT_KEEP_BYTES);

/// Bytes of replies that are left to a source which sends while it waits: a client nearly
/// always takes them whole. What it does not take is noticed only after the wait.
const LEFT_BYTES_MAX: usize = 16 << 10;

/// The connections of a worker, and the replies of the present batch to them.
pub(super) struct Sender<H: Serve, S> {
    pub(super) conns: Connections<H, S>,
    /// Whose they are, and where they stand in the output.
    spans: Vec<(Key, Span)>,
    /// How many of them wait for the source to send them.
    ended: usize,
    /// Orders are being carried out.
    ordering: bool,
    /// Connections of which replies were completed, each once: all that was completed together
    /// leaves together.
    completed: Vec<Key>,
}

impl<H: Serve, S: Source> Sender<H, S> {
    pub(super) fn new(conns: Connections<H, S>) -> Self {
        Self { conns, spans: Vec::new(), ended: 0, ordering: false, completed: Vec::new() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Adds a reply, which its client counts as unsent already.
    #[inline(always)]
    pub(super) fn push(&mut self, key: Key, span: Span) {
        self.spans.push((key, span));
        if self.conns.context.out.len() >= BATCH_BYTES_MAX {
            self.flush_now();
        }
    }

    /// Adds a reply as [`Sender::push`] does, and then carries out `first` and the orders after it.
    #[cold]
    pub(super) fn push_and_carry_out(&mut self, key: Key, span: Span, first: Order) {
        self.spans.push((key, span));
        self.carry_out(first);
    }

    /// Carries out what the handler has ordered, as part of the present batch.
    #[inline(always)]
    fn carry_out_orders(&mut self) {
        if let Some(first) = self.conns.context.handler.take_order() {
            self.carry_out(first);
        }
    }

    /// Carries out `first` and the orders after it, as many as one batch may. The rest is found
    /// before the worker sleeps.
    #[cold]
    #[inline(never)]
    fn carry_out(&mut self, first: Order) {
        self.ordering = true;
        let mut next = Some(first);
        let mut count = 0;
        while let Some(order) = next {
            self.carry_out_one(order);
            count += 1;
            let may = count < ORDERS_MAX;
            next = if may { self.conns.context.handler.take_order() } else { None };
        }
        self.release_completed();
        self.ordering = false;
    }

    fn carry_out_one(&mut self, order: Order) {
        match order {
            Order::Connect { to, purpose } => self.conns.connect(to, purpose),
            Order::Turn(id) => {
                if self.conns.own(id).is_some_and(Client::order_turn) {
                    self.give_turn(key_of(id));
                }
            }
            Order::Complete(completions) => {
                for (ticket, bytes, last) in completions.iter() {
                    self.complete(ticket, bytes, last);
                }
                self.conns.context.handler.take_back(completions);
            }
            Order::Close(id) => {
                if self.conns.own(id).is_some() {
                    self.conns.close(key_of(id));
                }
            }
        }
    }

    /// Takes in a part of a reply. [`Sender::release_completed`] follows.
    pub(super) fn complete(&mut self, ticket: Ticket, bytes: &[u8], last: bool) {
        let Connections { clients, context, .. } = &mut self.conns;
        let client = clients.get(key_of(ticket.conn));
        let client = client.filter(|client| client.connection.id() == ticket.conn);
        let Some(client) = client else { return };
        if client.connection.complete(ticket, (bytes, last), context) && !client.completed {
            client.completed = true;
            self.completed.push(key_of(ticket.conn));
        }
    }

    /// Lets leave what was completed.
    pub(super) fn release_completed(&mut self) {
        let mut completed = std::mem::take(&mut self.completed);
        for key in completed.drain(..) {
            if let Some(client) = self.conns.clients.get(key) {
                client.completed = false;
                self.release(key);
            }
        }
        self.completed = completed;
    }

    /// Handles an event of a connection that is under way. One that is open may send first.
    pub(super) fn on_connecting(&mut self, key: Key) {
        if let Some(key) = self.conns.end_connecting(key) {
            self.give_turn(key);
        }
    }

    /// Gives a connection a turn in which its session resumes.
    pub(super) fn give_turn(&mut self, key: Key) {
        let Connections { clients, context, handle, now_s, .. } = &mut self.conns;
        let Some(client) = clients.get(key) else { return };
        client.ordered = false;
        let waited = client.waits();
        let mark = context.out.mark();
        if client.connection.resume(context) == Flow::Again {
            handle.counters().yields.add(1);
        }
        if waited && !client.waits() {
            client.info.read_again(*now_s);
        }
        self.after_turn(key, mark);
    }

    /// Ends the batch and sends its replies, or leaves them to a source that sends when it waits.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        self.carry_out_orders();
        let end = self.conns.end_batch();
        if self.conns.context.has_held() {
            self.end_held(end);
        }
        if self.conns.waits.has_gates() {
            self.release_passed(end);
        }
        if self.spans.is_empty() {
            return;
        }
        if S::COMPLETES && end == BatchEnd::Send && self.may_leave_to_source() {
            self.ended = self.spans.len();
            return;
        }
        self.send_all(end);
    }

    /// Ends the batch and sends its replies at once, also where the source would send them later.
    #[cold]
    pub(super) fn flush_now(&mut self) {
        if !self.ordering {
            self.carry_out_orders();
        }
        let end = self.conns.end_batch();
        if self.conns.context.has_held() {
            self.end_held(end);
        }
        self.send_all(end);
    }

    /// Lets the replies leave that waited in the output for gates, if all have passed. If not, each
    /// connection queues what must wait.
    #[inline(never)]
    fn end_held(&mut self, end: BatchEnd) {
        if end == BatchEnd::Send && !self.conns.context.held_may_leave() {
            self.withhold();
        }
        self.conns.context.forget_held();
    }

    fn withhold(&mut self) {
        let mut kept = self.ended;
        for at in self.ended..self.spans.len() {
            let (key, span) = self.spans[at];
            let Some(client) = self.conns.clients.get(key) else { continue };
            let leaving = client.connection.withhold(span, &mut self.conns.context);
            let (waits, leaves) = (client.waits(), !leaving.is_empty());
            client.unsent -= u32::from(!leaves);
            if waits {
                self.conns.add_waiting(key);
            }
            if leaves {
                self.spans[kept] = (key, leaving);
                kept += 1;
            } else {
                self.conns.settle(key);
            }
        }
        self.spans.truncate(kept);
    }

    /// Ends the batch of replies that came after the end of the one before, so that they are sent
    /// before the next wait, or by the source at it; and asks the gates that came after it. The
    /// worker does not sleep while the handler has orders.
    #[inline(always)]
    pub(super) fn end_late(&mut self) {
        if self.spans.len() > self.ended || self.conns.waits.must_ask() {
            self.flush();
        }
        if let Some(order) = self.conns.context.handler.take_order() {
            self.end_late_orders(order);
        }
    }

    /// Carries out orders that came after the end of a batch, in a batch of their own. What ends it
    /// may order more.
    #[cold]
    fn end_late_orders(&mut self, first: Order) {
        self.carry_out(first);
        self.flush();
        self.conns.look_again();
    }

    /// Lets the replies leave whose gates have passed, the present batch included, which ends as
    /// `end` says. No later mark is missed: it wakes the worker.
    #[cold]
    fn release_passed(&mut self, end: BatchEnd) {
        self.conns.announce_waits();
        if end == BatchEnd::Drop {
            return;
        }
        let mut at = 0;
        while at < self.conns.waits.logs() {
            match self.conns.take_passed(at) {
                Some(key) => self.release(key),
                None => at += 1,
            }
        }
    }

    /// Ends the replies that have waited for too long. Returns whether there were any.
    pub(super) fn end_overdue(&mut self) -> bool {
        let mut any = false;
        while let Some(key) = self.conns.take_overdue() {
            any = true;
            self.release(key);
        }
        any
    }

    /// Waits for events up to `timeout`, and lends the source what it sends meanwhile; returns how
    /// many events there are. The results of the sends are handled by [`Sender::conclude`].
    #[inline(always)]
    pub(super) fn wait(&mut self, timeout: &Timespec) -> usize {
        let Connections { source, clients, context, handle, .. } = &mut self.conns;
        let unsent = Unsent { clients, spans: &self.spans, out: &context.out };
        source.wait(&unsent, timeout, handle.counters())
    }

    /// Whether the source can send the replies: each connection's are plain bytes in one piece, so
    /// nothing follows what the client does not take; and once they are sent, the connection only
    /// waits for an event.
    fn may_leave_to_source(&mut self) -> bool {
        let clients = &mut self.conns.clients;
        let one = |key| {
            clients
                .get(key)
                .is_none_or(|it| it.unsent == 1 && it.outbox.is_none() && it.only_waits())
        };
        let spans = &self.spans;
        let may = spans.len() <= S::SENDS_MAX
            && self.conns.context.out.is_plain()
            && self.conns.context.out.len() <= LEFT_BYTES_MAX
            && spans.iter().map(|(key, _)| *key).all(one);
        if may {
            // Before they are sent, so that a client that has its bytes finds them counted.
            self.conns.handle.counters().send_calls.add((spans.len() - self.ended) as u64);
        }
        may
    }

    /// Sends the replies of the batch, or closes their connections, as `end` says.
    #[inline(always)]
    fn send_all(&mut self, end: BatchEnd) {
        let mut at = 0;
        while let Some((key, span)) = self.spans.get(at).copied() {
            at += 1;
            match end {
                BatchEnd::Send => self.send(key, span),
                BatchEnd::Drop => self.conns.close(key),
            }
        }
        self.clear();
    }

    /// Handles the results of what the source has sent.
    #[inline(always)]
    pub(super) fn conclude(&mut self) {
        if S::COMPLETES && !self.spans.is_empty() {
            for at in 0..self.spans.len() {
                let (key, span) = self.spans[at];
                match self.conns.source.sent(at) {
                    Some(result) => self.conclude_one(key, span, result),
                    None => self.send(key, span),
                }
            }
            self.clear();
        }
    }

    /// Every reply of the batch is sent or kept elsewhere.
    #[inline(always)]
    fn clear(&mut self) {
        self.spans.clear();
        self.ended = 0;
        self.conns.clear_output();
    }

    /// Handles what a turn has left: output since `mark`, replies that wait, more to do.
    pub(super) fn after_turn(&mut self, key: Key, mark: Mark) {
        let Some(client) = self.conns.clients.get(key) else { return };
        if client.connection.flow() == Flow::Drop {
            self.conns.context.drop_since(mark);
            return self.conns.close(key);
        }
        let produced = self.conns.context.out.len_since(mark) > 0;
        client.unsent += u32::from(produced);
        if client.waits() {
            self.conns.add_waiting(key);
        }
        if produced {
            self.push(key, self.conns.context.out.span_since(mark));
        } else {
            self.conns.settle(key);
        }
    }

    /// Lets replies of a connection leave whose completion or log mark has come, or whose deadline
    /// has passed.
    pub(super) fn release(&mut self, key: Key) {
        let Some(client) = self.conns.clients.get(key) else { return };
        let mark = self.conns.context.out.mark();
        client.connection.release(&mut self.conns.context);
        if !client.waits() {
            client.info.read_again(self.conns.now_s);
        }
        self.after_turn(key, mark);
    }

    /// Sends one reply of a batch that has ended.
    #[inline(always)]
    fn send(&mut self, key: Key, span: Span) {
        let Some(client) = self.conns.clients.get(key) else { return };
        client.unsent -= 1;
        if client.outbox.is_some() {
            return self.keep(key, span);
        }
        match client.send(&mut self.conns.context.out, span, self.conns.handle.counters()) {
            Sent::All if client.only_waits() => {}
            Sent::All => self.conns.settle(key),
            Sent::Part(rest) => self.keep(key, rest),
            Sent::Broken => self.conns.close(key),
        }
    }

    /// Handles the result of one reply that the source has sent.
    fn conclude_one(&mut self, key: Key, span: Span, result: Result<usize, Errno>) {
        let Some(client) = self.conns.clients.get(key) else { return };
        client.unsent -= 1;
        let counters = self.conns.handle.counters();
        if result == Ok(span.len()) && client.only_waits() {
            counters.bytes_out.add(span.len() as u64);
            return;
        }
        match sent(result, &mut self.conns.context.out, span, counters) {
            Sent::All => self.conns.settle(key),
            Sent::Part(rest) => self.keep(key, rest),
            Sent::Broken => self.conns.close(key),
        }
    }

    /// Moves what a client did not take from the output to its outbox.
    #[cold]
    pub(super) fn keep(&mut self, key: Key, span: Span) {
        let Some(client) = self.conns.clients.get(key) else { return };
        let outbox = client.outbox.take();
        let was_stalled = outbox.is_some();
        let rest = self.conns.context.out.detach(span);
        let rest = match outbox {
            None => rest,
            Some(outbox) => outbox.into_reply_with(rest),
        };
        let Some(outbox) = Outbox::keep(rest, &mut self.conns.context, &self.conns.clock) else {
            self.conns.handle.counters().memory_kicks.add(1);
            if was_stalled {
                self.conns.drop_stalled();
            }
            return self.conns.close(key);
        };
        let Some(client) = self.conns.clients.get(key) else { return };
        client.outbox = Some(outbox);
        if !was_stalled {
            self.conns.add_stalled(key);
        }
    }

    /// Sends more of an outbox: the client has taken something.
    pub(super) fn send_rest(&mut self, key: Key) {
        let now_s = self.conns.now_s;
        let Some(client) = self.conns.clients.get(key) else { return };
        match client.send_outbox(now_s, self.conns.handle.counters()) {
            Some(Sent::All) => {
                client.outbox = None;
                client.info.set_state(State::Read);
                self.conns.drop_stalled();
                self.conns.watch_writable(key, false);
                self.conns.settle(key);
            }
            // A source that completes reports only once that the client takes again.
            Some(Sent::Part(_)) if S::COMPLETES => self.conns.watch_writable(key, true),
            Some(Sent::Part(_)) | None => {}
            Some(Sent::Broken) => self.conns.close(key),
        }
    }
}
