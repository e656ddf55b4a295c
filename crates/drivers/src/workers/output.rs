//! What a client does not take at once: it is kept, and sent when the client takes again.

use std::os::fd::AsFd;

use session::{Handler, Span};

use super::client::{Key, Outbox};
use super::source::Source;
use super::worker::Worker;
use crate::card::State;
use crate::net::{Sent, send_span};

impl<H: Handler, S: Source> Worker<H, S> {
    /// [`Worker::flush`] in the middle of a batch.
    #[cold]
    pub(super) fn flush_early(&mut self) {
        self.flush();
    }

    /// Keeps what a client did not take.
    #[cold]
    pub(super) fn send_later(&mut self, key: Key, span: Span) {
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
            self.watch_room(key, true);
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
                self.watch_room(key, false);
                self.settle(key);
            }
        }
    }

    fn watch_room(&mut self, key: Key, on: bool) {
        let Some(client) = self.clients.get(key) else { return };
        if self.source.watch_room(&client.fd, key, on).is_err() {
            self.close(key);
        }
    }
}
