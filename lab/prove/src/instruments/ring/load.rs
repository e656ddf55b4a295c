//! A verified load: a client that knows what each of its keys may hold.
//!
//! A key belongs to one client, which sends one request at a time. After a change in doubt a new
//! key takes the place of the old one, which is only read from then on.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::answered::{Answered, Ended};
use super::holds::{Holds, change};
use crate::instruments::wire;
use measure::clock::mono_ns;
use measure::rng::Rng;

/// Time between two requests of a client, at least.
const PACE: Duration = Duration::from_millis(2);
/// Keys of a client.
const KEYS: usize = 1500;
/// Of a hundred requests: reads, and reads or sets; the others are deletes.
const READS: u64 = 40;
const READS_AND_SETS: u64 = 85;
/// Reads that are sent together when all keys are checked.
const BATCH: usize = 64;
/// How long after a refused connection the next is tried.
const AGAIN: Duration = Duration::from_millis(5);

/// A key and what it may hold.
struct Key {
    name: String,
    holds: Holds,
}

impl Key {
    fn judge(&self, value: Option<&[u8]>) -> Ended {
        self.holds.judge_value(&self.name, value)
    }
}

/// A client with its keys.
pub struct Client {
    name: String,
    keys: Vec<Key>,
    in_doubt: Vec<Key>,
    version: u64,
    rng: Rng,
}

impl Client {
    /// A client with keys of its own, none of which is stored.
    pub fn new(number: u64) -> Self {
        let name = format!("load-{number}");
        let key = |nth: usize| Key { name: format!("{name}-{nth}"), holds: Holds::default() };
        let keys = (0..KEYS).map(key).collect();
        Self { name, keys, in_doubt: Vec::new(), version: 0, rng: Rng::new(number, 0) }
    }

    /// Sends requests to a cell until `stops`.
    pub fn run(&mut self, target: SocketAddr, stops: &AtomicBool) -> Vec<Answered> {
        let (mut seen, mut connection) = (Vec::new(), None);
        let mut next = Instant::now();
        while !stops.load(Ordering::Relaxed) {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            next = Instant::now() + PACE;
            let Some(client) = connection.as_mut() else {
                connection = wire::Client::connect(target).ok();
                next = Instant::now() + AGAIN;
                continue;
            };
            let sent_ns = mono_ns();
            let ended = self.request(client).unwrap_or(Ended::Closed);
            if ended == Ended::Closed {
                connection = None;
            }
            seen.push(Answered { sent_ns, done_ns: mono_ns(), ended });
        }
        seen
    }

    /// Reads all keys through a cell.
    pub fn check(&self, target: SocketAddr) -> Result<Vec<Ended>> {
        let mut client = wire::Client::connect(target)?;
        let keys: Vec<&Key> = self.keys.iter().chain(&self.in_doubt).collect();
        let mut found = Vec::with_capacity(keys.len());
        for batch in keys.chunks(BATCH) {
            let requests: String =
                batch.iter().map(|key| format!("get {}\r\n", key.name)).collect();
            client.send(requests.as_bytes())?;
            for key in batch {
                found.push(client.got()?.map_or_else(
                    |line| Ended::of_error(&line),
                    |value| key.judge(value.as_deref()),
                ));
            }
        }
        Ok(found)
    }

    /// One request; an error closes the connection.
    fn request(&mut self, client: &mut wire::Client) -> Result<Ended> {
        let nth = self.rng.below(KEYS as u64) as usize;
        let kind = self.rng.below(100);
        let key = &self.keys[nth];
        if kind < READS {
            client.send(format!("get {}\r\n", key.name).as_bytes())?;
            return Ok(match client.got()? {
                Ok(value) => key.judge(value.as_deref()),
                Err(line) => Ended::of_error(&line),
            });
        }
        let is_set = kind < READS_AND_SETS;
        self.version += u64::from(is_set);
        let to = is_set.then_some(self.version);
        let request = change(&key.name, to);
        let line = client.send(request.as_bytes()).and_then(|()| client.line());
        Ok(self.changed(nth, to, line.ok().as_deref()))
    }

    /// Takes over what a change was answered; nothing where the connection was closed.
    fn changed(&mut self, nth: usize, to: Option<u64>, line: Option<&str>) -> Ended {
        let key = &mut self.keys[nth];
        let ended = key.holds.judge_change(to, line);
        match ended {
            Ended::Refused => {}
            Ended::InDoubt | Ended::Closed => {
                self.version += 1;
                let name = format!("{}-{nth}-{}", self.name, self.version);
                let fresh = Key { name, holds: Holds::default() };
                let mut old = std::mem::replace(key, fresh);
                old.holds.doubt = Some(to);
                self.in_doubt.push(old);
            }
            _ => key.holds.sure = to,
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client { keys: Client::new(1).keys.into_iter().take(1).collect(), ..Client::new(1) }
    }

    #[test]
    fn a_change_in_doubt_retires_its_key() {
        let mut client = client();
        assert_eq!(client.changed(0, Some(1), Some("STORED")), Ended::Well);
        assert_eq!(client.changed(0, Some(2), Some("SERVER_ERROR no lease")), Ended::Refused);
        assert_eq!(client.keys[0].holds.sure, Some(1));
        assert_eq!(client.changed(0, None, None), Ended::Closed);
        assert_eq!(client.keys[0].holds, Holds::default());
        assert_eq!(client.in_doubt[0].holds, Holds { sure: Some(1), doubt: Some(None) });
        assert_eq!(client.changed(0, None, Some("DELETED")), Ended::Resurrected);
        assert_eq!(client.changed(0, None, Some("NOT_FOUND")), Ended::Well);
        client.changed(0, Some(3), Some("STORED"));
        assert_eq!(client.changed(0, None, Some("NOT_FOUND")), Ended::Lost);
    }
}
