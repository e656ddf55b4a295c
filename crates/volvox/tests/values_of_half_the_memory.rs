//! The largest value may have half of the memory, as in memcached: it is stored and read whatever
//! other clients do, by every driver, and no client waits for a slow one.
//!
//! Each test starts the real binary. Clients are at a Unix socket, whose buffers do not grow, so a
//! reader that stops has most of its value still to come.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const MEMORY_MIB: usize = 16;
/// Half of the memory, less what memcached counts for a header and a short key.
const HALF_BYTES: usize = (MEMORY_MIB << 20) / 2 - 64;
const QUARTER_BYTES: usize = (MEMORY_MIB << 20) / 4;
/// How long any one answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a slow reader takes before it stops.
const FIRST_BYTES: usize = 100_000;

/// What the process may take beside the limit.
const BESIDE_MIB: usize = 16;

const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object\r\n";

/// A cell of one driver, which ends with the test.
struct Server {
    process: Child,
    path: PathBuf,
}

impl Server {
    /// One that takes values of half of its memory.
    fn start(driver: &str, test: &str, flags: &[&str]) -> Self {
        Self::of(MEMORY_MIB, driver, test, flags)
    }

    /// The same with a limit of `memory_mib` MiB.
    fn of(memory_mib: usize, driver: &str, test: &str, flags: &[&str]) -> Self {
        let half = ((memory_mib << 20) / 2).to_string();
        let flags = [&["--item-bytes-max", &half], flags].concat();
        Self::with(memory_mib, driver, test, &flags)
    }

    fn with(memory_mib: usize, driver: &str, test: &str, flags: &[&str]) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("half-{test}-{driver}"));
        let mut process = Command::new(env!("CARGO_BIN_EXE_volvox"))
            .env_clear()
            .args(["serve", "--listen", "127.0.0.1:0", "--driver", driver, "--workers", "2"])
            .args(["--memory-limit", &format!("{memory_mib}MiB")])
            .args(flags)
            .arg("--unix-socket")
            .arg(&path)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut log = BufReader::new(process.stderr.take().expect("it is piped"));
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(log.read_line(&mut line).expect("it logs") > 0, "it listens");
        }
        // The log is read to its end, so that the server can go on writing.
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { process, path }
    }

    /// The most bytes that were resident so far.
    fn resident_bytes_max(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("it runs");
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("it counts kB");
            kib.parse::<usize>().expect("a number") << 10
        };
        // Without the pages of the program itself: in a test it is large, and they are no data.
        bytes("VmHWM:") - bytes("RssFile:")
    }

    fn client(&self) -> Client {
        let stream = UnixStream::connect(&self.path).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket has time-outs");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket has time-outs");
        Client { replies: BufReader::new(stream.try_clone().expect("a descriptor")), stream }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill(Pid::from_raw(self.process.id() as i32), Signal::SIGTERM).expect("our own process");
        let ended = self.process.wait();
        if !thread::panicking() {
            assert!(ended.expect("it ends").success());
        }
    }
}

struct Client {
    stream: UnixStream,
    replies: BufReader<UnixStream>,
}

impl Client {
    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("it receives");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("it answers");
        line
    }

    fn ask(&mut self, request: impl AsRef<[u8]>) -> String {
        self.send(request);
        self.line()
    }

    /// The lines of a report, without its end.
    fn lines(&mut self, request: &str) -> Vec<String> {
        self.send(request);
        std::iter::repeat_with(|| self.line()).take_while(|line| line != "END\r\n").collect()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.replies.read_exact(&mut bytes).expect("it sends all of a value");
        bytes
    }

    /// Sends a storage command; `#` in its line stands for the length.
    fn send_store(&mut self, line: &str, value: &[u8]) {
        self.send(line.replace('#', &value.len().to_string()) + "\r\n");
        self.send(value);
        self.send("\r\n");
    }

    fn store(&mut self, line: &str, value: &[u8]) -> String {
        self.send_store(line, value);
        self.line()
    }

    /// The value that `get` brings.
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.send(format!("get {key}\r\n"));
        let value = self.value()?;
        assert_eq!(self.line(), "END\r\n");
        Some(value)
    }

    /// A value with its line and its end; `None` for any other line.
    fn value(&mut self) -> Option<Vec<u8>> {
        let line = self.line();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let count = match words[..] {
            ["VALUE", _, _, count, ..] | ["VA", count, ..] => count.parse().expect("a length"),
            _ => return None,
        };
        let value = self.bytes(count);
        assert_eq!(self.line(), "\r\n");
        Some(value)
    }

    /// Stores and reads short values, together more than the memory. None of them waits.
    fn churn(&mut self) {
        let short = vec![b's'; 4000];
        for number in 0..(MEMORY_MIB << 20) / 2000 {
            let key = format!("short-{number}");
            assert_eq!(self.store(&format!("set {key} 0 0 #"), &short), "STORED\r\n");
            assert_eq!(self.get(&key).as_ref(), Some(&short));
        }
    }
}

