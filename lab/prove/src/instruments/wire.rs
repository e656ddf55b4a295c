//! A client of memcached's text protocol, just large enough to measure a server.
//!
//! `Batch` is some requests and the exact bytes that must come back: comparing them proves that the
//! server did the work. Every read has a deadline. It shares no code with `load`, whose honesty it
//! checks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};

/// Longest a reply may take, instruments included.
const REPLY_MAX: Duration = Duration::from_secs(60);
/// How a dump ends.
const DUMP_END: &[u8] = b"\nEND\r\n";
/// Bytes of every key.
pub const KEY_BYTES: usize = 20;

/// Requests that go out together and the reply they must get.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The bytes to send.
    pub request: Vec<u8>,
    /// The bytes that must come back.
    pub reply: Vec<u8>,
    /// How many requests they are.
    pub requests: usize,
}

impl Batch {
    /// Adds a `get` of several keys, all of them present.
    pub fn get(&mut self, keys: impl IntoIterator<Item = u64>, value_bytes: usize) {
        self.request.extend_from_slice(b"get");
        for index in keys {
            let key = key(index);
            self.request.push(b' ');
            self.request.extend_from_slice(key.as_bytes());
            self.reply.extend_from_slice(format!("VALUE {key} 0 {value_bytes}\r\n").as_bytes());
            self.reply.extend(value(index, value_bytes));
            self.reply.extend_from_slice(b"\r\n");
        }
        self.request.extend_from_slice(b"\r\n");
        self.reply.extend_from_slice(b"END\r\n");
        self.requests += 1;
    }

    /// Adds a `set`.
    pub fn set(&mut self, index: u64, value_bytes: usize, ttl_s: u32) {
        let key = key(index);
        let head = format!("set {key} 0 {ttl_s} {value_bytes}\r\n");
        self.request.extend_from_slice(head.as_bytes());
        self.request.extend(value(index, value_bytes));
        self.request.extend_from_slice(b"\r\n");
        self.reply.extend_from_slice(b"STORED\r\n");
        self.requests += 1;
    }

    /// Empties it, keeping its room.
    pub fn clear(&mut self) {
        self.request.clear();
        self.reply.clear();
        self.requests = 0;
    }
}

/// The key of an index: as long as every other.
pub fn key(index: u64) -> String {
    format!("k{index:0width$}", width = KEY_BYTES - 1)
}

/// The value of an index: printable, different from its neighbours'.
fn value(index: u64, bytes: usize) -> impl Iterator<Item = u8> {
    (0..bytes as u64).map(move |at| b'a' + ((index.wrapping_mul(31) + at) % 26) as u8)
}

