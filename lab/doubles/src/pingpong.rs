//! The floor for the generator: fixed bytes sent, fixed bytes awaited, nothing looked at.
//!
//! The same loop as the generator's (one `recv` and one `send` per readable event) without
//! workload, parser, check or latency. What the generator costs above this is its own doing.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use measure::poll::{Events, Poll};
use measure::{Error, Target};

/// Bytes of one `recv`.
const RECV_BYTES: usize = 128 << 10;
/// The most connections.
const CONNECTIONS_MAX: usize = 1_000;
/// The most bytes of all requests of one connection together, so that a send never blocks long.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Longest sleep, so that a stop is noticed.
const TICK: Duration = Duration::from_millis(50);

/// Settings of `load ping-pong`.
#[derive(Clone, Debug, clap::Args)]
pub struct PingPongArgs {
    /// The server: HOST:PORT or unix:PATH.
    #[arg(long)]
    pub target: Target,
    /// Size of one request, filled with any byte.
    #[arg(long, required_unless_present = "request", conflicts_with = "request")]
    pub request_bytes: Option<usize>,
    /// A request line to send instead, its line end added.
    #[arg(long)]
    pub request: Option<String>,
    /// Size of one reply.
    #[arg(long)]
    pub reply_bytes: usize,
    /// Connections.
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Unanswered requests per connection.
    #[arg(long, default_value_t = 1)]
    pub pipeline: usize,
    /// Seconds to run.
    #[arg(long, default_value_t = 5.0)]
    pub duration_s: f64,
}

/// What a ping-pong found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Played {
    /// Whole replies received.
    pub requests: u64,
    /// How long it took.
    pub window_s: f64,
    /// CPU time of this process in that time.
    pub cpu_s: f64,
    /// The same per reply.
    pub cpu_us_per_request: f64,
}

struct Peer {
    fd: OwnedFd,
    /// Bytes of a reply that is not whole.
    part_bytes: usize,
    /// Bytes of requests that the kernel had no room for.
    owed_bytes: usize,
}

/// Counts whole messages of `message_bytes` when `bytes` more have come; the rest stays in
/// `part_bytes`.
pub(crate) fn whole_messages(part_bytes: &mut usize, bytes: usize, message_bytes: usize) -> usize {
    let total = *part_bytes + bytes;
    *part_bytes = total % message_bytes;
    total / message_bytes
}

