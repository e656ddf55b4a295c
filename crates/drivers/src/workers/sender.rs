//! Sending: the replies of the present batch, and what clients do not take of them.
//!
//! ```text
//! turn   -> push                 a reply is in the output, nothing is sent
//! batch  -> flush: end_batch, then one send for each reply      or the source sends, and
//!                                                               conclude sees the results
//!           socket took a part -> keep: the rest moves to an outbox, out of the output
//! event  -> send_rest: the client takes again
//! ```
//!
//! Invariants: a reply leaves only after [`Handler::end_batch`] has said [`BatchEnd::Send`] for it.
//! `ended` replies, the first ones, are past that and wait for the source; all others are not. While
//! any reply is in `spans`, its bytes stand in the output, and its connection counts it as unsent.
//! A connection with an outbox sends nothing before it.

use rustix::event::Timespec;
use rustix::io::Errno;
use session::{BatchEnd, Flow, Handler, Mark, Span};

use super::client::Client;
use super::connections::{Connections, OUT_KEEP_BYTES};
use super::key::Key;
use super::source::{Source, Unsent};
use crate::outbox::Outbox;
use crate::sockets::{Sent, State, sent};

/// Bytes of output after which a batch is sent before anything else is executed: the size of a
/// core's own cache, and less than the output buffer keeps.
const BATCH_BYTES_MAX: usize = 128 << 10;
const _: () = assert!(BATCH_BYTES_MAX <= OUT_KEEP_BYTES);

/// The replies of the present batch.
#[derive(Default)]
pub(super) struct Sender {
    /// Whose they are, and where they stand in the output.
    spans: Vec<(Key, Span)>,
    /// How many of them wait for the source to send them.
    ended: usize,
}

impl Sender {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Adds a reply of `client`; [`Sender::flush_if_large`] follows.
    #[inline(always)]
    pub(super) fn push(&mut self, client: &mut Client, key: Key, span: Span) {
        client.unsent += 1;
        self.spans.push((key, span));
    }

    /// Sends in the middle of a batch when there is much to send.
    #[inline(always)]
    pub(super) fn flush_if_large<H: Handler, S: Source>(
        &mut self,
        connections: &mut Connections<H, S>,
    ) {
        if connections.context.out.len() >= BATCH_BYTES_MAX {
            self.flush_now(connections);
        }
    }

    /// Ends the batch and sends its replies, or leaves them to a source that sends when it waits.
    #[inline(always)]
    pub(super) fn flush<H: Handler, S: Source>(&mut self, connections: &mut Connections<H, S>) {
        let end = connections.context.handler.end_batch(connections.context.now);
        if self.spans.is_empty() {
            return;
        }
        if S::COMPLETES && end == BatchEnd::Send && self.may_leave_to_source(connections) {
            self.ended = self.spans.len();
            return;
        }
        self.send_all(end, connections);
    }

    /// Ends the batch and sends its replies at once, also where the source would send them later.
    #[cold]
    pub(super) fn flush_now<H: Handler, S: Source>(&mut self, connections: &mut Connections<H, S>) {
        let end = connections.context.handler.end_batch(connections.context.now);
        self.send_all(end, connections);
    }

    /// Ends the batch of replies that came after the end of the one before, so that the source may
    /// send them at the next wait.
    #[inline(always)]
    pub(super) fn end_late<H: Handler, S: Source>(&mut self, connections: &mut Connections<H, S>) {
        if S::COMPLETES && self.spans.len() > self.ended {
            self.flush(connections);
        }
    }

    /// Waits for events up to `timeout`, and lends the source what it sends meanwhile; returns how
    /// many events there are. The results of the sends are handled by [`Sender::conclude`].
    #[inline(always)]
    pub(super) fn wait<H: Handler, S: Source>(
        &self,
        timeout: &Timespec,
        connections: &mut Connections<H, S>,
    ) -> usize {
        let Connections { source, clients, context, handle, .. } = connections;
        let unsent = Unsent { clients, spans: &self.spans, out: &context.out };
        source.wait(&unsent, timeout, handle.counters())
    }

    /// Whether the source can send the replies: each connection's are plain bytes in one piece, so
    /// nothing follows what the client does not take; and once they are sent, the connection only
    /// waits for an event.
    fn may_leave_to_source<H: Handler, S: Source>(
        &mut self,
        connections: &mut Connections<H, S>,
    ) -> bool {
        let clients = &mut connections.clients;
        let one = |key| {
            clients
                .get(key)
                .is_none_or(|it| it.unsent == 1 && it.outbox.is_none() && it.only_waits())
        };
        let spans = &self.spans;
        let may = spans.len() <= S::SENDS_MAX
            && connections.context.out.is_plain()
            && spans.iter().map(|(key, _)| *key).all(one);
        if may {
            // Before they are sent, so that a client that has its bytes finds them counted.
            connections.handle.counters().send_calls.add(spans.len() as u64);
        }
        may
    }

    /// Sends the replies of the batch, or closes their connections, as `end` says.
    #[inline(always)]
    fn send_all<H: Handler, S: Source>(
        &mut self,
        end: BatchEnd,
        connections: &mut Connections<H, S>,
    ) {
        let mut at = 0;
        while let Some((key, span)) = self.spans.get(at).copied() {
            at += 1;
            match end {
                BatchEnd::Send => send(key, span, connections),
                BatchEnd::Drop => connections.close(key),
            }
        }
        self.clear(connections);
    }

