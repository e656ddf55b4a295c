//! Message to a worker, from any thread: completions, hand-offs, requests to close.
//!
//! A mailbox wakes its worker only when it was empty, so a burst costs one wake-up. It is bounded
//! by what its mail speaks of: one completion per pending request, which sessions bound, one
//! hand-off per connection; and in any case by [`MESSAGES_MAX`].

use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};
use session::{ConnId, Ticket};

use crate::listen::Accepted;

/// Letters that wait at most; further ones are refused.
const MESSAGES_MAX: usize = 1 << 20;

/// Something for one connection, or a new one.
pub(crate) enum Message {
    /// The rest of a reply.
    Complete { ticket: Ticket, bytes: Vec<u8> },
    /// The connection is to end.
    Close(ConnId),
    /// The client is not to be read from, or read from again.
    PauseRead { conn: ConnId, on: bool },
    /// A client accepted elsewhere.
    Adopt(Accepted),
}

/// What a worker finds in its mailbox.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) messages: Vec<Message>,
    /// A mark of some log has passed: gates are to be asked again.
    pub(crate) release: bool,
    /// Somebody rang without a message.
    woken: bool,
}

impl Contents {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && !self.release && !self.woken
    }
}

/// How the worker is woken.
pub(crate) enum Waker {
    /// It waits in epoll, poll or an io_uring.
    Descriptor(OwnedFd),
    /// It waits for a signal, which only a pipe sends.
    Pipe {
        /// Where rings are heard, and must be taken out.
        hear: OwnedFd,
        /// Where it is woken.
        ring: OwnedFd,
    },
    /// It waits in [`Mailbox::wait`].
    Condition(Condvar),
}

impl Waker {
    pub(crate) fn descriptor() -> Result<Self, rustix::io::Errno> {
        Ok(Self::Descriptor(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn pipe() -> Result<Self, rustix::io::Errno> {
        let (hear, ring) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self::Pipe { hear, ring })
    }

    fn ring(&self) {
        match self {
            // It fails only when thousands of rings are unheard.
            Self::Pipe { ring, .. } => drop(rustix::io::write(ring, b"!")),
            // It fails only when 2^64 - 2 rings are unheard, and then the waker is ringing.
            Self::Descriptor(fd) => drop(rustix::io::write(fd, &1_u64.to_ne_bytes())),
            Self::Condition(condition) => condition.notify_one(),
        }
    }
}

pub(crate) struct Mailbox {
    contents: Mutex<Contents>,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { contents: Mutex::default(), waker }
    }

    /// The descriptor that becomes readable when mail comes.
    pub(crate) fn descriptor(&self) -> Option<&OwnedFd> {
        match &self.waker {
            Waker::Descriptor(fd) | Waker::Pipe { hear: fd, .. } => Some(fd),
            Waker::Condition(_) => None,
        }
    }

    /// Puts a message in; `false` when the box is full.
    pub(crate) fn post(&self, mail: Message) -> bool {
        let mut contents = self.lock();
        if contents.messages.len() >= MESSAGES_MAX {
            return false;
        }
        let was_empty = contents.is_empty();
        contents.messages.push(mail);
        drop(contents);
        if was_empty {
            self.waker.ring();
        }
        true
    }

    /// Has gates asked again.
    pub(crate) fn release(&self) {
        let was_empty = {
            let mut contents = self.lock();
            let was_empty = contents.is_empty();
            contents.release = true;
            was_empty
        };
        if was_empty {
            self.waker.ring();
        }
    }

    /// Wakes the worker to look around.
    pub(crate) fn ring(&self) {
        self.lock().woken = true;
        self.waker.ring();
    }

    /// Takes everything, leaving `empty` in its place.
    pub(crate) fn take(&self, empty: Contents) -> Contents {
        std::mem::replace(&mut self.lock(), empty)
    }

    /// Takes everything, waiting for it up to `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Contents {
        let Waker::Condition(condition) = &self.waker else {
            return self.take(Contents::default());
        };
        let (mut contents, _) = condition
            .wait_timeout_while(self.lock(), limit, |contents| contents.is_empty())
            .expect("no holder of a mailbox panics");
        std::mem::take(&mut contents)
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().expect("no holder of a mailbox panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_once_for_a_burst_and_loses_nothing() {
        let mailbox = Mailbox::new(Waker::descriptor().expect("descriptors are left"));
        let conn = ConnId { worker: session::WorkerId(0), index: 0, generation: 0 };
        for _ in 0..3 {
            assert!(mailbox.post(Message::Close(conn)));
        }
        mailbox.release();
        let mut rings = [0; 8];
        let fd = mailbox.descriptor().expect("made with one");
        rustix::io::read(fd, &mut rings[..]).expect("it rang");
        assert_eq!(u64::from_ne_bytes(rings), 1);
        let contents = mailbox.take(Contents::default());
        assert_eq!((contents.messages.len(), contents.release), (3, true));
        assert!(mailbox.take(Contents::default()).is_empty());
    }
}
