//! The floor for a server: fixed bytes are answered by fixed bytes.
//!
//! One epoll loop; per readable event one `recv` and one `send`; no parser, no store. It counts
//! requests by dividing the bytes received by the size of one. What a real server costs above
//! this is its own work; what this costs is the kernel's. It never looks at a byte of a request.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::fixed::{Messages, Moved, Progress, cpu_s};
use crate::listener::{Connections, Listener, TICK};
use measure::{Error, Target};

/// Bytes of one `recv`.
const RECV_BYTES: usize = 64 << 10;
/// Bytes of replies kept ready, so that a batch is one `send`.
const READY_BYTES: usize = 4 << 20;
/// The largest request or reply.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

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
    /// Serves until `stop` is set; returns what was served, as JSON.
    ///
    /// # Errors
    /// When the reply cannot be read, or as [`NullServer::bind`] and [`NullServer::serve`].
    pub fn carry_out(&self, stop: &AtomicBool, screen: &mut dyn Write) -> Result<String, Error> {
        let reply = match (&self.reply, self.reply_bytes) {
            (Some(path), _) => std::fs::read(path)
                .map_err(|error| Error::io(format!("cannot read {}", path.display()), error))?,
            (None, bytes) => vec![b'x'; bytes.unwrap_or(0).min(MESSAGE_BYTES_MAX + 1)],
        };
        let server = NullServer::bind(&self.listen, self.request_bytes, &reply)?;
        // The program that started this one reads the port from this line.
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
    /// CPU time of the thread that served, until the stop.
    pub cpu_s: f64,
}

/// A bound null server.
pub struct NullServer {
    listener: Listener,
    messages: Messages,
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
        let ready = reply.repeat((READY_BYTES / reply.len()).max(1));
        let (incoming_bytes, outgoing_bytes) = (request_bytes, reply.len());
        let messages = Messages { incoming_bytes, outgoing_bytes, ready };
        Ok(Self { listener: Listener::bind(listen)?, messages })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &Target {
        self.listener.address()
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// When epoll fails; a connection that fails is closed.
    pub fn serve(&self, stop: &AtomicBool) -> Result<Served, Error> {
        let mut connections = Connections::<Progress>::new(&self.listener)?;
        let (mut buffer, mut moved) = (vec![0; RECV_BYTES], Moved::default());
        while !stop.load(Ordering::Relaxed) {
            connections.wait(TICK)?;
            connections.serve(|_, socket, progress| {
                self.messages.turn(socket, progress, &mut buffer, &mut moved)
            });
        }
        let Moved { messages: requests, recvs, sends } = moved;
        Ok(Served { requests, recvs, sends, cpu_s: cpu_s() })
    }
}
