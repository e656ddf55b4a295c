//! One connection to a cell, in memcached's text protocol. Every wait has a deadline, and every
//! line and report a limit.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Bytes of a line: a key of 250 bytes in URI encoding, and more than the facts about it.
const LINE_BYTES_MAX: usize = 4 << 10;
/// Lines of a report: four for each of 4,096 cells, and as many again for ranges and copies.
const REPORT_LINES_MAX: usize = 256 << 10;

/// Why a cell has not answered.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The address means nothing.
    Address(io::Error),
    /// There is no connection.
    Io(io::Error),
    /// The time is over.
    Late(Duration),
    /// It closed the connection.
    Closed,
    /// A line or a report is longer than any that a cell sends.
    TooLong,
    /// An error line, or one that makes no sense here.
    Line(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => write!(f, "{error}; expected HOST:PORT"),
            Self::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
                f.write_str("connection refused")
            }
            Self::Io(error) => error.fmt(f),
            Self::Late(timeout) => {
                write!(f, "nothing within {} s (--timeout)", timeout.as_secs_f64())
            }
            Self::Closed => f.write_str("it closed the connection"),
            Self::TooLong => f.write_str("the reply is too long"),
            Self::Line(line) => write!(f, "it says: {line}"),
        }
    }
}

impl std::error::Error for NoAnswer {}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A connection.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    timeout: Duration,
}

impl Client {
    /// Connects to `server`, which may have several addresses: to the first that accepts.
    pub(super) fn connect(server: &str, timeout: Duration) -> Result<Self, NoAnswer> {
        let deadline = Instant::now() + timeout;
        let nothing = || io::Error::new(ErrorKind::NotFound, "no address");
        let mut failed = NoAnswer::Address(nothing());
        for address in server.to_socket_addrs().map_err(NoAnswer::Address)? {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoAnswer::Late(timeout));
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_write_timeout(Some(timeout))?;
                    return Ok(Self { stream: BufReader::new(stream), timeout });
                }
                Err(error) => failed = late_or(error, timeout),
            }
        }
        Err(failed)
    }

    /// The report `stats GROUP`, as pairs of name and value.
    pub(super) fn stats(&mut self, group: &str) -> Result<Vec<(String, String)>, NoAnswer> {
        self.send(&format!("stats {group}"))?;
        let deadline = Instant::now() + self.timeout;
        let mut pairs = Vec::new();
        loop {
            let line = self.line(deadline)?;
            if line == "END" {
                return Ok(pairs);
            }
            let pair = line.strip_prefix("STAT ").and_then(|rest| rest.split_once(' '));
            let Some((name, value)) = pair else { return Err(NoAnswer::Line(line)) };
            if pairs.len() == REPORT_LINES_MAX {
                return Err(NoAnswer::TooLong);
            }
            pairs.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Sends a request of one line.
    pub(super) fn send(&mut self, request: &str) -> Result<(), NoAnswer> {
        let sent = self.stream.get_mut().write_all(format!("{request}\r\n").as_bytes());
        sent.map_err(|error| late_or(error, self.timeout))
    }

    /// The next line of a long list, within the time-out from now.
    pub(super) fn next_line(&mut self) -> Result<String, NoAnswer> {
        self.line(Instant::now() + self.timeout)
    }

    fn line(&mut self, deadline: Instant) -> Result<String, NoAnswer> {
        let mut line = Vec::new();
        loop {
            if self.stream.buffer().is_empty() {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(NoAnswer::Late(self.timeout));
                }
                self.stream.get_ref().set_read_timeout(Some(left))?;
            }
            let bytes = self.stream.fill_buf().map_err(|error| late_or(error, self.timeout))?;
            if bytes.is_empty() {
                return Err(NoAnswer::Closed);
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            line.extend_from_slice(&bytes[..taken]);
            self.stream.consume(taken);
            if line.len() > LINE_BYTES_MAX {
                return Err(NoAnswer::TooLong);
            }
            if end.is_some() {
                return Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
            }
        }
    }
}

fn late_or(error: io::Error, timeout: Duration) -> NoAnswer {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => NoAnswer::Late(timeout),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => NoAnswer::Closed,
        _ => NoAnswer::Io(error),
    }
}
