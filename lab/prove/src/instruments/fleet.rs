//! Many connections in step: a fixed amount of work whose every byte is known beforehand.
//!
//! Each round sends one batch on every connection, then reads every reply. The work does not depend
//! on time, so counts of instructions and system calls are the same from run to run. It measures no
//! time: for that, see `generator`.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use super::wire::{Batch, Client};

/// Keys that the work repeats; all of them fit in the smallest pool used.
pub const KEYS: u64 = 4096;
/// Bytes of every value.
pub const VALUE_BYTES: usize = 300;
/// Sets that go out together when the keys are stored first.
const FILL_BATCH: usize = 64;

/// One shape of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What is requested.
    pub verb: Verb,
    /// Requests in flight on one connection.
    pub depth: usize,
}

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A `get` of this many keys.
    Get(usize),
    /// A `set`.
    Set,
}

impl Shape {
    /// The batch of one connection in one round.
    pub fn batch(self, round: u64) -> Batch {
        let mut batch = Batch::default();
        for request in 0..self.depth as u64 {
            let at = round * self.depth as u64 + request;
            match self.verb {
                Verb::Get(keys) => {
                    let first = at * keys as u64;
                    batch.get((first..first + keys as u64).map(|key| key % KEYS), VALUE_BYTES);
                }
                Verb::Set => batch.set(at % KEYS, VALUE_BYTES, 0),
            }
        }
        batch
    }
}

/// The connections.
pub struct Fleet {
    clients: Vec<Client>,
}

impl Fleet {
    /// Connects clients.
    pub fn connect(address: SocketAddr, connections: usize) -> Result<Self> {
        let clients: Result<Vec<Client>> =
            (0..connections).map(|_| Client::connect(address)).collect();
        Ok(Self { clients: clients? })
    }

    /// Stores every key that the work requests.
    pub fn fill(&mut self) -> Result<()> {
        let client = self.clients.first_mut().context("a fleet of no connections")?;
        let mut batch = Batch::default();
        for index in 0..KEYS {
            batch.set(index, VALUE_BYTES, 0);
            if batch.requests == FILL_BATCH || index + 1 == KEYS {
                client.exchange(&batch).context("store the keys")?;
                batch.clear();
            }
        }
        Ok(())
    }

    /// Runs rounds; `check` compares the bytes of the replies, else only their number.
    /// Returns how many requests that was.
    pub fn run(&mut self, shape: Shape, rounds: u64, check: bool) -> Result<u64> {
        let mut requests = 0;
        for round in 0..rounds {
            let batch = shape.batch(round);
            for client in &mut self.clients {
                client.send(&batch.request)?;
            }
            for client in &mut self.clients {
                if check { client.expect(&batch.reply) } else { client.skip(batch.reply.len()) }?;
            }
            requests += (batch.requests * self.clients.len()) as u64;
        }
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_holds_as_many_requests_as_the_depth() {
        let cases = [(Verb::Get(1), 1, 26, 341), (Verb::Set, 16, 16 * 336, 16 * 8)];
        for (verb, depth, request, reply) in cases {
            let batch = Shape { verb, depth }.batch(3);
            assert_eq!(batch.requests, depth);
            assert_eq!((batch.request.len(), batch.reply.len()), (request, reply), "{verb:?}");
        }
    }
}