/// One connection.
pub struct Client {
    stream: BufReader<TcpStream>,
    scratch: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, REPLY_MAX)
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_MAX))?;
        stream.set_write_timeout(Some(REPLY_MAX))?;
        Ok(Self { stream: BufReader::new(stream), scratch: Vec::new() })
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes).context("send a request")
    }

    /// Reads as many bytes as expected and compares them.
    pub fn expect(&mut self, expected: &[u8]) -> Result<()> {
        self.skip(expected.len())?;
        if self.scratch == expected {
            return Ok(());
        }
        let at = self.scratch.iter().zip(expected).position(|(got, want)| got != want);
        let from = at.unwrap_or(0).saturating_sub(20);
        let shown = |bytes: &[u8]| {
            String::from_utf8_lossy(&bytes[from..bytes.len().min(from + 60)]).into_owned()
        };
        bail!("a wrong reply: {:?}, not {:?}", shown(&self.scratch), shown(expected))
    }

    /// Reads a number of bytes, whatever they are.
    pub fn skip(&mut self, bytes: usize) -> Result<()> {
        self.scratch.resize(bytes, 0);
        self.stream.read_exact(&mut self.scratch).context("read a reply")
    }

    /// Reads a block of data and the end of its line.
    pub fn block(&mut self, bytes: usize) -> Result<Vec<u8>> {
        self.skip(bytes + 2)?;
        Ok(self.scratch[..bytes].to_vec())
    }

    /// Reads a number of bytes.
    pub fn exactly(&mut self, bytes: usize) -> Result<Vec<u8>> {
        self.skip(bytes)?;
        Ok(self.scratch.clone())
    }

    /// Reads a line, without its ending.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).context("read a line")? == 0 {
            bail!("the server closed the connection");
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Sends a command whose reply is `OK`.
    pub fn command(&mut self, command: &str) -> Result<()> {
        self.send(format!("{command}\r\n").as_bytes())?;
        match self.line()?.as_str() {
            "OK" => Ok(()),
            other => bail!("`{command}` was answered {other:?}"),
        }
    }

    /// Reads what a `get` of one key is answered: its value, nothing, or the line of an error.
    pub fn got(&mut self) -> Result<Result<Option<Vec<u8>>, String>> {
        let line = self.line()?;
        if line == "END" {
            return Ok(Ok(None));
        }
        let Some(words) = line.strip_prefix("VALUE ") else { return Ok(Err(line)) };
        let bytes: usize = words.split(' ').nth(2).unwrap_or_default().parse()?;
        let value = self.block(bytes)?;
        match self.line()?.as_str() {
            "END" => Ok(Ok(Some(value))),
            other => bail!("a value is followed by {other:?}"),
        }
    }

    /// Reads lines whatever they are.
    pub fn lines(&mut self, count: usize) -> Result<()> {
        let mut line = Vec::new();
        for _ in 0..count {
            line.clear();
            if self.stream.read_until(b'\n', &mut line).context("read a line")? == 0 {
                bail!("the server closed the connection");
            }
        }
        Ok(())
    }

    /// Reads the lines of a dump up to its end; how many bytes they were.
    pub fn dumped(&mut self) -> Result<u64> {
        let (mut bytes, mut last) = (0, Vec::new());
        loop {
            let chunk = self.stream.fill_buf().context("read a dump")?;
            if chunk.is_empty() {
                bail!("the server closed the connection in a dump");
            }
            // A key is written without ends of lines: only the end of the dump is such a line.
            let kept = chunk.len().min(DUMP_END.len());
            last.extend_from_slice(&chunk[chunk.len() - kept..]);
            last.drain(..last.len().saturating_sub(DUMP_END.len()));
            let taken = chunk.len();
            bytes += taken as u64;
            self.stream.consume(taken);
            if last == DUMP_END {
                return Ok(bytes);
            }
        }
    }

    /// Sends a batch and checks its reply.
    pub fn exchange(&mut self, batch: &Batch) -> Result<()> {
        self.send(&batch.request)?;
        self.expect(&batch.reply)
    }

    /// The server's `stats`.
    pub fn stats(&mut self) -> Result<BTreeMap<String, String>> {
        self.stats_of("stats")
    }

    /// What the server answers to a command of statistics.
    pub fn stats_of(&mut self, command: &str) -> Result<BTreeMap<String, String>> {
        self.send(format!("{command}\r\n").as_bytes())?;
        let mut stats = BTreeMap::new();
        loop {
            let line = self.line()?;
            let mut words = line.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("END"), None, None) => return Ok(stats),
                (Some("STAT"), Some(name), value) => {
                    stats.insert(name.to_owned(), value.unwrap_or_default().to_owned());
                }
                _ => bail!("`{command}` answered {line:?}"),
            }
        }
    }

    /// Which driver serves, as our server reports it: not always the one that was requested.
    pub fn driver(&mut self) -> Result<String> {
        let mut settings = self.stats_of("stats settings")?;
        settings.remove("driver").context("`stats settings` names no driver")
    }

    /// One number of the server's `stats`.
    pub fn stat(&mut self, name: &str) -> Result<u64> {
        let stats = self.stats()?;
        let value = stats.get(name).with_context(|| format!("`stats` has no {name}"))?;
        value.parse().with_context(|| format!("`stats` says {name} is {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_what_a_server_reads_and_writes() {
        let mut batch = Batch::default();
        batch.set(7, 3, 60);
        batch.get([7], 3);
        let request = "set k0000000000000000007 0 60 3\r\njkl\r\nget k0000000000000000007\r\n";
        assert_eq!(String::from_utf8_lossy(&batch.request), request);
        let reply = "STORED\r\nVALUE k0000000000000000007 0 3\r\njkl\r\nEND\r\n";
        assert_eq!(String::from_utf8_lossy(&batch.reply), reply);
        assert_eq!(batch.requests, 2);
        assert_eq!(key(u64::from(u32::MAX)).len(), KEY_BYTES);
    }
}