/// A value of which no two places are alike.
fn value(seed: u64, bytes: usize) -> Vec<u8> {
    let word = |at: u64| ((seed << 32 | at).wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes();
    (0..).flat_map(word).take(bytes).collect()
}

/// Whether two values are the same; if not, the message would be long.
fn same(read: Option<Vec<u8>>, wanted: &[u8]) -> bool {
    read.is_some_and(|read| read == wanted)
}

const DRIVERS: [&str; 4] = ["epoll", "signal", "uring", "threads"];

#[test]
fn every_command_stores_and_reads_half_of_the_memory() {
    for driver in DRIVERS {
        let server = Server::start(driver, "commands", &[]);
        let mut client = server.client();
        let (first, second) = (value(1, HALF_BYTES), value(2, HALF_BYTES));
        assert_eq!(client.store("set a 7 0 #", &first), "STORED\r\n", "{driver}");
        assert!(same(client.get("a"), &first), "{driver}");
        client.send("gets no a neither\r\nversion\r\n");
        assert!(same(client.value(), &first));
        assert_eq!(client.line(), "END\r\n");
        assert!(client.line().starts_with("VERSION"));
        client.send("gat 100 a\r\n");
        assert!(same(client.value(), &first));
        assert_eq!(client.line(), "END\r\n");
        client.send("mg a v f t q\r\nmn\r\n");
        assert!(same(client.value(), &first));
        assert_eq!(client.line(), "MN\r\n");
        // Over the old value, without a reply, and with the requests that follow at once.
        client.send_store("set a 0 0 # noreply", &second);
        assert!(same(client.get("a"), &second), "{driver}");
        assert_eq!(client.store("ms a # T100", &first), "HD\r\n");
        client.send("mg a v s\r\n");
        assert!(same(client.value(), &first));
        let short = vec![b'x'; 100];
        assert_eq!(client.store("set a 0 0 #", &short), "STORED\r\n");
        assert_eq!(client.store("add a 0 0 #", &second), "NOT_STORED\r\n");
        assert_eq!(client.store("cas a 0 0 # 1", &second), "EXISTS\r\n");
        assert!(same(client.get("a"), &short));
        assert_eq!(client.store("replace a 0 0 #", &second), "STORED\r\n");
        assert!(same(client.get("a"), &second));
        assert_eq!(client.ask("append a 0 0 3\r\nabc\r\n"), "NOT_STORED\r\n");
        client.churn();
        assert_eq!(client.store("set a 0 0 #", &first), "STORED\r\n", "memory is full");
        assert!(same(client.get("a"), &first), "{driver}");
        let longer = value(3, HALF_BYTES + 1);
        let refused = "SERVER_ERROR object too large for cache\r\n";
        assert_eq!(client.store("set a 0 0 #", &longer), refused);
        assert_eq!(client.ask("get a\r\n"), "END\r\n");
    }
}

#[test]
fn a_value_that_is_not_completed_gives_its_memory_back() {
    for driver in DRIVERS {
        let server = Server::start(driver, "halves", &[]);
        let mut client = server.client();
        let bytes = value(4, HALF_BYTES);
        for part in 1..=8 {
            let mut other = server.client();
            other.send(format!("set a 0 0 {HALF_BYTES}\r\n"));
            other.send(&bytes[..HALF_BYTES / 8 * part]);
            drop(other);
        }
        // It waits until the server has seen that all of them are gone.
        assert_eq!(client.store("set a 0 0 #", &bytes), "STORED\r\n", "{driver}");
        for bad in ["xx", "\nx"] {
            client.send(format!("set a 0 0 {HALF_BYTES}\r\n"));
            client.send(&bytes);
            assert_eq!(client.ask(bad), "CLIENT_ERROR bad data chunk\r\n");
        }
        assert_eq!(client.store("set a 0 0 #", &bytes), "STORED\r\n", "{driver}");
        assert!(same(client.get("a"), &bytes), "{driver}");
    }
}

#[test]
fn a_slow_reader_gets_the_value_that_it_has_begun_with() {
    let delete = |client: &mut Client| assert_eq!(client.ask("delete a\r\n"), "DELETED\r\n");
    let flush = |client: &mut Client| assert_eq!(client.ask("flush_all\r\n"), "OK\r\n");
    let replace = |client: &mut Client| {
        let other = value(6, QUARTER_BYTES / 2);
        assert_eq!(client.store("set a 0 0 #", &other), "STORED\r\n");
        assert!(same(client.get("a"), &other));
    };
    let nothing = |_: &mut Client| {};
    let changes: [fn(&mut Client); 4] = [delete, flush, replace, nothing];
    for driver in DRIVERS {
        let server = Server::start(driver, "slow", &[]);
        let (mut client, mut slow) = (server.client(), server.client());
        for (change, request) in changes.into_iter().zip(["get a", "gets a", "mg a v", "get b a"]) {
            let bytes = value(5, HALF_BYTES);
            assert_eq!(client.store("set a 0 0 #", &bytes), "STORED\r\n", "{driver}");
            slow.send(format!("{request}\r\nmn\r\n"));
            assert!(slow.line().starts_with('V'));
            let mut read = slow.bytes(FIRST_BYTES);
            change(&mut client);
            client.churn();
            let lowered = client.ask(format!("cache_memlimit {}\r\n", MEMORY_MIB * 3 / 4));
            assert_eq!(lowered, "OK\r\n");
            client.churn();
            let refused = client.ask(format!("cache_memlimit {}\r\n", MEMORY_MIB / 2));
            assert!(refused.starts_with("MEMLIMIT_TOO_SMALL"), "{refused}");
            read.extend(slow.bytes(HALF_BYTES / 2));
            assert_eq!(client.ask(format!("cache_memlimit {MEMORY_MIB}\r\n")), "OK\r\n");
            client.churn();
            read.extend(slow.bytes(HALF_BYTES - read.len()));
            assert!(read == bytes, "{driver}, {request}");
            assert_eq!(slow.line(), "\r\n");
            if request.starts_with('g') {
                assert_eq!(slow.line(), "END\r\n");
            }
            assert_eq!(slow.line(), "MN\r\n");
        }
        // A reader that is gone holds nothing.
        let bytes = value(7, HALF_BYTES);
        assert_eq!(client.store("set a 0 0 #", &bytes), "STORED\r\n", "{driver}");
        slow.send("get a\r\n");
        slow.bytes(FIRST_BYTES);
        drop(slow);
        assert_eq!(client.store("set b 0 0 #", &bytes), "STORED\r\n", "{driver}");
        assert!(same(client.get("b"), &bytes), "{driver}");
    }
}

#[test]
fn slow_clients_delay_nobody_and_values_at_once_are_not_mixed() {
    for driver in DRIVERS {
        let server = Server::start(driver, "at-once", &[]);
        let mut client = server.client();
        let (slow, other) = (value(8, HALF_BYTES), value(9, QUARTER_BYTES));
        let mut writer = server.client();
        writer.send(format!("set slow 0 0 {HALF_BYTES}\r\n"));
        writer.send(&slow[..HALF_BYTES / 2]);
        client.churn();
        assert_eq!(client.ask("flush_all\r\n"), "OK\r\n");
        // Half of the memory is taken: what else is long waits for two seconds, and is refused.
        assert_eq!(client.store("set other 0 0 #", &other), NO_MEMORY, "{driver}");
        assert_eq!(client.ask("get other\r\n"), "END\r\n");
        writer.send(&slow[HALF_BYTES / 2..]);
        assert_eq!(writer.ask("\r\n"), "STORED\r\n", "{driver}");
        assert!(same(client.get("slow"), &slow), "{driver}");
        let ends: Vec<_> = (0..4)
            .map(|number| {
                let mut client = server.client();
                thread::spawn(move || {
                    let bytes = value(10 + number, QUARTER_BYTES);
                    let mut stored = 0;
                    for round in 0..5 {
                        let line = format!("set at-once-{number} 0 0 #");
                        match &*client.store(&line, &bytes) {
                            "STORED\r\n" => stored += 1,
                            line => assert_eq!(line, NO_MEMORY, "round {round}"),
                        }
                        if let Some(read) = client.get(&format!("at-once-{number}")) {
                            assert!(read == bytes, "the value of another key");
                        }
                    }
                    stored
                })
            })
            .collect();
        let stored: u32 = ends.into_iter().map(|end| end.join().expect("no panic")).sum();
        assert!(stored > 0, "{driver}");
        assert_eq!(client.store("set slow 0 0 #", &slow), "STORED\r\n", "{driver}");
        assert!(same(client.get("slow"), &slow), "{driver}");
    }
}

/// Values are joined where they lie: no buffer as long as a value is left behind.
#[test]
fn to_append_takes_no_memory_beside_the_limit() {
    const LIMIT_MIB: usize = 64;
    for driver in DRIVERS {
        let server = Server::of(LIMIT_MIB, driver, "append", &[]);
        let ends: Vec<_> = (0..8)
            .map(|number| {
                let mut client = server.client();
                thread::spawn(move || {
                    for _ in 0..4 {
                        add_to_a_value(&mut client, number);
                    }
                })
            })
            .collect();
        ends.into_iter().for_each(|end| end.join().expect("no panic"));
        let peak = server.resident_bytes_max();
        assert!(peak < (LIMIT_MIB + BESIDE_MIB) << 20, "{peak} bytes, {driver}");
    }
}

/// Stores a value of 12 MB and adds to it. Others may evict it at any time, or have all memory in
/// hand.
fn add_to_a_value(client: &mut Client, number: u64) {
    let mut expected = value(number, 12_000_000);
    let long = value(number + 100, 5_000_000);
    if client.store(&format!("set {number} 0 0 #"), &expected) != "STORED\r\n" {
        return;
    }
    for (verb, added) in [("append", &long[..3]), ("append", &long), ("prepend", &long[..9])] {
        match &*client.store(&format!("{verb} {number} 0 0 #"), added) {
            "STORED\r\n" if verb == "append" => expected.extend_from_slice(added),
            "STORED\r\n" => expected.splice(..0, added.iter().copied()).for_each(drop),
            "NOT_STORED\r\n" => return assert!(client.get(&number.to_string()).is_none()),
            line => assert_eq!(line, NO_MEMORY),
        }
    }
    if let Some(read) = client.get(&number.to_string()) {
        assert!(read == expected, "{} bytes of {}", read.len(), expected.len());
    }
}

/// A client that stops in the middle of its value is closed after the idle time, and its memory is
/// free.
#[test]
fn an_idle_client_does_not_keep_the_memory_of_its_value() {
    for driver in DRIVERS {
        let server = Server::start(driver, "idle", &["--idle-timeout-s", "1"]);
        let bytes = value(20, HALF_BYTES);
        let mut idle = server.client();
        idle.send(format!("set a 0 0 {HALF_BYTES}\r\n"));
        idle.send(&bytes[..HALF_BYTES / 2]);
        assert_eq!(idle.line(), "", "{driver} closes it");
        let mut client = server.client();
        assert_eq!(client.store("set a 0 0 #", &bytes), "STORED\r\n", "{driver}");
        assert!(same(client.get("a"), &bytes), "{driver}");
    }
}

/// The same without an idle time: its memory is free after the time that a stalled client has.
#[test]
fn a_client_that_stalls_does_not_keep_the_memory_of_its_value() {
    for driver in DRIVERS {
        let server = Server::start(driver, "stalled", &["--stall-timeout-s", "1"]);
        let bytes = value(21, HALF_BYTES);
        let mut client = server.client();
        let mut stalled = server.client();
        stalled.send(format!("set a 0 0 {HALF_BYTES}\r\n"));
        stalled.send(&bytes[..HALF_BYTES / 2]);
        assert_eq!(stalled.line(), "", "{driver} closes it");
        assert_eq!(client.store("set a 0 0 #", &bytes), "STORED\r\n", "{driver}");
        assert!(same(client.get("a"), &bytes), "{driver}");
        let stats = client.lines("stats volvox\r\n");
        assert!(stats.contains(&"STAT upload_kicks 1\r\n".to_owned()), "{driver}: {stats:?}");
    }
}

/// Where a log of effects bounds the length of values, `stats settings` shows the length that
/// holds: such a value is stored, and a longer one is refused before it arrives.
#[test]
fn a_cell_with_a_log_stores_what_its_settings_show() {
    for log in ["on", "gated"] {
        let server = Server::with(MEMORY_MIB, "epoll", log, &["--effect-log", log]);
        let mut client = server.client();
        let settings = client.lines("stats settings\r\n");
        let size = settings.iter().find_map(|line| line.strip_prefix("STAT item_size_max "));
        let bytes = size.and_then(|size| size.trim_end().parse::<usize>().ok());
        let longest = bytes.expect("a size") - 64;
        let (key, bytes) = ("k".repeat(250), value(22, longest));
        assert_eq!(client.store(&format!("set {key} 0 0 #"), &bytes), "STORED\r\n");
        assert!(same(client.get(&key), &bytes), "{log}");
        let refused = "SERVER_ERROR object too large for cache\r\n";
        assert_eq!(client.ask(format!("set {key} 0 0 {}\r\n", longest + 1)), refused);
    }
}
