//! Mail to a worker, from any thread: completions, hand-offs, requests to close.
//!
//! A mailbox wakes its worker only when it was empty, so a burst costs one wake-up. It is bounded
//! by what its mail speaks of: one completion per pending request, which sessions bound, one
//! hand-off per connection; and in any case by [`MAIL_MAX`].

use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};
use session::{ConnId, Ticket};

use crate::listen::Guest;

/// Letters that wait at most; further ones are refused.
const MAIL_MAX: usize = 1 << 20;

/// Something for one connection, or a new one.
pub(crate) enum Mail {
    /// The rest of a reply.
    Complete { ticket: Ticket, bytes: Vec<u8> },
    /// The connection is to end.
    Close(ConnId),
    /// The client is not to be read from, or read from again.
    PauseRead { conn: ConnId, on: bool },
    /// A client accepted elsewhere.
    Adopt(Guest),
}

/// What a worker finds in its mailbox.
#[derive(Default)]
pub(crate) struct Delivery {
    pub(crate) letters: Vec<Mail>,
    /// A mark of some log has passed: gates are to be asked again.
    pub(crate) release: bool,
    /// Somebody rang without a letter.
    rung: bool,
}

impl Delivery {
    fn is_empty(&self) -> bool {
        self.letters.is_empty() && !self.release && !self.rung
    }
}

/// How the worker is woken.
pub(crate) enum Bell {
    /// It waits in epoll, poll or an io_uring.
    Descriptor(OwnedFd),
    /// It waits for a signal, which only a pipe sends.
    Pipe {
        /// Where rings are heard, and must be taken out.
        hear: OwnedFd,
        /// Where it is rung.
        ring: OwnedFd,
    },
    /// It waits in [`Mailbox::wait`].
    Condition(Condvar),
}

impl Bell {
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
            // It fails only when 2^64 - 2 rings are unheard, and then the bell is ringing.
            Self::Descriptor(fd) => drop(rustix::io::write(fd, &1_u64.to_ne_bytes())),
            Self::Condition(condition) => condition.notify_one(),
        }
    }
}

pub(crate) struct Mailbox {
    delivery: Mutex<Delivery>,
    bell: Bell,
}

impl Mailbox {
    pub(crate) fn new(bell: Bell) -> Self {
        Self { delivery: Mutex::default(), bell }
    }

    /// The descriptor that becomes readable when mail comes.
    pub(crate) fn descriptor(&self) -> Option<&OwnedFd> {
        match &self.bell {
            Bell::Descriptor(fd) | Bell::Pipe { hear: fd, .. } => Some(fd),
            Bell::Condition(_) => None,
        }
    }

    /// Puts a letter in; `false` when the box is full.
    pub(crate) fn post(&self, mail: Mail) -> bool {
        let mut delivery = self.lock();
        if delivery.letters.len() >= MAIL_MAX {
            return false;
        }
        let was_empty = delivery.is_empty();
        delivery.letters.push(mail);
        drop(delivery);
        if was_empty {
            self.bell.ring();
        }
        true
    }

    /// Has gates asked again.
    pub(crate) fn release(&self) {
        let was_empty = {
            let mut delivery = self.lock();
            let was_empty = delivery.is_empty();
            delivery.release = true;
            was_empty
        };
        if was_empty {
            self.bell.ring();
        }
    }

    /// Wakes the worker to look around.
    pub(crate) fn ring(&self) {
        self.lock().rung = true;
        self.bell.ring();
    }

    /// Takes everything, leaving `empty` in its place.
    pub(crate) fn take(&self, empty: Delivery) -> Delivery {
        std::mem::replace(&mut self.lock(), empty)
    }

    /// Takes everything, waiting for it up to `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Delivery {
        let Bell::Condition(condition) = &self.bell else {
            return self.take(Delivery::default());
        };
        let (mut delivery, _) = condition
            .wait_timeout_while(self.lock(), limit, |delivery| delivery.is_empty())
            .expect("no holder of a mailbox panics");
        std::mem::take(&mut delivery)
    }

    fn lock(&self) -> MutexGuard<'_, Delivery> {
        self.delivery.lock().expect("no holder of a mailbox panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_once_for_a_burst_and_loses_nothing() {
        let mailbox = Mailbox::new(Bell::descriptor().expect("descriptors are left"));
        let conn = ConnId { worker: session::WorkerId(0), index: 0, generation: 0 };
        for _ in 0..3 {
            assert!(mailbox.post(Mail::Close(conn)));
        }
        mailbox.release();
        let mut rings = [0; 8];
        let fd = mailbox.descriptor().expect("made with one");
        rustix::io::read(fd, &mut rings[..]).expect("it rang");
        assert_eq!(u64::from_ne_bytes(rings), 1);
        let delivery = mailbox.take(Delivery::default());
        assert_eq!((delivery.letters.len(), delivery.release), (3, true));
        assert!(mailbox.take(Delivery::default()).is_empty());
    }
}
