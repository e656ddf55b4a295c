//! A socket and the exchange that it carries.
//!
//! It never blocks. Invariant: bytes of `out` before `sent` have left; the tail is less than a line
//! or a frame. Bound: `out` holds at most the requests of one pipeline.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::exchange::Exchange;
use crate::protocol::Protocol;

/// The result of a system call on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The number of bytes that were moved.
    Bytes(usize),
    /// The kernel has no space, or nothing has arrived.
    Blocked,
    /// The other side closed, or the connection failed.
    Ended,
}

pub(super) struct Connection {
    pub fd: OwnedFd,
    pub exchange: Exchange,
    /// Requests composed and not sent; at most the pipeline depth of them.
    pub out: Vec<u8>,
    sent: usize,
    /// The beginning of a reply line that has not arrived whole.
    pub tail: Vec<u8>,
    /// Whether it waits in the queue of connections with room (open loop).
    pub queued: bool,
    /// Whether epoll reports when it can be written to.
    pub watches_write: bool,
}

impl Connection {
    pub fn new(fd: OwnedFd, protocol: Protocol) -> Self {
        Self {
            fd,
            exchange: Exchange::new(protocol),
            out: Vec::new(),
            sent: 0,
            tail: Vec::new(),
            queued: false,
            watches_write: false,
        }
    }

    /// Sends what is composed; `Blocked` when a rest remains.
    #[inline]
    pub fn flush(&mut self) -> (usize, Flow) {
        let mut total = 0;
        while self.sent < self.out.len() {
            match rustix::net::send(&self.fd, &self.out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(bytes) => {
                    self.sent += bytes;
                    total += bytes;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return (total, Flow::Blocked),
                Err(_) => return (total, Flow::Ended),
            }
        }
        self.out.clear();
        self.sent = 0;
        (total, Flow::Bytes(total))
    }

    /// Receives into `buffer`.
    #[inline]
    pub fn fill(&self, buffer: &mut [u8]) -> Flow {
        loop {
            match rustix::net::recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Flow::Ended,
                Ok((bytes, _)) => return Flow::Bytes(bytes),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Flow::Blocked,
                Err(_) => return Flow::Ended,
            }
        }
    }
}