/// CPU time of this process, in seconds.
pub(crate) fn process_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl PingPongArgs {
    /// Carries the command out until `stop` is set.
    ///
    /// # Errors
    /// As `serve` and `play`.
    pub fn carry_out(&self, stop: &AtomicBool) -> Result<String, Error> {
        let played = self.play(stop)?;
        Ok(serde_json::to_string(&played).expect("numbers always serialise"))
    }

    /// All requests of one connection in flight, as one run of bytes.
    fn batch(&self) -> Result<(Vec<u8>, usize), Error> {
        let request = match (&self.request, self.request_bytes) {
            (Some(line), _) => format!("{line}\r\n").into_bytes(),
            (None, bytes) => vec![b'x'; bytes.unwrap_or(0)],
        };
        let batch_bytes = request.len().saturating_mul(self.pipeline);
        if batch_bytes == 0 || batch_bytes > BATCH_BYTES_MAX || self.reply_bytes == 0 {
            return Err(Error::Setting(format!(
                "requests of {} bytes, {} deep, replies of {} bytes: all must be above 0 and a \
                 batch of requests at most {BATCH_BYTES_MAX} bytes",
                request.len(),
                self.pipeline,
                self.reply_bytes
            )));
        }
        Ok((request.repeat(self.pipeline), request.len()))
    }

    /// Plays until the time is over or `stop` is set.
    ///
    /// # Errors
    /// When a setting is out of range, or the server cannot be reached or goes away.
    pub fn play(&self, stop: &AtomicBool) -> Result<Played, Error> {
        if self.connections == 0 || self.connections > CONNECTIONS_MAX {
            let text = format!("--connections: choose from 1 to {CONNECTIONS_MAX}");
            return Err(Error::Setting(text));
        }
        let duration = Duration::try_from_secs_f64(self.duration_s).map_err(|error| {
            Error::Setting(format!("--duration-s {}: {error}", self.duration_s))
        })?;
        let (batch, request_bytes) = self.batch()?;
        let (poll, mut events) = (Poll::new()?, Events::new());
        let mut peers = Vec::with_capacity(self.connections);
        for index in 0..self.connections {
            let fd = self.target.connect()?;
            poll.watch(&fd, index as u64, true)?;
            peers.push(Peer { fd, part_bytes: 0, owed_bytes: batch.len() });
        }
        let (start, cpu_from_s) = (Instant::now(), process_cpu_s());
        let mut buffer = vec![0; RECV_BYTES];
        let mut requests = 0;
        while !stop.load(Ordering::Relaxed) && start.elapsed() < duration {
            poll.wait(&mut events, TICK)?;
            for (name, _) in events.iter() {
                let peer = &mut peers[name as usize];
                requests += self
                    .turn(peer, &mut buffer, &batch, request_bytes)
                    .map_err(|errno| Error::io(format!("lost {}", self.target), errno))?;
            }
        }
        let (window_s, cpu_s) = (start.elapsed().as_secs_f64(), process_cpu_s() - cpu_from_s);
        let cpu_us_per_request = cpu_s * 1e6 / (requests as f64).max(1.0);
        Ok(Played { requests, window_s, cpu_s, cpu_us_per_request })
    }

    /// Receives what is there and asks as many again.
    fn turn(
        &self,
        peer: &mut Peer,
        buffer: &mut [u8],
        batch: &[u8],
        request_bytes: usize,
    ) -> Result<u64, Errno> {
        let mut replies = 0;
        loop {
            let received = match rustix::net::recv(&peer.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Errno::PIPE),
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN) => 0,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            let whole = whole_messages(&mut peer.part_bytes, received, self.reply_bytes);
            replies += whole as u64;
            peer.owed_bytes += whole * request_bytes;
            if received < buffer.len() {
                break;
            }
        }
        while peer.owed_bytes > 0 {
            // The batch ends with whole requests, so a rest is sent from its end.
            let rest = peer.owed_bytes.min(batch.len());
            match rustix::net::send(&peer.fd, &batch[batch.len() - rest..], SendFlags::NOSIGNAL) {
                Ok(bytes) => peer.owed_bytes -= bytes,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null_server::NullServer;
    use std::sync::Arc;

    #[test]
    fn messages_are_counted_across_cuts() {
        let mut part_bytes = 0;
        let counts: Vec<usize> = [3, 4, 1, 14]
            .map(|bytes| whole_messages(&mut part_bytes, bytes, 7))
            .into_iter()
            .collect();
        assert_eq!((counts, part_bytes), (vec![0, 1, 0, 2], 1));
    }

    #[test]
    fn the_floor_plays_with_itself() {
        let server = NullServer::bind(&"127.0.0.1:0".parse().unwrap(), 26, &[b'x'; 340]).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let target = server.address().clone();
        let served = std::thread::scope(|scope| {
            let handle = scope.spawn(|| server.serve(&stop));
            for pipeline in [1, 16] {
                let args = PingPongArgs {
                    target: target.clone(),
                    request_bytes: Some(26),
                    request: None,
                    reply_bytes: 340,
                    connections: 3,
                    pipeline,
                    duration_s: 0.1,
                };
                let played = args.play(&AtomicBool::new(false)).unwrap();
                assert!(played.requests > 0 && played.cpu_s > 0.0, "{played:?}");
            }
            stop.store(true, Ordering::Relaxed);
            handle.join().unwrap().unwrap()
        });
        assert!(served.requests > 0 && served.sends <= served.recvs, "{served:?}");
    }

    #[test]
    fn impossible_settings_are_named() {
        let any = "127.0.0.1:0".parse().unwrap();
        let too_large = vec![0; (1 << 20) + 1];
        for (request_bytes, reply) in [(0, &[1][..]), (1, &[]), (1, &too_large)] {
            assert!(NullServer::bind(&any, request_bytes, reply).is_err());
        }
    }
}
