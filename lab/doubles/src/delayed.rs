//! A server whose delays are stated: what the generator reports of it can be checked.
//!
//! ```text
//! get arrives --- due = now + stated delay ---> heap by due time ---> reply at that time
//!             frozen: nothing is read or sent until the freeze is over
//! ```
//!
//! It answers every get with a short value, one request at a time on a connection, and anything
//! else at once with an error. The delays it has stated, and how late it was itself, stand in its
//! account, so that a machine too busy for the test is told from a generator that lies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use measure::poll::{Events, Poll};
use measure::rng::Rng;
use measure::{Error, Target};

/// The name under which the listening socket is watched.
const LISTENER: u64 = u64::MAX;

/// The most connections.
const CONNECTIONS_MAX: usize = 10_000;

/// The longest request line.
const LINE_BYTES_MAX: usize = 512;

/// The longest delay told apart, in nanoseconds.
const DELAY_MAX_NS: u64 = 3_600_000_000_000;

/// Longest sleep, so that a stop is noticed.
const TICK: Duration = Duration::from_millis(20);

/// How the double keeps its clients waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Every reply is delayed by a time drawn evenly from this range.
    Delays(Duration, Duration),
    /// It stands still for the first time at the end of each period of the second.
    Freezes {
        /// How long it stands still.
        freeze: Duration,
        /// From one beginning of a freeze to the next.
        period: Duration,
    },
}

/// What the double has done.
#[derive(Clone, Debug)]
pub struct Account {
    /// Delays stated, one for every reply, in nanoseconds.
    pub stated_ns: Histogram<u64>,
    /// How much later than stated replies were sent, in nanoseconds.
    pub late_ns: Histogram<u64>,
}

/// A double that listens and does not serve yet.
pub struct Double {
    listener: TcpListener,
    target: Target,
    manner: Manner,
}

struct Client {
    fd: OwnedFd,
    line: Vec<u8>,
}

struct Service<'a> {
    manner: Manner,
    poll: Poll,
    listener: &'a TcpListener,
    clients: Vec<Option<Client>>,
    /// Replies by due time, each with its client.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    rng: Rng,
    start: Instant,
    account: Account,
}

impl Double {
    /// Listens on a free port of the loopback.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub fn bind(manner: Manner) -> Result<Self, Error> {
        let failed = |error| Error::io("cannot listen on the loopback", error);
        let listener =
            TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let target = Target::Tcp(listener.local_addr().map_err(failed)?);
        Ok(Self { listener, target, manner })
    }

    /// Where it listens.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// When a system call fails that clients cannot make fail.
    pub fn serve(&self, seed: u64, stop: &AtomicBool) -> Result<Account, Error> {
        // Replies are to leave when they are due, not up to 50 us later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let histogram =
            || Histogram::new_with_bounds(1, DELAY_MAX_NS, 3).expect("invariant: valid bounds");
        let mut service = Service {
            manner: self.manner,
            poll: Poll::new()?,
            listener: &self.listener,
            clients: Vec::new(),
            due: BinaryHeap::new(),
            rng: Rng::new(seed, 0),
            start: Instant::now(),
            account: Account { stated_ns: histogram(), late_ns: histogram() },
        };
        service.poll.watch(&self.listener, LISTENER, false)?;
        let mut events = Events::new();
        while !stop.load(Ordering::Relaxed) {
            service.turn(&mut events)?;
        }
        Ok(service.account)
    }
}

/// How long the double stands still from `at` on, as it freezes at the end of each period.
fn frozen_for(at: Duration, freeze: Duration, period: Duration) -> Duration {
    let into = Duration::from_nanos((at.as_nanos() % period.as_nanos().max(1)) as u64);
    if into + freeze > period { period - into } else { Duration::ZERO }
}

