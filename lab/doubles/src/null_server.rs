//! The floor for a server: fixed bytes are answered by fixed bytes.
//!
//! One epoll loop; per readable event one `recv` and one `send`; no parser, no store. Requests
//! are counted by dividing the bytes received by the size of one. What a real server costs above
//! this is its own doing; what this costs is the kernel's.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use serde::Serialize;

use crate::pingpong::{process_cpu_s, whole_messages};
use measure::poll::{Events, Poll};
use measure::{Error, Target};

/// Bytes of one `recv`.
const RECV_BYTES: usize = 64 << 10;
/// Bytes of replies kept ready, so that a batch is one `send`.
const READY_BYTES: usize = 4 << 20;
/// The largest request or reply.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Longest sleep, so that a stop is noticed.
const TICK: Duration = Duration::from_millis(50);
/// The listener's name in epoll; connections are named by other numbers.
const LISTENER: u64 = u64::MAX;

/// Settings of `load null-server`.
#[derive(Clone, Debug, clap::Args)]
pub struct NullServerArgs {
    /// Size of one request.
    #[arg(long)]
    pub request_bytes: usize,
    /// Size of one reply, filled with any byte.
    #[arg(long, required_unless_present = "reply", conflicts_with = "reply")]
    pub reply_bytes: Option<usize>,
    /// A file with the bytes of one reply, such as a real server's.
    #[arg(long, value_name = "FILE")]
    pub reply: Option<PathBuf>,
    /// Where to listen: HOST:PORT or unix:PATH; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: Target,
}

impl NullServerArgs {
    /// Carries the command out until `stop` is set.
    ///
    /// # Errors
    /// As `serve` and `play`.
    pub fn carry_out(&self, stop: &AtomicBool, screen: &mut dyn Write) -> Result<String, Error> {
        let reply = match (&self.reply, self.reply_bytes) {
            (Some(path), _) => std::fs::read(path)
                .map_err(|error| Error::io(format!("cannot read {}", path.display()), error))?,
            (None, bytes) => vec![b'x'; bytes.unwrap_or(0).min(MESSAGE_BYTES_MAX + 1)],
        };
        let server = NullServer::bind(&self.listen, self.request_bytes, &reply)?;
        // Whoever started this waits for the line to learn the port.
        writeln!(screen, "listening on {}", server.address())
            .map_err(|error| Error::io("cannot print the address", error))?;
        let served = server.serve(stop)?;
        Ok(serde_json::to_string(&served).expect("numbers always serialise"))
    }
}

/// What a null server did until it was stopped.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Served {
    /// Whole requests received.
    pub requests: u64,
    /// Calls of `recv` that returned bytes.
    pub recvs: u64,
    /// Calls of `send`.
    pub sends: u64,
    /// CPU time of the process until the stop.
    pub cpu_s: f64,
}

/// A bound null server.
pub struct NullServer {
    listener: OwnedFd,
    address: Target,
    request_bytes: usize,
    reply_bytes: usize,
    /// Whole replies, one behind the other.
    ready: Vec<u8>,
}

struct Peer {
    fd: OwnedFd,
    /// Bytes of a request that is not whole.
    part_bytes: usize,
    /// Bytes of replies that the kernel had no room for.
    owed_bytes: usize,
}

