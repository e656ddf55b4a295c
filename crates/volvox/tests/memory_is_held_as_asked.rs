//! The binary holds memory as it is used, or most of it from the start, locked or not.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const MIB: u64 = 1 << 20;
/// What the binary takes when nothing is stored; `-m` may be exceeded by this much.
const BESIDE_ITEMS: u64 = 16 * MIB;

/// A line of what the system says about a process, in bytes.
fn status_bytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a known name");
    let kib = line.trim().strip_suffix(" kB").expect("it counts in kB");
    kib.parse::<u64>().expect("a number") << 10
}

/// Resident and locked bytes of a server of 64 MiB that has begun to listen, or why it has not.
fn held(flags: &[&str]) -> Result<(u64, u64), String> {
    let mut server = Command::new(env!("CARGO_BIN_EXE_volvox"))
        .env_clear()
        .args(["serve", "--listen", "127.0.0.1:0", "--memory-limit", "64MiB"])
        .args(flags)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut log = BufReader::new(server.stderr.take().expect("it is piped"));
    let mut line = String::new();
    log.read_line(&mut line).expect("it logs");
    if !line.contains("listening on") {
        log.read_to_string(&mut line).expect("it ends");
        server.wait().expect("it ends");
        return Err(line);
    }
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).expect("our own process");
    assert!(server.wait().expect("it ends").success());
    Ok((status_bytes(&status, "VmRSS:"), status_bytes(&status, "VmLck:")))
}

#[test]
fn memory_is_held_as_it_is_used_or_most_of_it_from_the_start() {
    let (lazy, _) = held(&[]).expect("it serves");
    let (touched, _) = held(&["--prefault"]).expect("it serves");
    assert!(lazy < BESIDE_ITEMS, "{lazy} bytes without it");
    assert!((48 * MIB..64 * MIB + BESIDE_ITEMS).contains(&touched), "{touched} bytes with it");
}

#[test]
fn what_is_locked_is_what_is_used() {
    match held(&["--lock-memory"]) {
        Ok((resident, locked)) => {
            assert!(resident < BESIDE_ITEMS, "{resident} bytes");
            assert!(locked >= 64 * MIB, "{locked} bytes of what may come to be used");
        }
        // Locking takes a privilege, or a high limit.
        Err(log) if std::env::var_os("CI").is_none() && log.contains("cannot be locked") => {
            eprintln!("skipped: {log}");
        }
        Err(log) => panic!("{log}"),
    }
}