impl Service<'_> {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn turn(&mut self, events: &mut Events) -> Result<(), Error> {
        let next_ns = self.due.peek().map(|Reverse((due_ns, _))| *due_ns);
        let wait = next_ns.map_or(TICK, |due_ns| {
            Duration::from_nanos(due_ns.saturating_sub(self.now_ns())).min(TICK)
        });
        self.poll.wait(events, wait)?;
        if let Manner::Freezes { freeze, period } = self.manner {
            std::thread::sleep(frozen_for(self.start.elapsed(), freeze, period));
        }
        for (name, flags) in events.iter() {
            if name == LISTENER {
                self.accept()?;
            } else if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                self.receive(name as usize);
            }
        }
        self.send_due();
        Ok(())
    }

    fn accept(&mut self) -> Result<(), Error> {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() >= CONNECTIONS_MAX {
                continue;
            }
            let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            ready.map_err(|error| Error::io("cannot set up a connection", error))?;
            let fd = OwnedFd::from(stream);
            self.poll.watch(&fd, self.clients.len() as u64, false)?;
            self.clients.push(Some(Client { fd, line: Vec::new() }));
        }
        Ok(())
    }

    /// Takes what a client sent; a whole line is a request. Who breaks the rules is let go.
    fn receive(&mut self, index: usize) {
        let Some(client) = self.clients[index].as_mut() else { return };
        let mut buffer = [0; LINE_BYTES_MAX];
        loop {
            match rustix::net::recv(&client.fd, &mut buffer, RecvFlags::empty()) {
                Ok((bytes, _)) if bytes > 0 => client.line.extend_from_slice(&buffer[..bytes]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                _ => {
                    self.clients[index] = None;
                    return;
                }
            }
            if client.line.len() > LINE_BYTES_MAX {
                self.clients[index] = None;
                return;
            }
        }
        if client.line.ends_with(b"\r\n") {
            let mut delay_ns = 0;
            if client.line.starts_with(b"get ") {
                delay_ns = self.delay().as_nanos() as u64;
                self.account.stated_ns.saturating_record(delay_ns);
            }
            self.due.push(Reverse((self.now_ns() + delay_ns, index)));
        }
    }

    fn delay(&mut self) -> Duration {
        match self.manner {
            Manner::Delays(low, high) => low + (high - low).mul_f64(self.rng.unit()),
            Manner::Freezes { .. } => Duration::ZERO,
        }
    }

    fn send_due(&mut self) {
        while let Some(Reverse((due_ns, index))) = self.due.peek().copied() {
            let now_ns = self.now_ns();
            if due_ns > now_ns {
                return;
            }
            self.due.pop();
            let Some(client) = self.clients[index].as_mut() else { continue };
            self.account.late_ns.saturating_record(now_ns - due_ns);
            let reply = reply(&client.line);
            client.line.clear();
            // A short reply to a client that waits for it always fits; else the client has gone.
            if rustix::net::send(&client.fd, &reply, SendFlags::NOSIGNAL) != Ok(reply.len()) {
                self.clients[index] = None;
            }
        }
    }
}

/// The reply to a line: a hit for a get of one key, an error for anything else.
fn reply(line: &[u8]) -> Vec<u8> {
    let line = line.trim_ascii_end();
    match line.strip_prefix(b"get ") {
        Some(key) if !key.contains(&b' ') => {
            [&b"VALUE "[..], key, b" 0 5\r\nvalue\r\nEND\r\n"].concat()
        }
        _ => b"ERROR\r\n".to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freezes_stand_at_the_end_of_each_period() {
        let ms = Duration::from_millis;
        for (at, left) in [(0, 0), (899, 0), (900, 0), (901, 99), (999, 1), (1_950, 50), (2_000, 0)]
        {
            let frozen = frozen_for(ms(at), ms(100), ms(1_000));
            assert_eq!(frozen, ms(left), "at {at} ms");
        }
    }

    #[test]
    fn only_gets_of_one_key_are_known() {
        assert_eq!(reply(b"get k1\r\n"), b"VALUE k1 0 5\r\nvalue\r\nEND\r\n");
        for line in [&b"get k1 k2\r\n"[..], b"stats\r\n", b"\r\n"] {
            assert_eq!(reply(line), b"ERROR\r\n");
        }
    }
}
