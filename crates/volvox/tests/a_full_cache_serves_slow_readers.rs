//! A cache that evicts uses all of its memory. What a client does not receive at once is kept in
//! that memory too, so items are evicted for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than the buffers of a Unix socket, which do not grow.
const VALUE_BYTES: usize = 500_000;
/// Gets sent before anything is read.
const GETS: usize = 10;
/// More than the memory of the server.
const FILLERS: usize = 20_000;
/// How long any one answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn set(key: &str, bytes: usize, end: &str) -> Vec<u8> {
    let mut request = format!("set {key} 0 0 {bytes}{end}\r\n").into_bytes();
    request.resize(request.len() + bytes, b'v');
    request.extend_from_slice(b"\r\n");
    request
}

/// The bytes that a slow reader receives of [`GETS`] replies, and how many items were evicted.
fn read_slowly(path: &Path) -> std::io::Result<(usize, u64)> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    for filler in 0..FILLERS {
        stream.write_all(&set(&format!("filler-{filler}"), 1_000, " noreply"))?;
    }
    stream.write_all(&set("large", VALUE_BYTES, ""))?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    replies.read_line(&mut line)?;
    assert_eq!(line, "STORED\r\n");
    let mut slow = UnixStream::connect(path)?;
    slow.set_read_timeout(Some(PATIENCE))?;
    slow.write_all("get large\r\n".repeat(GETS).as_bytes())?;
    // When this is answered, the server has tried to send the others.
    stream.write_all(b"stats\r\n")?;
    let mut evictions = 0;
    while line != "END\r\n" {
        line.clear();
        replies.read_line(&mut line)?;
        if let Some(count) = line.strip_prefix("STAT evictions ") {
            evictions = count.trim_end().parse().expect("a number");
        }
    }
    slow.write_all(b"quit\r\n")?;
    Ok((slow.read_to_end(&mut Vec::new())?, evictions))
}

fn try_driver(driver: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("slow-{driver}"));
    let mut server = Command::new(env!("CARGO_BIN_EXE_volvox"))
        .env_clear()
        .args(["serve", "--listen", "127.0.0.1:0", "--memory-limit", "16MiB"])
        .args(["--driver", driver, "--workers", "1"])
        .arg("--unix-socket")
        .arg(&path)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut log = BufReader::new(server.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        assert!(log.read_line(&mut line).expect("it logs") > 0, "it listens");
    }
    let read = read_slowly(&path);
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).expect("our own process");
    assert!(server.wait().expect("it ends").success());
    let one = format!("VALUE large 0 {VALUE_BYTES}\r\n\r\nEND\r\n").len() + VALUE_BYTES;
    let (bytes, evictions) = read.expect("it serves");
    assert!(evictions > 0, "memory was full");
    assert_eq!(bytes, GETS * one, "{driver}");
}

#[test]
fn every_driver_keeps_what_a_client_does_not_take_yet() {
    ["epoll", "signal", "uring", "threads"].into_iter().for_each(try_driver);
}
