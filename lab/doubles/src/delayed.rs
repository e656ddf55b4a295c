//! A server whose delays are stated: what the generator reports of it can be checked.
//!
//! ```text
//! get arrives --- due = now + stated delay ---> heap by due time ---> reply at that time
//!             frozen: nothing is read or sent until the freeze is over
//! ```
//!
//! It answers every get with a short value, one request at a time on a connection, and anything
//! else at once with an error. Its account holds the delays that it stated and how late it was
//! itself, so that a busy machine is distinguished from a generator that reports wrong figures.
//! Invariant: a connection has at most one reply in the heap, for a second request before the
//! first reply closes it. Times are nanoseconds since the start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::io::Errno;

use crate::listener::{Connections, Listener, TICK, receive, send};
use measure::rng::Rng;
use measure::{Error, Target};

/// The longest request line.
const LINE_BYTES_MAX: usize = 512;

/// The longest delay recorded, in nanoseconds.
const DELAY_MAX_NS: u64 = 3_600_000_000_000;

/// How the double delays its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Every reply is delayed by a time drawn evenly from this range.
    Delays(Duration, Duration),
    /// It freezes for the first time at the end of each period of the second.
    Freezes {
        /// How long a freeze lasts.
        freeze: Duration,
        /// From the beginning of a freeze to the next.
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
    listener: Listener,
    manner: Manner,
}

/// Replies that wait for their due time, and the account of those that were sent.
struct Service {
    manner: Manner,
    /// Due times, each with the name of its connection.
    due: BinaryHeap<Reverse<(u64, u64)>>,
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
        Ok(Self { listener: Listener::bind(&"127.0.0.1:0".parse()?)?, manner })
    }

    /// Where it listens.
    #[must_use]
    pub fn target(&self) -> &Target {
        self.listener.address()
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// When a system call fails that clients cannot make fail.
    pub fn serve(&self, seed: u64, stop: &AtomicBool) -> Result<Account, Error> {
        // Replies leave when they are due; the default slack would add up to 50 us.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let histogram =
            || Histogram::new_with_bounds(1, DELAY_MAX_NS, 3).expect("invariant: valid bounds");
        let mut service = Service {
            manner: self.manner,
            due: BinaryHeap::new(),
            rng: Rng::new(seed, 0),
            start: Instant::now(),
            account: Account { stated_ns: histogram(), late_ns: histogram() },
        };
        let mut connections = Connections::<Vec<u8>>::new(&self.listener)?;
        while !stop.load(Ordering::Relaxed) {
            connections.wait(service.wait())?;
            if let Manner::Freezes { freeze, period } = self.manner {
                std::thread::sleep(frozen_for(service.start.elapsed(), freeze, period));
            }
            connections.serve(|name, socket, line| service.receive(name, socket, line));
            service.send_due(&mut connections);
        }
        Ok(service.account)
    }
}

/// How long the double is frozen from `at` on: it freezes at the end of each period.
fn frozen_for(at: Duration, freeze: Duration, period: Duration) -> Duration {
    let into = Duration::from_nanos((at.as_nanos() % period.as_nanos().max(1)) as u64);
    if into + freeze > period { period - into } else { Duration::ZERO }
}

impl Service {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The time until the next reply is due.
    fn wait(&self) -> Duration {
        let next = self.due.peek().map(|Reverse((due_ns, _))| due_ns.saturating_sub(self.now_ns()));
        next.map_or(TICK, |wait_ns| Duration::from_nanos(wait_ns).min(TICK))
    }

    /// Takes what a client sent; a whole line is a request. It fails for a line that is too long.
    fn receive(&mut self, name: u64, socket: &OwnedFd, line: &mut Vec<u8>) -> Result<(), Errno> {
        let mut buffer = [0; LINE_BYTES_MAX];
        let waiting = line.ends_with(b"\r\n");
        loop {
            match receive(socket, &mut buffer)? {
                0 => break,
                bytes if waiting || line.len() + bytes > LINE_BYTES_MAX => {
                    return Err(Errno::MSGSIZE);
                }
                bytes => line.extend_from_slice(&buffer[..bytes]),
            }
        }
        if line.ends_with(b"\r\n") && !waiting {
            let mut delay_ns = 0;
            if line.starts_with(b"get ") {
                delay_ns = self.delay().as_nanos() as u64;
                self.account.stated_ns.saturating_record(delay_ns);
            }
            self.due.push(Reverse((self.now_ns() + delay_ns, name)));
        }
        Ok(())
    }

    fn delay(&mut self) -> Duration {
        match self.manner {
            Manner::Delays(low, high) => low + (high - low).mul_f64(self.rng.unit()),
            Manner::Freezes { .. } => Duration::ZERO,
        }
    }

    fn send_due(&mut self, connections: &mut Connections<'_, Vec<u8>>) {
        while let Some(Reverse((due_ns, name))) = self.due.peek().copied() {
            let now_ns = self.now_ns();
            if due_ns > now_ns {
                return;
            }
            self.due.pop();
            let Some((socket, line)) = connections.get(name) else { continue };
            self.account.late_ns.saturating_record(now_ns - due_ns);
            // A short reply to a client that waits for it always fits. If the connection has
            // failed, its next event closes it.
            let _ = send(socket, &reply(line));
            line.clear();
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
