//! What a client does not take at once: it is kept, and sent when the client takes again.

use std::os::fd::AsFd;

use session::{Handler, Span};

use super::client::Key;
use super::source::Source;
use super::worker::Worker;
use crate::info::State;
use crate::net::{Sent, send_span, took};
use crate::outbox::Outbox;

impl<H: Handler, S: Source> Worker<H, S> {
    /// Ends the batch in its middle and sends at once, whoever else would send later.
    #[cold]
    pub(super) fn flush_early(&mut self) {
        let end = self.context.handler.end_batch(self.context.now);
        self.send_all(end);
    }

    /// Sends what was left to the source, because there is no further wait.
    #[cold]
    pub(super) fn send_now(&mut self) {
        if !self.sends.is_empty() {
            self.flush_early();
        }
    }

    /// Whether the source can send the replies: each connection's are plain bytes in one piece, so
    /// that what it does not take of them has nothing behind it; and nothing but news is to be
    /// waited for when they are sent.
    pub(super) fn may_send_later(&mut self) -> bool {
        let clients = &mut self.clients;
        let one = |key| {
            clients
                .get(key)
                .is_none_or(|it| it.unsent == 1 && it.outbox.is_none() && it.is_content())
        };
        let sends = &self.sends;
        let later = sends.len() <= S::SENDS_MAX
            && self.context.out.is_plain()
            && sends.iter().map(|(key, _)| *key).all(one);
        if later {
            // Before they are sent, so that whoever has their bytes finds them counted.
            self.handle.counters.send_calls.add(sends.len() as u64);
        }
        later
    }

    /// Sees to what came of the sends of the latest wait.
    pub(super) fn conclude_sends(&mut self) {
        for at in 0..self.sends.len() {
            let (key, span) = self.sends[at];
            let Some(result) = self.source.sent(at) else {
                self.send(key, span);
                continue;
            };
            let Some(client) = self.clients.get(key) else { continue };
            client.unsent -= 1;
            if result == Ok(span.len()) && client.is_content() {
                self.handle.counters.bytes_out.add(span.len() as u64);
                continue;
            }
            match took(result, &mut self.context.out, span, &self.handle.counters) {
                Sent::All => self.settle(key),
                Sent::Part(rest) => self.send_later(key, rest),
                Sent::Broken => self.close(key),
            }
        }
        self.forget_sends();
    }

    /// Keeps what a client did not take.
    #[cold]
    pub(super) fn send_later(&mut self, key: Key, span: Span) {
        let Some(client) = self.clients.get(key) else { return };
        let kept = client.outbox.take();
        let was_stalled = kept.is_some();
        let rest = match kept {
            None => self.context.out.detach(span),
            Some(mut outbox) => {
                let mut rest = outbox.reply.detach(outbox.span);
                rest.append(self.context.out.detach(span));
                rest
            }
        };
        let Some(outbox) = Outbox::keep(rest, &mut self.context) else {
            self.handle.counters.memory_kicks.add(1);
            self.ticks.stalled -= u32::from(was_stalled);
            return self.close(key);
        };
        let Some(client) = self.clients.get(key) else { return };
        client.outbox = Some(outbox);
        if !was_stalled {
            self.ticks.stalled += 1;
            client.info.set_state(State::Write);
            client.info.touch(self.now_s);
            self.watch_room(key, true);
        }
    }

    /// A client has taken something: sends more.
    pub(super) fn send_rest(&mut self, key: Key) {
        let now_s = self.now_s;
        let Some(client) = self.clients.get(key) else { return };
        let Some(outbox) = &mut client.outbox else { return };
        let Outbox { reply, span, .. } = &mut **outbox;
        let sent = send_span(client.fd.as_fd(), reply, *span, &self.handle.counters);
        if sent != Sent::Part(*span) {
            client.info.touch(now_s);
        }
        match sent {
            Sent::Part(rest) => {
                *span = rest;
                if S::COMPLETES {
                    // It reports room once.
                    self.watch_room(key, true);
                }
            }
            Sent::Broken => self.close(key),
            Sent::All => {
                client.outbox = None;
                client.info.set_state(State::Read);
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
