//! Messages to a worker, from any thread: completions, mail, accepted sockets, requests to close.
//!
//! A mailbox wakes its worker only when it was empty, so a burst costs one wake-up. It refuses
//! messages beyond [`MESSAGES_MAX`]. Where it refuses a completion, it notes that: a reply is lost,
//! so the worker closes every connection that still waits for a completion after it has taken all
//! messages. No connection waits for what never comes.
//!
//! The worker takes everything at once. A message that is posted after that wakes it again, so none
//! is ever left without a wake-up.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};
use session::{ConnId, Ticket};

use super::mail::Mail;
use crate::sockets::Accepted;

/// Messages that one mailbox holds at most.
const MESSAGES_MAX: usize = 1 << 20;

/// Something for one connection, or a new connection.
pub(crate) enum Message {
    /// A part of a reply, the last one or not.
    Complete { ticket: Ticket, bytes: Vec<u8>, last: bool },
    /// Something for the handler.
    Mail(Mail),
    /// Close the connection.
    Close(ConnId),
    /// Stop reading from the client, or resume.
    PauseRead { conn: ConnId, on: bool },
    /// A client or a link that another worker accepted.
    Serve(Accepted),
}

/// What a mailbox holds.
#[derive(Default)]
struct Contents {
    messages: Vec<Message>,
    /// A mark of some log has passed: gates are to be asked again.
    release: bool,
    /// A completion was refused.
    overflown: bool,
    /// The worker was woken without a message.
    woken: bool,
    /// The worker has ended.
    closed: bool,
}

impl Contents {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && !self.release && !self.woken
    }
}

/// What a worker has taken from its mailbox.
pub(crate) struct Taken {
    pub(crate) messages: Vec<Message>,
    /// A mark of some log has passed: gates are to be asked again.
    pub(crate) release: bool,
    /// A completion was refused: connections that still wait for one are to be closed.
    pub(crate) overflown: bool,
}

/// How a worker is woken.
pub(crate) enum Waker {
    /// It waits in epoll, poll or an io_uring, which watches this eventfd.
    Descriptor(OwnedFd),
    /// It waits for a signal. An eventfd sends none; the read end of a pipe does.
    Pipe {
        /// Becomes readable at each wake-up. The worker must empty it.
        read: OwnedFd,
        /// Each wake-up writes one byte here.
        write: OwnedFd,
    },
    /// It waits in [`Mailbox::wait`].
    Condition(Condvar),
}

impl Waker {
    pub(crate) fn descriptor() -> Result<Self, rustix::io::Errno> {
        Ok(Self::Descriptor(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn pipe() -> Result<Self, rustix::io::Errno> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self::Pipe { read, write })
    }

    fn wake(&self) {
        match self {
            // An error means that the pipe is full, so the worker is being woken already.
            Self::Pipe { write, .. } => drop(rustix::io::write(write, b"!")),
            // An error means that the count is at its maximum, 2^64 - 2: it is being woken.
            Self::Descriptor(fd) => drop(rustix::io::write(fd, &1_u64.to_ne_bytes())),
            Self::Condition(condition) => condition.notify_one(),
        }
    }
}

/// The messages for one worker.
pub(crate) struct Mailbox {
    contents: Mutex<Contents>,
    /// Whether there are messages, for a look without the lock.
    has_messages: AtomicBool,
    waker: Waker,
}

impl Mailbox {
    pub(super) fn new(waker: Waker) -> Self {
        Self { contents: Mutex::default(), has_messages: AtomicBool::new(false), waker }
    }

    /// The descriptor that becomes readable when the worker is woken.
    pub(crate) fn descriptor(&self) -> Option<&OwnedFd> {
        match &self.waker {
            Waker::Descriptor(fd) | Waker::Pipe { read: fd, .. } => Some(fd),
            Waker::Condition(_) => None,
        }
    }

    /// Adds a message; `false` when the mailbox is full, or its worker has ended.
    pub(crate) fn post(&self, message: Message) -> bool {
        let mut contents = self.lock();
        if contents.closed || contents.messages.len() >= MESSAGES_MAX {
            contents.overflown |= matches!(message, Message::Complete { .. });
            return false;
        }
        let was_empty = contents.is_empty();
        contents.messages.push(message);
        self.has_messages.store(true, Ordering::Relaxed);
        drop(contents);
        if was_empty {
            self.waker.wake();
        }
        true
    }

    /// Makes the worker ask all gates again.
    pub(super) fn release(&self) {
        let mut contents = self.lock();
        let was_empty = contents.is_empty();
        contents.release = true;
        drop(contents);
        if was_empty {
            self.waker.wake();
        }
    }

    /// Wakes the worker without a message.
    pub(crate) fn wake(&self) {
        self.lock().woken = true;
        self.waker.wake();
    }

    /// Takes the last messages, of a worker that ends.
    pub(crate) fn close(&self) -> Vec<Message> {
        let last = Contents { closed: true, ..Contents::default() };
        std::mem::replace(&mut *self.lock(), last).messages
    }

    /// Whether there are messages, as far as this thread has seen.
    #[inline]
    pub(crate) fn has_messages(&self) -> bool {
        self.has_messages.load(Ordering::Relaxed)
    }

    /// Takes everything.
    pub(crate) fn take(&self) -> Taken {
        let mut contents = self.lock();
        self.has_messages.store(false, Ordering::Relaxed);
        let empty = Contents { closed: contents.closed, ..Contents::default() };
        let taken = std::mem::replace(&mut *contents, empty);
        let Contents { messages, release, overflown, .. } = taken;
        Taken { messages, release, overflown }
    }

    /// [`Mailbox::take`], after waiting for something up to `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Taken {
        if let Waker::Condition(condition) = &self.waker {
            let waited = condition.wait_timeout_while(self.lock(), limit, |it| it.is_empty());
            drop(waited.expect("no holder of a mailbox panics"));
        }
        self.take()
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
        let mut wakes = [0; 8];
        let fd = mailbox.descriptor().expect("made with one");
        rustix::io::read(fd, &mut wakes[..]).expect("it woke");
        assert_eq!(u64::from_ne_bytes(wakes), 1);
        let taken = mailbox.take();
        assert_eq!((taken.messages.len(), taken.release, taken.overflown), (3, true, false));
        assert!(mailbox.lock().is_empty());
        assert!(mailbox.post(Message::Close(conn)));
        assert_eq!(mailbox.close().len(), 1);
        assert!(mailbox.take().messages.is_empty());
        assert!(!mailbox.post(Message::Close(conn)), "nobody would take it");
    }

    #[test]
    fn a_full_one_refuses_and_notes_only_completions() {
        let mailbox = Mailbox::new(Waker::Condition(Condvar::new()));
        let conn = ConnId { worker: session::WorkerId(0), index: 0, generation: 0 };
        for _ in 0..MESSAGES_MAX {
            assert!(mailbox.post(Message::PauseRead { conn, on: false }));
        }
        assert!(!mailbox.post(Message::Close(conn)));
        assert!(!mailbox.lock().overflown, "its caller knows, and nothing is lost");
        let ticket = Ticket { conn, request: 1 };
        assert!(!mailbox.post(Message::Complete { ticket, bytes: Vec::new(), last: true }));
        let taken = mailbox.take();
        assert_eq!((taken.messages.len(), taken.overflown), (MESSAGES_MAX, true));
        assert!(!mailbox.take().overflown);
    }
}
