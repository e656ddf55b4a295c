//! Sending: all replies of a batch, each connection's in one call; the rest when its client has
//! taken some.

use rustix::event::epoll::{self, EventData, EventFlags};
use session::{Handler, Span, Verdict};
use std::os::fd::AsFd;

use super::client::{Key, Outbox};
use super::worker::{INTEREST, Worker};
use crate::card::State;
use crate::net::{Sent, send_span};

/// Memory the output buffer of a worker keeps from one batch to the next.
const OUT_KEEP_BYTES: usize = 256 << 10;

impl<H: Handler> Worker<H> {
    /// Ends the batch and sends its replies.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        let verdict = self.handler.end_batch(self.now);
        if self.sends.is_empty() {
            return;
        }
        let mut at = 0;
        while let Some((key, span)) = self.sends.get(at).copied() {
            at += 1;
            match verdict {
                Verdict::Send => self.send(key, span),
                Verdict::Drop => self.close(key),
            }
        }
        self.sends.clear();
        self.out.clear(OUT_KEEP_BYTES);
    }

    /// [`Worker::flush`] in the middle of a batch.
    #[cold]
    pub(super) fn flush_early(&mut self) {
        self.flush();
    }

    #[inline(always)]
    fn send(&mut self, key: Key, mut span: Span) {
        let Some(client) = self.clients.get(key) else { return };
        client.unsent -= 1;
        if client.outbox.is_some() {
            return self.send_later(key, span);
        }
        match send_span(client.fd.as_fd(), &mut self.out, &mut span, &self.desk.counters) {
            Sent::All if client.is_content() => {}
            Sent::All => self.settle(key),
            Sent::Part => self.send_later(key, span),
            Sent::Broken => self.close(key),
        }
    }

    /// Keeps what a client did not take.
    #[cold]
    fn send_later(&mut self, key: Key, span: Span) {
        let Some(client) = self.clients.get(key) else { return };
        let was_stalled = client.outbox.is_some();
        let rest = match client.outbox.take() {
            None => self.out.detach(span),
            Some(mut outbox) => {
                let mut rest = outbox.reply.detach(outbox.span);
                rest.append(self.out.detach(span));
                rest
            }
        };
        client.outbox = Outbox::new(rest, &self.shared.config.ground);
        if client.outbox.is_none() {
            self.desk.counters.memory_kicks.add(1);
            self.ticks.stalled -= u32::from(was_stalled);
            return self.close(key);
        }
        if !was_stalled {
            self.ticks.stalled += 1;
            client.card.set_state(State::Write);
            client.card.touch(self.now_s);
            self.listen_for(key, INTEREST | EventFlags::OUT);
        }
    }

    /// A client has taken something: sends more.
    pub(super) fn send_rest(&mut self, key: Key) {
        let now_s = self.now_s;
        let Some(client) = self.clients.get(key) else { return };
        let Some(outbox) = &mut client.outbox else { return };
        let before = outbox.span;
        let Outbox { reply, span, .. } = &mut **outbox;
        let sent = send_span(client.fd.as_fd(), reply, span, &self.desk.counters);
        if sent == Sent::All || *span != before {
            client.card.touch(now_s);
        }
        match sent {
            Sent::Part => {}
            Sent::Broken => self.close(key),
            Sent::All => {
                client.outbox = None;
                client.card.set_state(State::Read);
                self.ticks.stalled -= 1;
                self.listen_for(key, INTEREST);
                self.settle(key);
            }
        }
    }

    fn listen_for(&mut self, key: Key, flags: EventFlags) {
        let Some(client) = self.clients.get(key) else { return };
        if epoll::modify(&self.epoll, &client.fd, EventData::new_u64(key), flags).is_err() {
            self.close(key);
        }
    }
}
