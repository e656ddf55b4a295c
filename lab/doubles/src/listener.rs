//! A listening socket and the connections that it accepted, served by one epoll loop.
//!
//! What every double has in common: it accepts without blocking, reads what a readable connection
//! brings, and closes a connection that failed. It never decides what bytes mean. Invariant: a name
//! is given to one connection only, so an event of a closed one finds nothing. Bound:
//! [`CONNECTIONS_MAX`] connections; one more is closed at once.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use measure::poll::{Events, Poll};
use measure::{Error, Target};

/// The longest wait for events, after which a double looks whether it is to stop.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// The most open connections.
const CONNECTIONS_MAX: usize = 50_000;

/// The name of the listening socket in epoll; connections have lower ones.
const LISTENER: u64 = u64::MAX;

/// A socket that listens without blocking.
pub(crate) struct Listener {
    socket: OwnedFd,
    address: Target,
}

impl Listener {
    /// Listens at `address`; port 0 takes a free one.
    pub fn bind(address: &Target) -> Result<Self, Error> {
        let tcp = |listener: TcpListener| {
            listener.set_nonblocking(true)?;
            let address = Target::Tcp(listener.local_addr()?);
            Ok(Self { socket: listener.into(), address })
        };
        let bind = || -> io::Result<Self> {
            match address {
                Target::Tcp(address) => tcp(TcpListener::bind(address)?),
                Target::Named(_, addresses) => tcp(TcpListener::bind(&addresses[..])?),
                Target::Unix(path) => {
                    let listener = UnixListener::bind(path)?;
                    listener.set_nonblocking(true)?;
                    Ok(Self { socket: listener.into(), address: address.clone() })
                }
            }
        };
        bind().map_err(|error| Error::io(format!("cannot listen on {address}"), error))
    }

    /// Where it listens.
    pub fn address(&self) -> &Target {
        &self.address
    }

    /// The next connection; none when no more are waiting, or no descriptor is left.
    fn accept(&self) -> Option<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::accept_with(&self.socket, flags).ok()?;
        if matches!(self.address, Target::Tcp(_)) {
            rustix::net::sockopt::set_tcp_nodelay(&socket, true).ok()?;
        }
        Some(socket)
    }
}

/// The open connections of a listener, each with its state `T`.
pub(crate) struct Connections<'l, T> {
    listener: &'l Listener,
    poll: Poll,
    events: Events,
    open: HashMap<u64, (OwnedFd, T)>,
    next: u64,
}

impl<'l, T: Default> Connections<'l, T> {
    pub fn new(listener: &'l Listener) -> Result<Self, Error> {
        let poll = Poll::new()?;
        poll.watch(&listener.socket, LISTENER, false)?;
        Ok(Self { listener, poll, events: Events::new(), open: HashMap::new(), next: 0 })
    }

    /// Waits for events, at most for `time`.
    pub fn wait(&mut self, time: Duration) -> Result<(), Error> {
        self.poll.wait(&mut self.events, time)
    }

    /// Accepts new connections, and calls `serve` with name, socket and state of each connection
    /// that has an event. A connection for which it fails is closed.
    pub fn serve(&mut self, mut serve: impl FnMut(u64, &OwnedFd, &mut T) -> Result<(), Errno>) {
        for (name, _) in self.events.iter() {
            if name == LISTENER {
                while let Some(socket) = self.listener.accept() {
                    // On TCP watching for writes is free: it is reported after a blocked send only.
                    if self.open.len() < CONNECTIONS_MAX
                        && self.poll.watch(&socket, self.next, true).is_ok()
                    {
                        self.open.insert(self.next, (socket, T::default()));
                        self.next += 1;
                    }
                }
            } else if let Some((socket, state)) = self.open.get_mut(&name)
                && serve(name, socket, state).is_err()
            {
                self.open.remove(&name);
            }
        }
    }

    /// A connection that is still open.
    pub fn get(&mut self, name: u64) -> Option<&mut (OwnedFd, T)> {
        self.open.get_mut(&name)
    }
}

/// Receives into `buffer`; 0 when nothing is there.
///
/// # Errors
/// When the other side closed, or the connection failed.
#[inline]
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => return Err(Errno::PIPE),
            Ok((bytes, _)) => return Ok(bytes),
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Sends a part of `bytes`; 0 when the kernel has no space for any.
///
/// # Errors
/// When the connection failed.
#[inline]
pub(crate) fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            sent => return sent,
        }
    }
}
