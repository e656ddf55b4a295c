//! A cache server whose policy is exact: as much of memcached's text protocol as a replay speaks.
//!
//! It answers `get` of one key, `set`, and the two numbers of `stats` that a replay reads. It holds
//! [`Items`] of one policy; a value comes back as the right number of equal bytes. One thread
//! serves all connections, so operations take effect in the order of their arrival. Bounds: the
//! longest line and the largest value; a client that exceeds one is disconnected.
//!
//! Time is whole seconds since it was made, as in the streams, a little ahead: a second of a
//! stream begins no earlier than the server's own.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;

use crate::listener::{Connections, Listener, TICK, receive, send};
use crate::policy::{Items, charge};
use measure::Target;

/// The longest line and the largest value it reads.
const LINE_BYTES_MAX: usize = 2048;
const VALUE_BYTES_MAX: usize = 1 << 20;
/// Bytes of one `recv`.
const RECV_BYTES: usize = 64 << 10;
/// How far its clock is ahead of the moment it was made.
const AHEAD: Duration = Duration::from_millis(200);

/// A cache whose keys are bytes.
pub type Cache = Items<Box<[u8]>>;

/// Serves `items` on the loopback while `client` runs, and passes the address to it.
pub fn serve<T>(items: Cache, client: impl FnOnce(SocketAddr) -> Result<T>) -> Result<T> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = Listener::bind(&Target::Tcp(any))?;
    let Target::Tcp(address) = *listener.address() else { bail!("the loopback is no TCP") };
    let stop = AtomicBool::new(false);
    let mut double = Double { items, start: Instant::now() };
    thread::scope(|scope| {
        let serving = scope.spawn(|| -> Result<()> {
            let mut connections = Connections::<Bytes>::new(&listener)?;
            while !stop.load(Ordering::Relaxed) {
                connections.wait(TICK)?;
                connections.serve(|_, socket, bytes| double.turn(socket, bytes));
            }
            Ok(())
        });
        let result = client(address);
        stop.store(true, Ordering::Relaxed);
        let served = serving.join().expect("invariant: the double does not panic");
        result.and_then(|result| served.context("serve an exact cache").map(|()| result))
    })
}

/// What a connection has sent and is owed.
#[derive(Default)]
struct Bytes {
    input: Vec<u8>,
    output: Vec<u8>,
}

struct Double {
    items: Cache,
    start: Instant,
}

impl Double {
    /// Receives what is there, answers whole requests, and sends what the socket takes.
    fn turn(&mut self, socket: &OwnedFd, bytes: &mut Bytes) -> Result<(), Errno> {
        let mut buffer = [0; RECV_BYTES];
        loop {
            let received = receive(socket, &mut buffer)?;
            bytes.input.extend_from_slice(&buffer[..received]);
            let mut taken = 0;
            while let Some(more) = self.answer(&bytes.input[taken..], &mut bytes.output)? {
                taken += more;
            }
            bytes.input.drain(..taken);
            let mut sent = 0;
            while sent < bytes.output.len() {
                match send(socket, &bytes.output[sent..])? {
                    0 => break,
                    more => sent += more,
                }
            }
            bytes.output.drain(..sent);
            if received < buffer.len() {
                return Ok(());
            }
        }
    }

    /// Answers the request that `input` begins with, and returns its length; none while it is not
    /// whole. It fails for a client that breaks the rules.
    fn answer(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Option<usize>, Errno> {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            return if input.len() > LINE_BYTES_MAX { Err(Errno::MSGSIZE) } else { Ok(None) };
        };
        let line = input[..end].strip_suffix(b"\r").ok_or(Errno::INVAL)?;
        let now_s = (self.start.elapsed() + AHEAD).as_secs();
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let mut whole = end + 1;
        match words[..] {
            [b"get", key] => {
                if let Some(bytes) = self.items.get(key, now_s) {
                    output.extend([b"VALUE ", key, format!(" 0 {bytes}\r\n").as_bytes()].concat());
                    output.resize(output.len() + bytes, b'v');
                    output.extend_from_slice(b"\r\n");
                }
                output.extend_from_slice(b"END\r\n");
            }
            [b"set", key, _, ttl_s, bytes] => {
                let (ttl_s, bytes) = (number(ttl_s)?, number(bytes)? as usize);
                if bytes > VALUE_BYTES_MAX {
                    return Err(Errno::MSGSIZE);
                }
                whole += bytes + 2;
                if input.len() < whole {
                    return Ok(None);
                }
                let expires_s = if ttl_s == 0 { 0 } else { now_s + ttl_s };
                let charged = charge(key.len(), bytes, ttl_s);
                self.items.set(key.into(), bytes, charged, expires_s, now_s);
                output.extend_from_slice(b"STORED\r\n");
            }
            [b"stats"] => {
                let (items, bytes) = self.items.held();
                let stats = format!("STAT bytes {bytes}\r\nSTAT curr_items {items}\r\nEND\r\n");
                output.extend_from_slice(stats.as_bytes());
            }
            _ => output.extend_from_slice(b"ERROR\r\n"),
        }
        Ok(Some(whole))
    }
}

fn number(word: &[u8]) -> Result<u64, Errno> {
    std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    const SILENT_MAX: Duration = Duration::from_secs(60);

    fn expect(mut stream: &TcpStream, request: &[u8], reply: &[u8]) -> Result<()> {
        stream.write_all(request)?;
        let mut bytes = vec![0; reply.len()];
        stream.read_exact(&mut bytes)?;
        assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(reply));
        Ok(())
    }

    #[test]
    fn it_speaks_what_a_replay_speaks() {
        let items = Items::new(Policy::Fifo, 64);
        serve(items, |address| {
            let client = TcpStream::connect(address)?;
            client.set_read_timeout(Some(SILENT_MAX))?;
            let request = b"get a\r\nset a 0 0 3\r\nxyz\r\nget a\r\nversion\r\n";
            expect(&client, request, b"END\r\nSTORED\r\nVALUE a 0 3\r\nvvv\r\nEND\r\nERROR\r\n")?;
            let large = [&b"set b 0 0 40\r\n"[..], &[b'x'; 40], b"\r\nget a\r\n"].concat();
            expect(&client, &large, b"STORED\r\nEND\r\n")?;
            expect(&client, b"stats\r\n", b"STAT bytes 64\r\nSTAT curr_items 1\r\nEND\r\n")?;
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn what_the_client_fails_with_is_what_is_returned() {
        let items = Items::new(Policy::Lru, 64);
        let error = serve(items, |_| -> Result<()> { bail!("no replay") }).unwrap_err();
        assert_eq!(error.to_string(), "no replay");
    }
}