    /// Handles the results of what the source has sent.
    #[inline(always)]
    pub(super) fn conclude<H: Handler, S: Source>(&mut self, connections: &mut Connections<H, S>) {
        if S::COMPLETES && !self.spans.is_empty() {
            for (at, (key, span)) in self.spans.iter().enumerate() {
                match connections.source.sent(at) {
                    Some(result) => conclude_one(*key, *span, result, connections),
                    None => send(*key, *span, connections),
                }
            }
            self.clear(connections);
        }
    }

    /// Every reply of the batch is sent or kept elsewhere.
    #[inline(always)]
    fn clear<H: Handler, S: Source>(&mut self, connections: &mut Connections<H, S>) {
        self.spans.clear();
        self.ended = 0;
        connections.clear_output();
    }

    /// Handles what a turn has left: output since `mark`, replies that wait, more to do.
    pub(super) fn after_turn<H: Handler, S: Source>(
        &mut self,
        key: Key,
        mark: Mark,
        connections: &mut Connections<H, S>,
    ) {
        let Some(client) = connections.clients.get(key) else { return };
        if client.session.flow() == Flow::Drop {
            connections.context.out.rewind(mark);
            return connections.close(key);
        }
        let produced = connections.context.out.len_since(mark) > 0;
        if produced {
            self.push(client, key, connections.context.out.span_since(mark));
        }
        if client.session.is_pending() {
            connections.add_waiting(key);
        }
        if produced {
            self.flush_if_large(connections);
        } else {
            connections.settle(key);
        }
    }

    /// Lets replies of a connection leave whose completion or log mark has come.
    pub(super) fn release<H: Handler, S: Source>(
        &mut self,
        key: Key,
        connections: &mut Connections<H, S>,
    ) {
        let Some(client) = connections.clients.get(key) else { return };
        let mark = connections.context.out.mark();
        client.session.release(&mut connections.context);
        if !client.session.is_pending() {
            client.info.set_state(State::Read);
        }
        self.after_turn(key, mark, connections);
    }
}

/// Sends one reply of a batch that has ended.
#[inline(always)]
fn send<H: Handler, S: Source>(key: Key, span: Span, connections: &mut Connections<H, S>) {
    let Some(client) = connections.clients.get(key) else { return };
    client.unsent -= 1;
    if client.outbox.is_some() {
        return keep(key, span, connections);
    }
    match client.send(&mut connections.context.out, span, connections.handle.counters()) {
        Sent::All if client.only_waits() => {}
        Sent::All => connections.settle(key),
        Sent::Part(rest) => keep(key, rest, connections),
        Sent::Broken => connections.close(key),
    }
}

/// Handles the result of one reply that the source has sent.
fn conclude_one<H: Handler, S: Source>(
    key: Key,
    span: Span,
    result: Result<usize, Errno>,
    connections: &mut Connections<H, S>,
) {
    let Some(client) = connections.clients.get(key) else { return };
    client.unsent -= 1;
    let counters = connections.handle.counters();
    if result == Ok(span.len()) && client.only_waits() {
        counters.bytes_out.add(span.len() as u64);
        return;
    }
    match sent(result, &mut connections.context.out, span, counters) {
        Sent::All => connections.settle(key),
        Sent::Part(rest) => keep(key, rest, connections),
        Sent::Broken => connections.close(key),
    }
}

/// Moves what a client did not take from the output to its outbox.
#[cold]
pub(super) fn keep<H: Handler, S: Source>(
    key: Key,
    span: Span,
    connections: &mut Connections<H, S>,
) {
    let Some(client) = connections.clients.get(key) else { return };
    let outbox = client.outbox.take();
    let was_stalled = outbox.is_some();
    let rest = connections.context.out.detach(span);
    let rest = match outbox {
        None => rest,
        Some(outbox) => outbox.into_reply_with(rest),
    };
    let Some(outbox) = Outbox::keep(rest, &mut connections.context) else {
        connections.handle.counters().memory_kicks.add(1);
        if was_stalled {
            connections.drop_stalled();
        }
        return connections.close(key);
    };
    let Some(client) = connections.clients.get(key) else { return };
    client.outbox = Some(outbox);
    if !was_stalled {
        connections.add_stalled(key);
    }
}

/// Sends more of an outbox: the client has taken something.
pub(super) fn send_rest<H: Handler, S: Source>(key: Key, connections: &mut Connections<H, S>) {
    let now_s = connections.now_s;
    let Some(client) = connections.clients.get(key) else { return };
    match client.send_outbox(now_s, connections.handle.counters()) {
        Some(Sent::All) => {
            client.outbox = None;
            client.info.set_state(State::Read);
            connections.drop_stalled();
            connections.watch_writable(key, false);
            connections.settle(key);
        }
        // A source that completes reports only once that the client takes again.
        Some(Sent::Part(_)) if S::COMPLETES => connections.watch_writable(key, true),
        Some(Sent::Part(_)) | None => {}
        Some(Sent::Broken) => connections.close(key),
    }
}
