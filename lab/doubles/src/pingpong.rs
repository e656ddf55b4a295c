//! The floor for the generator: it sends fixed bytes and counts the bytes that come back.
//!
//! The same loop as the generator's (one `recv` and one `send` per readable event) without
//! workload, parser, check or latency. What the generator costs above this is its own work. It
//! never looks at a byte of a reply. Every connection keeps `pipeline` requests in flight.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::fixed::{Messages, Moved, Progress, cpu_s};
use crate::listener::TICK;
use measure::poll::{Events, Poll};
use measure::{Error, Target};

/// Bytes of one `recv`.
const RECV_BYTES: usize = 128 << 10;
/// The most connections.
const CONNECTIONS_MAX: usize = 1_000;
/// The most bytes of all requests of one connection together, so that a send never blocks long.
const BATCH_BYTES_MAX: usize = 1 << 20;

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
    /// CPU time of the thread that played, in that time.
    pub cpu_s: f64,
    /// The same per reply.
    pub cpu_us_per_request: f64,
}

impl PingPongArgs {
    /// Plays until the time is over or `stop` is set; returns what was found, as JSON.
    ///
    /// # Errors
    /// As [`PingPongArgs::play`].
    pub fn carry_out(&self, stop: &AtomicBool) -> Result<String, Error> {
        let played = self.play(stop)?;
        Ok(serde_json::to_string(&played).expect("numbers always serialise"))
    }

    /// All requests that one connection has in flight, and the lengths of both messages.
    fn messages(&self) -> Result<Messages, Error> {
        let request = match (&self.request, self.request_bytes) {
            (Some(line), _) => format!("{line}\r\n").into_bytes(),
            (None, bytes) => vec![b'x'; bytes.unwrap_or(0)],
        };
        let (outgoing_bytes, incoming_bytes) = (request.len(), self.reply_bytes);
        let batch_bytes = outgoing_bytes.saturating_mul(self.pipeline);
        if batch_bytes == 0 || batch_bytes > BATCH_BYTES_MAX || incoming_bytes == 0 {
            return Err(Error::Setting(format!(
                "requests of {outgoing_bytes} bytes, {} deep, replies of {incoming_bytes} bytes: \
                 choose all above 0 and a batch of requests of at most {BATCH_BYTES_MAX} bytes",
                self.pipeline
            )));
        }
        Ok(Messages { incoming_bytes, outgoing_bytes, ready: request.repeat(self.pipeline) })
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
        let messages = self.messages()?;
        let (poll, mut events) = (Poll::new()?, Events::new());
        let mut connections = Vec::with_capacity(self.connections);
        for index in 0..self.connections {
            let socket = self.target.connect()?;
            poll.watch(&socket, index as u64, true)?;
            connections.push((socket, Progress::owing(messages.ready.len())));
        }
        let (start, cpu_from_s) = (Instant::now(), cpu_s());
        let (mut buffer, mut moved) = (vec![0; RECV_BYTES], Moved::default());
        while !stop.load(Ordering::Relaxed) && start.elapsed() < duration {
            poll.wait(&mut events, TICK)?;
            for (name, _) in events.iter() {
                let (socket, progress) = &mut connections[name as usize];
                messages
                    .turn(socket, progress, &mut buffer, &mut moved)
                    .map_err(|errno| Error::io(format!("lost {}", self.target), errno))?;
            }
        }
        let (window_s, cpu_s) = (start.elapsed().as_secs_f64(), cpu_s() - cpu_from_s);
        let requests = moved.messages;
        let cpu_us_per_request = cpu_s * 1e6 / (requests as f64).max(1.0);
        Ok(Played { requests, window_s, cpu_s, cpu_us_per_request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null_server::NullServer;
    use std::sync::Arc;

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
