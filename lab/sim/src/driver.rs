//! A driver for one worker: does with connections and handler what the drivers of the product do,
//! over sockets that are buffers.
//!
//! ```text
//! turn    a connection with something to receive: receive once, parse and execute
//! flush   orders of the handler, end of the batch, replies whose gates have passed, send
//! tend    replies that are overdue, requests that are parked
//! settle  what came after the end of the batch, as before a worker sleeps
//! ```
//!
//! Not modelled: a batch of one client that is sent at once, a source that sends while it waits,
//! the budget of outboxes, time-outs of silent clients, draining, and limits of connections.

use crate::scene::PipeId;
use crate::socket::Socket;
use base::Now;
use service::{Mail, RingService};
use session::{
    BatchEnd, ConnId, Connection, Context, Flow, Handler, LogId, Mark, Order, Passed, Resources,
    Serve, Span, Ticket, WorkerId,
};
use std::io::IoSlice;
use std::net::SocketAddr;

/// Orders that one batch carries out.
const ORDERS_MAX: usize = 1024;
/// Output after which a batch is sent before anything else is executed.
const BATCH_BYTES_MAX: usize = 128 << 10;
/// Bytes that one turn receives.
const RECEIVE_BYTES: usize = 64 << 10;
/// Memory that the output keeps.
const OUT_KEEP_BYTES: usize = 512 << 10;
/// How soon parked requests are tried again.
const PARKED_RETRY_NS: u64 = 1_000_000;
/// Parked requests that are tried in one turn.
const RETRIES_MAX: usize = 128;
/// Slices that are gathered at once.
const SLICES: usize = 16;

/// What a worker does to its sockets.
pub(crate) enum Act {
    /// Bytes go out.
    Send(PipeId, Vec<u8>),
    /// Bytes were received: the socket has room for as many.
    Received(PipeId, usize),
    /// The socket is closed. With bytes that were not received, the other side finds a reset.
    Close(PipeId, bool),
    /// A connection is to be opened.
    Connect(SocketAddr, u64),
}

/// One worker.
pub(crate) struct Driver {
    worker: WorkerId,
    context: Context<RingService>,
    sockets: Vec<Option<Socket>>,
    generations: Vec<u32>,
    spans: Vec<(ConnId, Span)>,
    /// Connections that have more to do.
    again: Vec<ConnId>,
    parked: Vec<ConnId>,
    /// Connections that have got a part in the present batch and wait still.
    queueing: Vec<ConnId>,
    is_ordering: bool,
    looks_again: bool,
    /// The time now, which a batch reads at its end.
    fresh: Now,
    acts: Vec<Act>,
    /// The batches whose replies were dropped.
    pub(crate) drops: u64,
}

impl Driver {
    pub(crate) fn new(
        handler: RingService,
        worker: WorkerId,
        now: Now,
        resources: Resources,
    ) -> Self {
        Self {
            worker,
            context: Context::new(handler, now, resources),
            sockets: Vec::new(),
            generations: Vec::new(),
            spans: Vec::new(),
            again: Vec::new(),
            parked: Vec::new(),
            queueing: Vec::new(),
            is_ordering: false,
            looks_again: false,
            fresh: now,
            acts: Vec::new(),
            drops: 0,
        }
    }

    /// What it has done to its sockets since the last call.
    pub(crate) fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// Begins a batch.
    pub(crate) fn begin(&mut self, now: Now) {
        self.context.now = now;
        self.fresh = now;
        self.looks_again = false;
    }

    /// Time has passed.
    pub(crate) fn passes(&mut self, fresh: Now) {
        self.fresh = fresh;
    }

    /// The connections that have something to receive, or more to do.
    pub(crate) fn ready(&mut self) -> Vec<ConnId> {
        let mut ready = std::mem::take(&mut self.again);
        for socket in self.sockets.iter_mut().flatten() {
            if !socket.is_queued && socket.is_readable() && socket.has_more_to_do() {
                ready.push(socket.id());
            }
            socket.is_queued = false;
        }
        ready
    }

    /// Whether a client has sent something that was not received.
    pub(crate) fn serves_clients(&self) -> bool {
        let has_sent = |socket: &Socket| socket.is_client() && !socket.arrived.is_empty();
        self.sockets.iter().flatten().any(has_sent)
    }

    /// Whether it has something to do now.
    pub(crate) fn is_busy(&self) -> bool {
        let is_ready =
            |socket: &Socket| socket.is_readable() && socket.has_more_to_do() || socket.is_queued;
        self.looks_again || self.sockets.iter().flatten().any(is_ready)
    }

