//! A cache server whose policy is exact: as much of memcached's text protocol as a replay speaks.
//!
//! It answers `get` of one key, `set`, and the two numbers of `stats` that a replay looks at. What
//! it holds is `policy::Items`; values come back as so many equal bytes. Time is whole seconds
//! since it was made, as in the streams, a little ahead: a stream's second begins no earlier than
//! its own.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::policy::Items;

/// Longest a client may be silent.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// Connections it takes in its life: that of the replay and those of its looks at `stats`.
const CONNECTIONS_MAX: usize = 64;
/// The longest line and the largest value it reads.
const LINE_BYTES_MAX: u64 = 2048;
const VALUE_BYTES_MAX: usize = 1 << 20;
/// How far its clock is ahead of the moment it was made.
const AHEAD: Duration = Duration::from_millis(200);

/// Serves `items` on the loopback while `client` runs, which is told where.
pub fn serve<T>(items: Items, client: impl FnOnce(SocketAddr) -> Result<T>) -> Result<T> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("bind a loopback port")?;
    let address = listener.local_addr()?;
    let stop = AtomicBool::new(false);
    let double = Double { items: Mutex::new(items), start: Instant::now() };
    thread::scope(|scope| {
        let accepting = scope.spawn(|| -> Result<()> {
            for stream in listener.incoming().take(CONNECTIONS_MAX) {
                let stream = stream.context("accept")?;
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let double = &double;
                scope.spawn(move || double.attend(&stream));
            }
            bail!("more than {CONNECTIONS_MAX} connections")
        });
        let result = client(address);
        stop.store(true, Ordering::Relaxed);
        // Wakes whoever accepts; where it has ended already, nobody listens.
        drop(TcpStream::connect_timeout(&address, SILENT_MAX));
        let accepted = accepting.join().expect("invariant: the double does not panic");
        result.and_then(|result| accepted.map(|()| result))
    })
}

struct Double {
    items: Mutex<Items>,
    start: Instant,
}

impl Double {
    /// Serves one connection until it ends; a broken one is its client's to report.
    fn attend(&self, stream: &TcpStream) {
        let _ = self.answer_all(stream);
    }

    fn answer_all(&self, stream: &TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENT_MAX))?;
        stream.set_write_timeout(Some(SILENT_MAX))?;
        let (mut input, mut output) = (BufReader::new(stream), Vec::new());
        let (mut line, mut value) = (Vec::new(), Vec::new());
        loop {
            // Replies leave when no whole request is at hand.
            if !input.buffer().contains(&b'\n') && !output.is_empty() {
                (&*stream).write_all(&output)?;
                output.clear();
            }
            line.clear();
            (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            let Some(said) = line.strip_suffix(b"\r\n") else { return Ok(()) };
            let words: Vec<&[u8]> = said.split(|byte| *byte == b' ').collect();
            match words[..] {
                [b"get", key] => self.get(key, &mut output),
                [b"set", key, _, ttl_s, bytes] => {
                    let (ttl_s, bytes) = (number(ttl_s)?, number(bytes)? as usize);
                    if bytes > VALUE_BYTES_MAX {
                        bail!("a value of {bytes} bytes, at most {VALUE_BYTES_MAX}");
                    }
                    value.resize(bytes + 2, 0);
                    // A value may be larger than what is buffered: nobody waits for replies then.
                    input.read_exact(&mut value)?;
                    self.lock().set(key, bytes, ttl_s, self.now_s());
                    output.extend_from_slice(b"STORED\r\n");
                }
                [b"stats"] => {
                    let (items, bytes) = self.lock().held();
                    write!(output, "STAT bytes {bytes}\r\nSTAT curr_items {items}\r\nEND\r\n")?;
                }
                _ => output.extend_from_slice(b"ERROR\r\n"),
            }
        }
    }

    fn get(&self, key: &[u8], output: &mut Vec<u8>) {
        if let Some(bytes) = self.lock().get(key, self.now_s()) {
            output.extend_from_slice(b"VALUE ");
            output.extend_from_slice(key);
            output.extend_from_slice(format!(" 0 {bytes}\r\n").as_bytes());
            output.resize(output.len() + bytes, b'v');
            output.extend_from_slice(b"\r\n");
        }
        output.extend_from_slice(b"END\r\n");
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Items> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_s(&self) -> u64 {
        (self.start.elapsed() + AHEAD).as_secs()
    }
}

fn number(word: &[u8]) -> Result<u64> {
    let text = String::from_utf8_lossy(word);
    text.parse().with_context(|| format!("{text:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

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
