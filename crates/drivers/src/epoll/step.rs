//! One step of one connection: receive or resume, parse, execute, remember to send.

use rustix::event::epoll::EventFlags;
use session::{Flow, Handler, Mark};

use super::client::{Key, Received};
use super::worker::Worker;
use crate::card::State;

/// Output of one batch after which it is sent before anything else is executed.
const BATCH_BYTES_MAX: usize = 1 << 20;

impl<H: Handler> Worker<H> {
    /// Something happened to a connection.
    #[inline]
    pub(super) fn on_client(&mut self, key: Key, flags: EventFlags) {
        if flags != EventFlags::IN && !self.on_unusual(key, flags) {
            return;
        }
        self.desk.counters.readable.add(1);
        self.step(key, true);
    }

    /// The client takes again, or has hung up; returns whether there may be something to receive.
    #[cold]
    fn on_unusual(&mut self, key: Key, flags: EventFlags) -> bool {
        let gone = EventFlags::HUP | EventFlags::ERR;
        if flags.contains(EventFlags::OUT) {
            self.send_rest(key);
        }
        let Some(client) = self.clients.get(key) else { return false };
        if flags.intersects(EventFlags::RDHUP | gone) {
            client.hung_up = true;
            client.readable = true;
            if flags.intersects(gone) && !client.has_more_to_do() {
                self.close(key);
                return false;
            }
        }
        flags.intersects(EventFlags::IN | EventFlags::RDHUP | gone)
    }

    /// Gives a turn to each connection that had more to do.
    #[inline]
    pub(super) fn continue_steps(&mut self) {
        if self.again.is_empty() {
            return;
        }
        self.step_again();
    }

    #[inline(never)]
    fn step_again(&mut self) {
        for key in std::mem::take(&mut self.again) {
            if let Some(client) = self.clients.get(key) {
                client.queued = false;
                self.step(key, false);
            }
        }
    }

    /// Has a connection do what it can do now, if anything: go on with input it kept, or receive
    /// once. `readable` says that there is news from its socket.
    #[inline(always)]
    fn step(&mut self, key: Key, readable: bool) {
        let now_s = self.now_s;
        let (clients, mut turn, buffer, desk) = self.parts();
        let Some(client) = clients.get(key) else { return };
        client.readable |= readable;
        if !client.has_more_to_do() {
            return;
        }
        let mark = turn.out.mark();
        if client.session.flow() == Flow::Idle {
            match client.receive(buffer, &mut turn, &desk.counters) {
                Received::Input => client.card.touch(now_s),
                Received::Nothing | Received::End => {}
                Received::Broken => return self.close(key),
            }
        } else {
            client.session.resume(&mut turn);
        }
        let span = turn.out.span_since(mark);
        let plain = client.session.flow() == Flow::Idle && !client.session.is_pending();
        if plain && !span.is_empty() {
            client.unsent += 1;
            self.sends.push((key, span));
            return self.flush_if_large();
        }
        if client.session.flow() == Flow::Again {
            self.desk.counters.yields.add(1);
        }
        self.after_step(key, mark);
    }

    /// Lets replies of a connection leave whose completion or log mark has come.
    pub(super) fn release(&mut self, key: Key) {
        let (clients, mut turn, ..) = self.parts();
        let Some(client) = clients.get(key) else { return };
        let mark = turn.out.mark();
        client.session.release(&mut turn);
        if !client.session.is_pending() {
            client.card.set_state(State::Read);
        }
        self.after_step(key, mark);
    }

    /// Sees to what a step has left: output since `mark`, replies that wait, more to do.
    fn after_step(&mut self, key: Key, mark: Mark) {
        let Some(client) = self.clients.get(key) else { return };
        if client.session.flow() == Flow::Drop {
            self.out.rewind(mark);
            return self.close(key);
        }
        let produced = self.out.len_since(mark) > 0;
        client.unsent += u32::from(produced);
        if client.session.is_pending() {
            self.remember_waiting(key);
        }
        if produced {
            self.sends.push((key, self.out.span_since(mark)));
            self.flush_if_large();
        } else {
            self.settle(key);
        }
    }

    #[inline]
    fn flush_if_large(&mut self) {
        if self.out.len() >= BATCH_BYTES_MAX {
            self.flush_early();
        }
    }

    /// Puts a connection on the list of those that a log may release.
    #[cold]
    fn remember_waiting(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        client.card.set_state(State::Wait);
        if client.waiting {
            return;
        }
        client.waiting = true;
        self.waiting.push(key);
        // Completions leave names behind; half of the list at least are connections of today.
        if self.waiting.len() > 2 * self.clients.places() {
            let clients = &mut self.clients;
            self.waiting.retain(|key| {
                clients.get(*key).is_some_and(|client| {
                    client.waiting = client.session.is_pending();
                    client.waiting
                })
            });
        }
    }

    /// Decides what comes next for a connection whose output is sent.
    #[inline]
    pub(super) fn settle(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        if client.unsent > 0 || client.outbox.is_some() {
            return;
        }
        match client.session.flow() {
            Flow::Close | Flow::Drop => self.close(key),
            Flow::Idle if client.ended && !client.session.is_pending() => self.close(key),
            _ if client.has_more_to_do() => self.enqueue(key),
            _ => {}
        }
    }

    /// Gives a connection a turn without an event.
    pub(super) fn enqueue(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        if !client.queued {
            client.queued = true;
            self.again.push(key);
        }
    }
}