impl NullServer {
    /// Binds to `listen`, to answer each `request_bytes` with `reply`.
    ///
    /// # Errors
    /// When a size is out of range or the address cannot be bound.
    pub fn bind(listen: &Target, request_bytes: usize, reply: &[u8]) -> Result<Self, Error> {
        for (name, bytes) in [("request", request_bytes), ("reply", reply.len())] {
            if bytes == 0 || bytes > MESSAGE_BYTES_MAX {
                return Err(Error::Setting(format!(
                    "a {name} of {bytes} bytes: choose from 1 to {MESSAGE_BYTES_MAX}"
                )));
            }
        }
        let bind = || -> io::Result<(OwnedFd, Target)> {
            let tcp = |listener: TcpListener| {
                listener.set_nonblocking(true)?;
                let address = Target::Tcp(listener.local_addr()?);
                Ok((listener.into(), address))
            };
            match listen {
                Target::Tcp(address) => tcp(TcpListener::bind(address)?),
                Target::Named(_, addresses) => tcp(TcpListener::bind(&addresses[..])?),
                Target::Unix(path) => {
                    let listener = UnixListener::bind(path)?;
                    listener.set_nonblocking(true)?;
                    Ok((listener.into(), listen.clone()))
                }
            }
        };
        let (listener, address) =
            bind().map_err(|error| Error::io(format!("cannot listen on {listen}"), error))?;
        let ready = reply.repeat((READY_BYTES / reply.len()).max(1));
        Ok(Self { listener, address, request_bytes, reply_bytes: reply.len(), ready })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &Target {
        &self.address
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// When epoll fails; a connection that fails is closed.
    pub fn serve(&self, stop: &AtomicBool) -> Result<Served, Error> {
        let (poll, mut events) = (Poll::new()?, Events::new());
        poll.watch(&self.listener, LISTENER, false)?;
        let mut buffer = vec![0; RECV_BYTES];
        let mut peers: HashMap<u64, Peer> = HashMap::new();
        let mut next_peer = 0;
        let mut served = Served::default();
        while !stop.load(Ordering::Relaxed) {
            poll.wait(&mut events, TICK)?;
            for (name, _) in events.iter() {
                if name == LISTENER {
                    while let Some(peer) = self.accept(&poll, next_peer) {
                        peers.insert(next_peer, peer);
                        next_peer += 1;
                    }
                    continue;
                }
                let Some(peer) = peers.get_mut(&name) else { continue };
                if self.answer(peer, &mut buffer, &mut served).is_err() {
                    peers.remove(&name);
                }
            }
        }
        served.cpu_s = process_cpu_s();
        Ok(served)
    }

    /// Takes one new connection; none when no more are waiting, or no descriptor is left.
    fn accept(&self, poll: &Poll, name: u64) -> Option<Peer> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::accept_with(&self.listener, flags).ok()?;
        if matches!(self.address, Target::Tcp(_)) {
            rustix::net::sockopt::set_tcp_nodelay(&fd, true).ok()?;
        }
        // On TCP this costs nothing: it is reported only after a blocked send.
        poll.watch(&fd, name, true).ok()?;
        Some(Peer { fd, part_bytes: 0, owed_bytes: 0 })
    }

    /// As many of the `owed_bytes` as are kept ready, beginning where the last send stopped:
    /// replies end together, so what is left of one is found from the end.
    fn batch(&self, owed_bytes: usize) -> &[u8] {
        let ready_bytes = self.ready.len();
        if owed_bytes <= ready_bytes {
            return &self.ready[ready_bytes - owed_bytes..];
        }
        let sent_part = (self.reply_bytes - owed_bytes % self.reply_bytes) % self.reply_bytes;
        &self.ready[sent_part..]
    }

    /// Answers what has arrived.
    fn answer(&self, peer: &mut Peer, buffer: &mut [u8], served: &mut Served) -> Result<(), Errno> {
        loop {
            let received = match rustix::net::recv(&peer.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Errno::PIPE),
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN) => 0,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            served.recvs += u64::from(received > 0);
            let requests = whole_messages(&mut peer.part_bytes, received, self.request_bytes);
            served.requests += requests as u64;
            peer.owed_bytes += requests * self.reply_bytes;
            while peer.owed_bytes > 0 {
                let batch = self.batch(peer.owed_bytes);
                match rustix::net::send(&peer.fd, batch, SendFlags::NOSIGNAL) {
                    Ok(bytes) => {
                        served.sends += 1;
                        peer.owed_bytes -= bytes;
                    }
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            if received < buffer.len() {
                return Ok(());
            }
        }
    }
}
