//! Resident memory goes back to what the limit allows when the long values of many clients are
//! received and sent: nothing keeps their buffers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use measure::account::rss_bytes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const LIMIT_MIB: u64 = 64;
/// What may be resident beyond the limit.
const BEYOND_BYTES: u64 = 16 << 20;
/// Each has a thread of its own in the server.
const CLIENTS: usize = 24;
/// Requests of each client.
const REQUESTS: usize = 600;
/// Bytes of the longest value; shorter ones are common.
const VALUE_MAX: usize = 1_000_000;
/// How long any one answer may take, and the memory to be given back.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stores, joins and reads values of many lengths. Numbers that look random come from `seed`.
fn ask(at: &str, mut seed: u64) -> std::io::Result<()> {
    let mut below = |limit: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % limit
    };
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let value = vec![b'v'; VALUE_MAX];
    let (mut line, mut skipped) = (String::new(), Vec::new());
    for _ in 0..REQUESTS {
        let key = below(1000);
        line.clear();
        if below(2) == 0 {
            let verb = if below(4) == 0 { "append" } else { "set" };
            let longest = VALUE_MAX >> below(10);
            let bytes = 1 + below(longest);
            stream.write_all(format!("{verb} {key} 0 0 {bytes}\r\n").as_bytes())?;
            stream.write_all(&value[..bytes])?;
            stream.write_all(b"\r\n")?;
            replies.read_line(&mut line)?;
        } else {
            stream.write_all(format!("get {key}\r\n").as_bytes())?;
            replies.read_line(&mut line)?;
            if let Some(bytes) = line.trim_end().strip_prefix("VALUE ") {
                let bytes: u64 =
                    bytes.rsplit(' ').next().map_or(0, |it| it.parse().expect("bytes"));
                skipped.clear();
                replies.by_ref().take(bytes + 2).read_to_end(&mut skipped)?;
                line.clear();
                replies.read_line(&mut line)?;
                assert_eq!(line, "END\r\n");
            }
        }
        assert!(!line.is_empty(), "the connection is closed");
    }
    Ok(())
}

#[test]
fn resident_memory_is_within_the_limit_again_after_the_long_values_of_many_clients() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_volvox"))
        .env_clear()
        .args(["serve", "--listen", "127.0.0.1:0", "--driver", "threads"])
        .args(["--memory-limit", &format!("{LIMIT_MIB}MiB")])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut log = BufReader::new(server.stderr.take().expect("it is piped"));
    let mut lines = log.by_ref().lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("listening on")).expect("it listens");
    let at = line.trim_end().rsplit(' ').next().expect("an address").to_owned();
    let clients: Vec<_> = (1..=CLIENTS as u64)
        .map(|seed| {
            let at = at.clone();
            thread::spawn(move || ask(&at, seed))
        })
        .collect();
    let asked: Vec<_> = clients.into_iter().map(|it| it.join().expect("no panic")).collect();
    // Its clients are gone; their threads end in their own time.
    let (start, most) = (Instant::now(), (LIMIT_MIB << 20) + BEYOND_BYTES);
    let resident = || rss_bytes(server.id()).expect("it runs");
    while resident() > most && start.elapsed() < PATIENCE {
        thread::yield_now();
    }
    let left = resident();
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).expect("our own process");
    assert!(server.wait().expect("it ends").success());
    asked.into_iter().for_each(|asked| asked.expect("it is served"));
    assert!(left <= most, "{} KiB beyond it", left.saturating_sub(most) >> 10);
}
