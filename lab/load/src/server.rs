//! What the server's CPU costs: the server states it, or the kernel does.
//!
//! `stats` of memcached and of this cell report the CPU time of the process to the microsecond.
//! For a server that has no such command, or to compare, `--server-pid` names a process on this
//! machine, and the kernel's account of it is read. Bounds: a reply to `stats` of a mebibyte, and
//! two seconds for all of it. Times are seconds.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use measure::Target;
use measure::account::process::Account;

/// How long a server may take to answer `stats`.
const STATS_TIMEOUT: Duration = Duration::from_secs(2);

/// The most bytes a `stats` reply may have.
const STATS_BYTES_MAX: usize = 1 << 20;

/// The server's CPU time at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub at: Instant,
    pub cpu_s: f64,
    /// User and system part where the source distinguishes them.
    pub parts_s: Option<(f64, f64)>,
    pub version: Option<String>,
}

/// Where samples come from.
#[derive(Clone, Debug)]
pub(crate) enum Probe {
    Stats(Target),
    Process(u32),
}

impl Probe {
    /// As reports name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stats(_) => "stats",
            Self::Process(_) => "process",
        }
    }

    /// The CPU time now; none when the source does not state it.
    pub fn sample(&self) -> Option<Sample> {
        match self {
            Self::Stats(target) => read_stats(&ask(target, "stats").ok()?),
            Self::Process(pid) => {
                let cpu_s = Account::of(*pid).ok()?.cpu_ns as f64 / 1e9;
                Some(Sample { at: Instant::now(), cpu_s, parts_s: None, version: None })
            }
        }
    }
}

/// The reply of the server at `target` to a command of the family of `stats`: names and values in
/// its order. There are none where it does not know the command.
///
/// # Errors
/// When it cannot be reached, or its reply is longer than a mebibyte or not whole within two
/// seconds.
pub fn ask(target: &Target, command: &str) -> io::Result<Vec<(String, String)>> {
    ask_within(target, command, STATS_TIMEOUT)
}

fn ask_within(target: &Target, command: &str, time: Duration) -> io::Result<Vec<(String, String)>> {
    let deadline = Instant::now() + time;
    let mut talk = target.talk(time)?;
    talk.write_all(format!("{command}\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        talk.limit(left)?;
        match talk.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => answer.extend_from_slice(&chunk[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if answer.len() > STATS_BYTES_MAX {
            let text = format!("the reply to {command:?} has more than {STATS_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if is_whole(&answer) {
            return Ok(read_answer(&String::from_utf8_lossy(&answer)));
        }
    }
}

/// Whether the last line has come: any that is not of the form `STAT name value`.
fn is_whole(answer: &[u8]) -> bool {
    let Some(lines) = answer.strip_suffix(b"\n") else { return false };
    let last = lines.rsplit(|byte| *byte == b'\n').next().unwrap_or(lines);
    !last.starts_with(b"STAT ")
}

fn read_answer(answer: &str) -> Vec<(String, String)> {
    let stat = |line: &str| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_string(), value.trim_end().to_string()))
    };
    answer.lines().map_while(stat).collect()
}

/// CPU time and version among names and values.
fn read_stats(stats: &[(String, String)]) -> Option<Sample> {
    let value = |name: &str| stats.iter().find(|stat| stat.0 == name).map(|stat| &stat.1);
    let seconds = |name: &str| value(name)?.parse::<f64>().ok();
    let parts_s = (seconds("rusage_user")?, seconds("rusage_system")?);
    let version = value("version").cloned();
    Some(Sample {
        at: Instant::now(),
        cpu_s: parts_s.0 + parts_s.1,
        parts_s: Some(parts_s),
        version,
    })
}

/// Bytes and number of the items that a server says it holds.
pub(crate) fn held(target: &Target) -> Option<(u64, u64)> {
    let stats = ask(target, "stats").ok()?;
    let number = |name: &str| stats.iter().find(|stat| stat.0 == name)?.1.parse().ok();
    Some((number("bytes")?, number("curr_items")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_lines_are_read() {
        let answer = "STAT pid 5\r\nSTAT version 1.6.45\r\nSTAT rusage_user 1.250000\r\n\
                      STAT rusage_system 2.5\r\nEND\r\n";
        for (bytes, whole) in [(answer.len(), true), (answer.len() - 1, false), (12, false)] {
            assert_eq!(is_whole(&answer.as_bytes()[..bytes]), whole, "{bytes}");
        }
        let stats = read_answer(answer);
        let sample = read_stats(&stats).unwrap();
        assert_eq!((sample.cpu_s, sample.parts_s), (3.75, Some((1.25, 2.5))));
        assert_eq!(sample.version.as_deref(), Some("1.6.45"));
        assert!(read_stats(&stats[..3]).is_none());
        for (answer, count) in [("ERROR\r\n", 0), ("END\r\n", 0), ("STAT a 1 2\r\nEND\r\n", 1)] {
            assert!(is_whole(answer.as_bytes()));
            assert_eq!(read_answer(answer).len(), count, "{answer}");
        }
    }

    #[test]
    fn answers_have_an_end() {
        // One server talks without end, one closes in the middle, one says nothing more.
        let endless = "STAT a b\r\n".repeat(STATS_BYTES_MAX / 10 + 10);
        for (said, stays, time, kind) in [
            (endless.as_str(), true, STATS_TIMEOUT, io::ErrorKind::InvalidData),
            ("STAT a b\r\nSTAT", false, STATS_TIMEOUT, io::ErrorKind::UnexpectedEof),
            ("STAT a b\r\n", true, Duration::from_millis(50), io::ErrorKind::WouldBlock),
        ] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let target = Target::Tcp(listener.local_addr().unwrap());
            let error = std::thread::scope(|scope| {
                let served = scope.spawn(|| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut command = [0; 7];
                    stream.read_exact(&mut command).unwrap();
                    // The client may leave before it has heard everything.
                    let _ = stream.write_all(said.as_bytes());
                    stays.then_some(stream)
                });
                let asked = ask_within(&target, "stats", time);
                drop(served.join().unwrap());
                asked.unwrap_err()
            });
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
