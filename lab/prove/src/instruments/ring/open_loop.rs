//! Requests that are sent when they are due, whatever has become of earlier ones.
//!
//! A request that waits for a dead cell says nothing of when the next one would be answered. So
//! each request goes out on a connection that is free, and connections are opened as they are
//! needed. One thread serves all of them. What is asked, and what a reply means, its caller says.
//!
//! Bounds: [`CONNECTIONS_MAX`]; a request that finds no free one is not sent, and counted.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use measure::clock::mono_ns;
use measure::poll::{Events, Poll};

/// The most connections.
const CONNECTIONS_MAX: usize = 2048;
/// The most requests of one kind that are sent before replies are read again.
const AT_ONCE_MAX: usize = 64;
/// How long answers are waited for after the end.
const LAST: Duration = Duration::from_secs(4);
/// Longest a connection may take to open.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// The shortest wait for replies.
const WAIT_MIN: Duration = Duration::from_micros(50);

/// One kind of requests.
pub trait Asks {
    /// What is kept of a request until it has ended.
    type Asked;

    /// The next request, in full; none where there is nothing to ask.
    fn next(&mut self) -> Option<(Self::Asked, String)>;

    /// Takes over the whole reply to a request that was sent at this time; no byte where there was
    /// none.
    fn answered(&mut self, asked: Self::Asked, sent_ns: u64, reply: &[u8]);
}

/// A request that is not answered.
struct Waiting<A> {
    kind: usize,
    asked: A,
    sent_ns: u64,
}

struct Connection<A> {
    socket: TcpStream,
    target: usize,
    waiting: Option<Waiting<A>>,
    reply: Vec<u8>,
}

/// The connections of all kinds of requests.
pub struct OpenLoop<A: Asks> {
    targets: Vec<SocketAddr>,
    pace: Duration,
    poll: Poll,
    /// By the name under which each is watched; none where it was closed.
    connections: Vec<Option<Connection<A::Asked>>>,
    idle: Vec<Vec<usize>>,
    unsent: u64,
}

impl<A: Asks> OpenLoop<A> {
    /// One that asks these cells in turn; a request of each kind is due once in `pace`.
    pub fn new(targets: Vec<SocketAddr>, pace: Duration) -> Result<Self> {
        let idle = targets.iter().map(|_| Vec::new()).collect();
        Ok(Self { targets, pace, poll: Poll::new()?, connections: Vec::new(), idle, unsent: 0 })
    }

    /// Sends requests of all kinds until `stops`; how many were due and not sent.
    pub fn run(mut self, kinds: &mut [A], stops: &AtomicBool) -> Result<u64> {
        let (mut events, mut next, mut turn) = (Events::new(), Instant::now(), 0);
        let mut ended: Option<Instant> = None;
        loop {
            if ended.is_none() && stops.load(Ordering::Relaxed) {
                ended = Some(Instant::now());
            }
            if ended.is_some_and(|since| self.waiting() == 0 || since.elapsed() > LAST) {
                break;
            }
            for _ in 0..AT_ONCE_MAX {
                if ended.is_some() || Instant::now() < next {
                    break;
                }
                next += self.pace;
                turn += 1;
                (0..kinds.len()).try_for_each(|kind| self.send(kinds, kind, turn))?;
            }
            let left = match ended {
                None => next.saturating_duration_since(Instant::now()).min(self.pace),
                Some(_) => self.pace,
            };
            self.poll.wait(&mut events, left.max(WAIT_MIN))?;
            for (name, _) in events.iter() {
                self.receive(kinds, name as usize);
            }
        }
        for waiting in self.connections.into_iter().flatten().filter_map(|it| it.waiting) {
            kinds[waiting.kind].answered(waiting.asked, waiting.sent_ns, &[]);
        }
        Ok(self.unsent)
    }

    fn waiting(&self) -> usize {
        self.connections.iter().flatten().filter(|it| it.waiting.is_some()).count()
    }

    /// Sends the next request of a kind, unless too many wait.
    fn send(&mut self, kinds: &mut [A], kind: usize, turn: usize) -> Result<()> {
        let Some(name) = self.free(turn % self.targets.len())? else {
            self.unsent += 1;
            return Ok(());
        };
        let connection = self.connections[name].as_mut().context("invariant: it is open")?;
        let Some((asked, request)) = kinds[kind].next() else {
            self.idle[connection.target].push(name);
            return Ok(());
        };
        let sent_ns = mono_ns();
        let sent = connection.socket.write_all(request.as_bytes());
        connection.waiting = Some(Waiting { kind, asked, sent_ns });
        if sent.is_err() {
            self.close(kinds, name);
        }
        Ok(())
    }

    /// A connection to a target that waits for nothing; none where there are too many.
    fn free(&mut self, target: usize) -> Result<Option<usize>> {
        if let Some(name) = self.idle[target].pop() {
            return Ok(Some(name));
        }
        if self.connections.len() == CONNECTIONS_MAX {
            return Ok(None);
        }
        let Ok(socket) = TcpStream::connect_timeout(&self.targets[target], CONNECT_MAX) else {
            return Ok(None);
        };
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let name = self.connections.len();
        self.poll.watch(&socket, name as u64, false)?;
        let connection = Connection { socket, target, waiting: None, reply: Vec::new() };
        self.connections.push(Some(connection));
        Ok(Some(name))
    }

    /// Reads what has arrived on a connection.
    fn receive(&mut self, kinds: &mut [A], name: usize) {
        let Some(connection) = self.connections[name].as_mut() else { return };
        let mut chunk = [0; 4096];
        let is_open = loop {
            match connection.socket.read(&mut chunk) {
                Ok(0) => break false,
                Ok(bytes) => connection.reply.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
        };
        if is_whole(&connection.reply)
            && let Some(waiting) = connection.waiting.take()
        {
            let Waiting { kind, asked, sent_ns } = waiting;
            kinds[kind].answered(asked, sent_ns, &connection.reply);
            connection.reply.clear();
            if is_open {
                self.idle[connection.target].push(name);
            }
        }
        if !is_open {
            self.close(kinds, name);
        }
    }

    fn close(&mut self, kinds: &mut [A], name: usize) {
        let Some(connection) = self.connections[name].take() else { return };
        self.idle[connection.target].retain(|idle| *idle != name);
        if let Some(waiting) = connection.waiting {
            kinds[waiting.kind].answered(waiting.asked, waiting.sent_ns, &[]);
        }
    }
}

/// Whether bytes are a whole reply to one request.
fn is_whole(reply: &[u8]) -> bool {
    let end: &[u8] = if reply.starts_with(b"VALUE ") { b"\r\nEND\r\n" } else { b"\r\n" };
    reply.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_at_its_last_line() {
        for (reply, whole) in [
            ("", false),
            ("END\r\n", true),
            ("VALUE k 0 1\r\nx\r\n", false),
            ("VALUE k 0 1\r\nx\r\nEND\r\n", true),
            ("SERVER_ERROR in doubt", false),
        ] {
            assert_eq!(is_whole(reply.as_bytes()), whole, "{reply:?}");
        }
    }
}
