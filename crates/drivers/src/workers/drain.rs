//! The end of a worker: it accepts nobody, closes each connection between two requests, and stops
//! when none is left or the time for that is over.

use session::Handler;

use super::source::Source;
use super::worker::Worker;
use crate::shared::Phase;

impl<H: Handler, S: Source> Worker<H, S> {
    /// Closes the connections that stand between two requests.
    pub(super) fn drain(&mut self) {
        let first = !self.draining;
        self.draining = true;
        if first {
            self.on_messages();
        }
        self.stop_listening();
        for index in 0..self.clients.places() {
            let Some(key) = self.clients.key_at(index) else { continue };
            let client = self.clients.get(key).expect("it was just found there");
            if first {
                // What has arrived already is still answered.
                client.readable = true;
                self.enqueue(key);
            } else if client.is_at_rest() {
                self.close(key);
            }
        }
    }

    fn stop_listening(&mut self) {
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.close(&mut self.source);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        match self.shared.phase() {
            Phase::Running => false,
            Phase::Draining => {
                self.draining
                    && (self.clients.len() == 0
                        || self.context.now.mono_ns >= self.shared.drain_until_ns())
            }
            Phase::Stopping => true,
        }
    }

    pub(super) fn close_all(&mut self) {
        self.stop_listening();
        self.on_messages();
        for index in 0..self.clients.places() {
            if let Some(key) = self.clients.key_at(index) {
                self.close(key);
            }
        }
    }
}