    /// When it has something to do by itself, by its clock.
    pub(crate) fn wakes_at_ns(&self) -> u64 {
        let due_ns = self.sockets.iter().flatten().filter_map(Socket::due_ns).min();
        let retry_ns = match self.parked.is_empty() {
            true => u64::MAX,
            false => self.fresh.mono_ns + PARKED_RETRY_NS,
        };
        self.context.handler.wake_at_ns().min(due_ns.unwrap_or(u64::MAX)).min(retry_ns)
    }

    fn next_id(&mut self) -> ConnId {
        let index = match self.sockets.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.sockets.push(None);
                self.generations.push(0);
                self.sockets.len() - 1
            }
        };
        self.generations[index] += 1;
        ConnId { worker: self.worker, index: index as u32, generation: self.generations[index] }
    }

    fn get(&mut self, id: ConnId) -> Option<&mut Socket> {
        let socket = self.sockets.get_mut(id.index as usize)?.as_mut();
        socket.filter(|socket| socket.id() == id)
    }

    /// The socket of `pipe`.
    pub(crate) fn socket(&mut self, pipe: PipeId) -> Option<&mut Socket> {
        self.sockets.iter_mut().flatten().find(|socket| socket.pipe == pipe)
    }

    /// A connection was accepted by the listener of this number.
    pub(crate) fn accept(&mut self, pipe: PipeId, listener: usize, arrived: Arrived, room: usize) {
        let id = self.next_id();
        let connection = self.context.handler.accept(id, listener);
        self.put(id, Socket::new(connection, pipe, room), arrived);
    }

    /// A connection is open that was ordered.
    pub(crate) fn connected(&mut self, pipe: PipeId, purpose: u64, arrived: Arrived, room: usize) {
        let id = self.next_id();
        match self.context.handler.connected(id, purpose) {
            None => self.acts.push(Act::Close(pipe, false)),
            Some(connection) => {
                self.put(id, Socket::new(connection, pipe, room), arrived);
                self.give_turn(id);
            }
        }
    }

    fn put(&mut self, id: ConnId, mut socket: Socket, arrived: Arrived) {
        socket.arrived = arrived.bytes;
        socket.has_end = arrived.has_end;
        socket.is_reset = arrived.is_reset;
        self.sockets[id.index as usize] = Some(socket);
    }

    /// A connection could not be opened.
    pub(crate) fn unconnected(&mut self, purpose: u64) {
        self.context.handler.unconnected(purpose);
    }

    /// Mail comes.
    pub(crate) fn deliver(&mut self, mail: Mail) {
        self.context.handler.deliver(self.context.now, mail);
    }

    /// Gives a connection a turn: it is received from once, or its session resumes.
    pub(crate) fn turn(&mut self, id: ConnId) {
        let Some(socket) = self.sockets.get_mut(id.index as usize).and_then(Option::as_mut) else {
            return;
        };
        if socket.id() != id || !socket.has_more_to_do() {
            return;
        }
        let (mark, context) = (self.context.out.mark(), &mut self.context);
        if socket.flow() != Flow::Idle || socket.has_ordered_turn() {
            socket.is_ordered = false;
            socket.connection.resume(context);
            return self.after_turn(id, mark);
        }
        if socket.is_reset {
            return self.close(id);
        }
        if socket.arrived.is_empty() {
            socket.is_ended = true;
            return self.after_turn(id, mark);
        }
        let count = socket.arrived.len().min(RECEIVE_BYTES);
        let bytes: Vec<u8> = socket.arrived.drain(..count).collect();
        self.acts.push(Act::Received(socket.pipe, count));
        if Connection::<RingService>::can_parse_in_place(&socket.connection) {
            socket.connection.receive_in_place(&bytes, context);
        } else {
            socket.connection.receive(&bytes, context);
        }
        self.after_turn(id, mark);
    }

    fn give_turn(&mut self, id: ConnId) {
        let mark = self.context.out.mark();
        let Some(socket) = self.sockets[id.index as usize].as_mut() else { return };
        socket.is_ordered = false;
        socket.connection.resume(&mut self.context);
        self.after_turn(id, mark);
    }

    /// Handles what a turn has left: output since `mark`, replies that wait, more to do.
    fn after_turn(&mut self, id: ConnId, mark: Mark) {
        let produced = self.context.out.len_since(mark) > 0;
        let Some(socket) = self.get(id) else { return };
        if socket.flow() == Flow::Drop {
            self.context.drop_since(mark);
            return self.close(id);
        }
        socket.unsent += u32::from(produced);
        if socket.waits() {
            self.add_waiting(id);
        }
        if !produced {
            return self.settle_one(id);
        }
        self.spans.push((id, self.context.out.span_since(mark)));
        if self.context.out.len() >= BATCH_BYTES_MAX {
            self.flush_now();
        }
    }

    /// Decides what comes next for a connection, once its output is sent.
    fn settle_one(&mut self, id: ConnId) {
        let Some(socket) = self.get(id) else { return };
        if socket.unsent > 0 {
            return;
        }
        if !socket.outbox.is_empty() {
            if !socket.is_client() && socket.has_more_to_do() {
                self.enqueue(id);
            }
            return;
        }
        if socket.is_over() {
            self.close(id);
        } else if socket.has_more_to_do() {
            self.enqueue(id);
        } else if socket.may_retry() {
            self.add_waiting(id);
        }
    }

    fn enqueue(&mut self, id: ConnId) {
        let Some(socket) = self.get(id) else { return };
        if !socket.is_queued {
            socket.is_queued = true;
            self.again.push(id);
        }
    }

    fn add_waiting(&mut self, id: ConnId) {
        if !self.queueing.contains(&id) {
            self.queueing.push(id);
        }
        let Some(socket) = self.get(id) else { return };
        if socket.flow() == Flow::Parked && socket.outbox.is_empty() && !socket.is_parked {
            socket.is_parked = true;
            self.parked.push(id);
        }
    }

    fn close(&mut self, id: ConnId) {
        if self.get(id).is_none() {
            return;
        }
        let Some(socket) = self.sockets[id.index as usize].take() else { return };
        self.acts.push(Act::Close(socket.pipe, !socket.arrived.is_empty()));
        self.context.handler.closed(id);
    }

    /// Lets replies of a connection leave whose completion or mark has come, or that are overdue.
    fn release(&mut self, id: ConnId) {
        let mark = self.context.out.mark();
        let Some(socket) = self.sockets[id.index as usize].as_mut() else { return };
        socket.connection.release(&mut self.context);
        self.after_turn(id, mark);
    }

    fn carry_out_orders(&mut self) {
        self.is_ordering = true;
        let mut count = 0;
        while count < ORDERS_MAX
            && let Some(order) = self.context.handler.take_order()
        {
            count += 1;
            self.carry_out(order);
        }
        self.is_ordering = false;
        self.looks_again |= count == ORDERS_MAX;
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Connect { to, purpose } => self.acts.push(Act::Connect(to, purpose)),
            Order::Turn(id) => {
                if self.get(id).is_some_and(Socket::order_turn) {
                    self.give_turn(id);
                }
            }
            Order::Complete(completions) => {
                for (ticket, bytes, last) in completions.iter() {
                    self.complete(ticket, bytes, last);
                }
                self.context.handler.take_back(completions);
            }
            Order::Close(id) => self.close(id),
        }
    }

    /// Takes a part of a reply, and lets leave what is free by it.
    fn complete(&mut self, ticket: Ticket, bytes: &[u8], last: bool) {
        let socket = self.sockets.get_mut(ticket.conn.index as usize);
        let socket = socket.and_then(Option::as_mut);
        let socket = socket.filter(|socket| socket.id() == ticket.conn);
        let is_free = socket.is_some_and(|socket| {
            socket.connection.complete(ticket, (bytes, last), &mut self.context)
        });
        if is_free {
            self.release(ticket.conn);
        }
    }

    /// Ends the batch and sends its replies.
    pub(crate) fn flush(&mut self) {
        self.carry_out_orders();
        let end = self.end_batch();
        if end == BatchEnd::Send {
            self.release_passed();
        }
        self.send_all(end);
    }

    fn flush_now(&mut self) {
        if !self.is_ordering {
            self.carry_out_orders();
        }
        let end = self.end_batch();
        self.send_all(end);
    }

    fn end_batch(&mut self) -> BatchEnd {
        let fresh = self.fresh;
        let end = self.context.handler.end_batch(self.context.now, || fresh);
        self.drops += u64::from(end == BatchEnd::Drop);
        for id in std::mem::take(&mut self.queueing) {
            if end == BatchEnd::Drop {
                self.close(id);
            }
        }
        if self.context.has_held() {
            if end == BatchEnd::Send && !self.context.held_may_leave() {
                self.withhold();
            }
            self.context.forget_held();
        }
        end
    }

    /// Each connection queues what must wait of its output.
    fn withhold(&mut self) {
        for (id, span) in std::mem::take(&mut self.spans) {
            let Some(socket) = self.sockets[id.index as usize].as_mut() else { continue };
            if socket.id() != id {
                continue;
            }
            let leaving = socket.connection.withhold(span, &mut self.context);
            let (waits, leaves) = (socket.waits(), !leaving.is_empty());
            socket.unsent -= u32::from(!leaves);
            if waits {
                self.add_waiting(id);
            }
            if leaves {
                self.spans.push((id, leaving));
            } else {
                self.settle_one(id);
            }
        }
    }

    /// Lets the replies leave whose gates have passed.
    fn release_passed(&mut self) {
        for index in 0..self.sockets.len() {
            while let Some(socket) = self.sockets[index].as_ref()
                && let Some((log, seq)) = socket.gate()
                && self.context.handler.gate(log, seq) != Passed::No
            {
                let id = socket.id();
                self.release(id);
            }
        }
    }

    /// The logs that its replies wait for.
    pub(crate) fn waits_for(&self) -> Vec<LogId> {
        self.sockets.iter().flatten().filter_map(Socket::gate).map(|(log, _)| log).collect()
    }

    /// Whether a reply waits for a gate that has passed.
    pub(crate) fn has_passed(&self) -> bool {
        let gates = self.sockets.iter().flatten().filter_map(Socket::gate);
        gates.into_iter().any(|(log, seq)| self.context.handler.gate(log, seq) != Passed::No)
    }

    fn send_all(&mut self, end: BatchEnd) {
        for (id, span) in std::mem::take(&mut self.spans) {
            match end {
                BatchEnd::Send => self.send(id, span),
                BatchEnd::Drop => self.close(id),
            }
        }
        self.context.out.clear(OUT_KEEP_BYTES);
    }

    fn send(&mut self, id: ConnId, span: Span) {
        if self.get(id).is_none() {
            return;
        }
        let rest = self.context.out.detach(span);
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut bytes = Vec::new();
        let filled = rest.slices(rest.whole(), &mut slices);
        slices[..filled].iter().for_each(|slice| bytes.extend_from_slice(slice));
        let Some(socket) = self.get(id) else { return };
        socket.unsent -= 1;
        socket.outbox.extend_from_slice(&bytes);
        self.send_rest(id);
    }

    /// Sends as much of an outbox as its socket takes.
    fn send_rest(&mut self, id: ConnId) {
        let Some(socket) = self.get(id) else { return };
        let count = socket.outbox.len().min(socket.room);
        let bytes: Vec<u8> = socket.outbox.drain(..count).collect();
        socket.room -= count;
        let pipe = socket.pipe;
        if count > 0 {
            self.acts.push(Act::Send(pipe, bytes));
        }
        self.settle_one(id);
    }

    /// The socket of `pipe` takes more of what it is to send.
    pub(crate) fn send_more(&mut self, pipe: PipeId) {
        if let Some(id) = self.socket(pipe).map(|socket| socket.id()) {
            self.send_rest(id);
        }
    }

    /// Ends what has waited for too long, and tries again what is parked.
    pub(crate) fn tend(&mut self) {
        let mut any = false;
        for index in 0..self.sockets.len() {
            while let Some(socket) = self.sockets[index].as_ref()
                && socket.due_ns().is_some_and(|due_ns| due_ns <= self.context.now.mono_ns)
            {
                let id = socket.id();
                self.release(id);
                any = true;
            }
        }
        let count = self.parked.len().min(RETRIES_MAX);
        for id in self.parked.drain(..count).collect::<Vec<_>>() {
            let Some(socket) = self.get(id) else { continue };
            socket.is_parked = false;
            if socket.may_retry() {
                self.give_turn(id);
                any = true;
            }
        }
        if any {
            self.flush();
        }
    }

    /// Ends the batch of what came after the end of the one before.
    pub(crate) fn settle(&mut self) {
        if !self.spans.is_empty() || self.has_passed() {
            self.flush();
        }
        if let Some(order) = self.context.handler.take_order() {
            self.carry_out(order);
            self.flush();
            self.looks_again = true;
        }
    }
}

/// What has arrived for a connection before its worker has accepted it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrived {
    pub(crate) bytes: Vec<u8>,
    pub(crate) has_end: bool,
    pub(crate) is_reset: bool,
}
