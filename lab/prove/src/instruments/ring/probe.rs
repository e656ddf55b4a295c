//! Requests for the keys that a fault concerns, sent in an open loop.
//!
//! A request that waits for a dead cell says nothing of when the next one would be answered. So
//! each request of a probe goes out on a connection that is free, whatever has become of earlier
//! ones, and connections are opened as they are needed. One thread serves all streams.
//!
//! Writes go to keys that were never written, so that each acknowledged one can be read later.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::answered::{Answered, Ended};
use measure::clock::mono_ns;
use measure::poll::{Events, Poll};

/// Time between two requests of a stream.
const PACE: Duration = Duration::from_millis(5);
/// The most connections of a probe.
const CONNECTIONS_MAX: usize = 2048;
/// How long answers are waited for after the end.
const LAST: Duration = Duration::from_secs(4);
/// Longest a connection may take to open.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// What is written.
const VALUE: &str = "probe";

/// One kind of requests, for keys of one place.
pub struct Stream {
    /// Whether it writes.
    pub writes: bool,
    /// The key of its next request; none where there are no requests.
    next_key: Option<Box<dyn FnMut() -> String + Send>>,
    /// What was seen of each request.
    pub seen: Vec<Answered>,
    /// The keys whose writes were acknowledged.
    pub written: Vec<String>,
}

impl Stream {
    /// Reads or writes of the keys that `next_key` names, one after the other. Keys that are read
    /// hold their own name.
    pub fn new(writes: bool, next_key: impl FnMut() -> String + Send + 'static) -> Self {
        let next_key: Box<dyn FnMut() -> String + Send> = Box::new(next_key);
        Self { writes, next_key: Some(next_key), seen: Vec::new(), written: Vec::new() }
    }

    /// A stream of no requests.
    pub fn empty() -> Self {
        Self { next_key: None, ..Self::new(false, String::new) }
    }

    fn request(&self, key: &str) -> String {
        match self.writes {
            true => format!("set {key} 0 0 {}\r\n{VALUE}\r\n", VALUE.len()),
            false => format!("get {key}\r\n"),
        }
    }

    /// Takes over a reply; nothing where there was none.
    fn answered(&mut self, waiting: Waiting, reply: &[u8]) {
        let (Waiting { key, sent_ns, .. }, reply) = (waiting, String::from_utf8_lossy(reply));
        let ended = if reply.is_empty() {
            Ended::Closed
        } else if self.writes {
            match reply.trim_end() {
                "STORED" => Ended::Well,
                line => Ended::of_error(line),
            }
        } else if reply == read_reply(&key) {
            Ended::Well
        } else if reply == "END\r\n" {
            Ended::Lost
        } else {
            Ended::of_error(reply.trim_end())
        };
        if self.writes && ended == Ended::Well {
            self.written.push(key);
        }
        self.seen.push(Answered { sent_ns, done_ns: mono_ns(), ended });
    }
}

/// What a read of `key` is answered: keys that are read hold their own name.
fn read_reply(key: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{key}\r\nEND\r\n", key.len())
}

/// A request that is not answered.
struct Waiting {
    stream: usize,
    key: String,
    sent_ns: u64,
}

struct Connection {
    socket: TcpStream,
    target: usize,
    waiting: Option<Waiting>,
    reply: Vec<u8>,
}

/// The connections of all streams.
pub struct Probe {
    targets: Vec<SocketAddr>,
    poll: Poll,
    /// By the name under which each is watched; none where it was closed.
    connections: Vec<Option<Connection>>,
    idle: Vec<Vec<usize>>,
}

impl Probe {
    /// A probe that asks these cells in turn.
    pub fn new(targets: Vec<SocketAddr>) -> Result<Self> {
        let idle = targets.iter().map(|_| Vec::new()).collect();
        Ok(Self { targets, poll: Poll::new()?, connections: Vec::new(), idle })
    }

    /// Sends requests of all streams until `stops`.
    pub fn run(mut self, streams: &mut [Stream], stops: &AtomicBool) -> Result<()> {
        let (mut events, mut next, mut turn) = (Events::new(), Instant::now(), 0);
        let mut ended: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if ended.is_none() && stops.load(Ordering::Relaxed) {
                ended = Some(now);
            }
            match ended {
                Some(since) if self.waiting() == 0 || since.elapsed() > LAST => break,
                None if now >= next => {
                    next = now + PACE;
                    turn += 1;
                    (0..streams.len()).try_for_each(|nth| self.send(streams, nth, turn))?;
                }
                _ => {}
            }
            let left = next.saturating_duration_since(Instant::now()).min(PACE);
            self.poll.wait(&mut events, left.max(Duration::from_micros(50)))?;
            for (name, _) in events.iter() {
                self.receive(streams, name as usize);
            }
        }
        for connection in self.connections.into_iter().flatten() {
            if let Some(waiting) = connection.waiting {
                streams[waiting.stream].answered(waiting, &[]);
            }
        }
        Ok(())
    }

    fn waiting(&self) -> usize {
        self.connections.iter().flatten().filter(|it| it.waiting.is_some()).count()
    }

    /// Sends the next request of a stream, unless too many wait.
    fn send(&mut self, streams: &mut [Stream], nth: usize, turn: usize) -> Result<()> {
        let (target, stream) = (turn % self.targets.len(), &mut streams[nth]);
        let Some(next_key) = stream.next_key.as_mut() else { return Ok(()) };
        let Some(name) = self.free(target)? else { return Ok(()) };
        let key = next_key();
        let request = stream.request(&key);
        let waiting = Waiting { stream: nth, key, sent_ns: mono_ns() };
        let connection = self.connections[name].as_mut().context("invariant: it is open")?;
        let sent = connection.socket.write_all(request.as_bytes());
        connection.waiting = Some(waiting);
        if sent.is_err() {
            self.close(streams, name);
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
    fn receive(&mut self, streams: &mut [Stream], name: usize) {
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
            streams[waiting.stream].answered(waiting, &connection.reply);
            connection.reply.clear();
            if is_open {
                self.idle[connection.target].push(name);
            }
        }
        if !is_open {
            self.close(streams, name);
        }
    }

    fn close(&mut self, streams: &mut [Stream], name: usize) {
        let Some(connection) = self.connections[name].take() else { return };
        self.idle[connection.target].retain(|idle| *idle != name);
        if let Some(waiting) = connection.waiting {
            streams[waiting.stream].answered(waiting, &[]);
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

    #[test]
    fn replies_are_judged_by_what_was_sent() {
        let cases = [
            (true, "STORED\r\n", Ended::Well),
            (true, "SERVER_ERROR in doubt: x\r\n", Ended::InDoubt),
            (false, "VALUE k 0 1\r\nk\r\nEND\r\n", Ended::Well),
            (false, "VALUE k 0 1\r\nj\r\nEND\r\n", Ended::Wrong),
            (false, "END\r\n", Ended::Lost),
            (false, "", Ended::Closed),
        ];
        for (writes, reply, expected) in cases {
            let mut stream = Stream::new(writes, || "k".to_owned());
            let waiting = Waiting { stream: 0, key: "k".to_owned(), sent_ns: 0 };
            stream.answered(waiting, reply.as_bytes());
            assert_eq!(stream.seen[0].ended, expected, "{reply:?}");
            let stored = usize::from(writes && expected == Ended::Well);
            assert_eq!(stream.written.len(), stored, "{reply:?}");
        }
    }
}
