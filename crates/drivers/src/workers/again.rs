//! The longer way of a turn: clients with unusual news, clients that a bound has stopped, replies
//! that wait for a completion or a log.

use rustix::event::epoll::EventFlags;
use session::{Flow, Handler, Mark};

use super::accept::KEY_LISTENERS;
use super::client::{KEY_SPECIAL, Key};
use super::source::Source;
use super::turn::Received;
use super::worker::{Parts, Worker};
use crate::info::State;

impl<H: Handler, S: Source> Worker<H, S> {
    /// Sees to everything but a client that has sent something and nothing else.
    #[cold]
    #[inline(never)]
    pub(super) fn on_unusual(&mut self, key: Key, flags: EventFlags) {
        if key >= KEY_LISTENERS {
            self.accept((key - KEY_LISTENERS) as usize);
        } else if key == KEY_SPECIAL {
            self.on_messages();
        } else {
            self.on_unusual_client(key, flags);
        }
    }

    /// The client takes again, or has hung up.
    fn on_unusual_client(&mut self, key: Key, flags: EventFlags) {
        let gone = EventFlags::HUP | EventFlags::ERR;
        if flags.contains(EventFlags::OUT) {
            self.send_rest(key);
        }
        let Some(client) = self.clients.get(key) else { return };
        if flags.intersects(EventFlags::RDHUP | gone) {
            client.hung_up = true;
            client.readable = true;
            if flags.intersects(gone) && !client.has_more_to_do() {
                return self.close(key);
            }
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | gone) {
            client.readable = true;
            self.handle.counters.readable.add(1);
            self.turn_apart(key);
        }
    }

    /// News number `at` is about a client that is not to be received from now: what the source has
    /// brought already is taken in, and no more of it wanted.
    #[cold]
    pub(super) fn turn_unready(&mut self, at: usize, key: Key) {
        let Parts { source, clients, context, buffer, counters } = self.parts();
        let Some(client) = clients.get(key) else { return };
        if !S::COMPLETES {
            client.readable = true;
            return self.turn_apart(key);
        }
        let mark = context.out.mark();
        let received = source.receive(at, client, buffer, context, counters);
        if client.receiving {
            source.hold_off(key);
        }
        match received {
            Received::Broken => self.close(key),
            // Its session has had no turn by this that could have ended by a bound.
            Received::Input | Received::Nothing => self.after_turn(key, mark),
        }
    }

    /// Gives a turn to each connection that had more to do.
    #[inline(never)]
    pub(super) fn turn_again(&mut self) {
        for key in std::mem::take(&mut self.again) {
            if let Some(client) = self.clients.get(key) {
                client.queued = false;
                self.turn_apart(key);
            }
        }
    }

    /// Has a connection do what it can do now, if anything: go on with input it kept, or receive
    /// once.
    #[cold]
    pub(super) fn turn_apart(&mut self, key: Key) {
        let now_s = self.now_s;
        let Parts { source, clients, context, buffer, counters } = self.parts();
        let Some(client) = clients.get(key) else { return };
        if !client.has_more_to_do() {
            return;
        }
        let mark = context.out.mark();
        let mut received = Received::Nothing;
        if client.session.flow() == Flow::Idle {
            received = source.receive_again(client, buffer, context, counters);
            if received == Received::Input {
                client.info.touch(now_s);
            }
        } else {
            client.session.resume(context);
        }
        self.conclude(key, mark, received);
    }

    /// Lets replies of a connection leave whose completion or log mark has come.
    pub(super) fn release(&mut self, key: Key) {
        let Parts { clients, context, .. } = self.parts();
        let Some(client) = clients.get(key) else { return };
        let mark = context.out.mark();
        client.session.release(context);
        if !client.session.is_pending() {
            client.info.set_state(State::Read);
        }
        self.after_turn(key, mark);
    }

    /// Ends a turn that did not simply produce a reply.
    #[cold]
    pub(super) fn conclude(&mut self, key: Key, mark: Mark, received: Received) {
        let Some(client) = self.clients.get(key) else { return };
        if received == Received::Broken {
            return self.close(key);
        }
        if client.session.flow() == Flow::Again {
            self.handle.counters.yields.add(1);
        }
        self.after_turn(key, mark);
    }

    /// Sees to what a turn has left: output since `mark`, replies that wait, more to do.
    fn after_turn(&mut self, key: Key, mark: Mark) {
        let Some(client) = self.clients.get(key) else { return };
        if client.session.flow() == Flow::Drop {
            self.context.out.rewind(mark);
            return self.close(key);
        }
        let produced = self.context.out.len_since(mark) > 0;
        client.unsent += u32::from(produced);
        if client.session.is_pending() {
            self.remember_waiting(key);
        }
        if produced {
            self.sends.push((key, self.context.out.span_since(mark)));
            self.flush_if_large();
        } else {
            self.settle(key);
        }
    }

    /// Puts a connection on the list of those that a log may release.
    fn remember_waiting(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        client.info.set_state(State::Wait);
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
