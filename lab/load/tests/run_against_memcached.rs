//! The generator against memcached itself, where the machine has one on its PATH.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use load::cli::RunArgs;
use load::conclusion::Report;
use load::drive::Watch;

/// How long memcached may take to listen.
const START_TIMEOUT: Duration = Duration::from_secs(10);

struct Memcached {
    child: Child,
    socket: PathBuf,
}

impl Memcached {
    /// Starts one on a Unix socket of its own, so that no port can be taken; `None` without one.
    fn start(name: &str) -> Option<Self> {
        let socket = std::env::temp_dir().join(format!("load-{name}-{}", std::process::id()));
        let child = Command::new("memcached")
            .args(["-u", "root", "-t", "1", "-m", "256", "-s"])
            .arg(&socket)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: no memcached on PATH");
            return None;
        };
        let memcached = Self { child, socket };
        let give_up = Instant::now() + START_TIMEOUT;
        while std::os::unix::net::UnixStream::connect(&memcached.socket).is_err() {
            assert!(Instant::now() < give_up, "memcached does not listen");
            std::thread::yield_now();
        }
        Some(memcached)
    }

    fn run(&self, settings: &str) -> Report {
        let line = format!("--target unix:{} --keys 500 {settings}", self.socket.display());
        let args = RunArgs::parse_words(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        args.carry_out(&Watch::new(Arc::default(), false)).unwrap()
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[test]
fn every_dialect_and_loop_agrees_with_memcached() {
    let Some(memcached) = Memcached::start("dialects") else { return };
    for settings in [
        "--pipeline 1",
        "--pipeline 16 --threads 2",
        "--pipeline 4 --multiget 50",
        "--protocol meta --pipeline 16",
        "--protocol meta --pipeline 4 --multiget 50",
        "--rate 20000 --pipeline 4",
        "--value-bytes 0,1,100,9000,200000 --pipeline 4",
        "--ttl uniform:1000-2000 --popularity hotset:10%:90%",
        "--key-bytes 250 --key-prefix prefix/",
        "--workload etc --pipeline 4",
        "--protocol binary",
        "--protocol binary --pipeline 16 --threads 2 --value-bytes 0,1,100,9000,200000",
        "--protocol binary --pipeline 4 --multiget 50 --multiset 10 --ttl 0:1,1000:1",
        "--protocol binary --rate 20000 --pipeline 4 --workload etc",
        "--protocol meta --pipeline 4 --multiset 10",
        "--workload ycsb-d --pipeline 4",
        "--workload ycsb-e --protocol meta --pipeline 4",
        "--workload ycsb-f --pipeline 4",
    ] {
        let line = format!("--populate --verify --warmup 0 --requests 3000 {settings}");
        let report = memcached.run(&line);
        assert!(report.is_clean(), "{settings}: {report:?}");
        assert_eq!(report.misses, 0, "{settings}");
        assert!(report.server.unwrap().cpu_us_per_request > 0.0, "{settings}");
    }
}

#[test]
fn deletes_agree_with_memcached() {
    let Some(memcached) = Memcached::start("deletes") else { return };
    for settings in [
        "--pipeline 4",
        "--pipeline 8 --protocol meta",
        "--pipeline 8 --protocol binary",
        "--pipeline 8 --protocol binary --multiset 3 --multiget 3",
    ] {
        let line = "--populate --verify --warmup 0 --requests 3000 --ratio 5:3:2";
        let report = memcached.run(&format!("{line} {settings}"));
        assert!(report.is_clean(), "{settings}: {report:?}");
        assert!(report.requests.deletes > 500 && report.requests.not_found > 0, "{settings}");
        assert!(report.misses > 0 && report.hits > 0, "{settings}: {report:?}");
    }
}

#[test]
fn an_empty_cache_fills_itself() {
    let Some(memcached) = Memcached::start("refill") else { return };
    let report = memcached.run("--ratio 1:0 --refill --verify --warmup 0 --requests 5000");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.requests.refills, report.misses);
    assert!(report.misses >= 450 && report.hits > 2_000, "{report:?}");
}

#[test]
fn a_value_beyond_the_limit_is_an_error_not_a_hang() {
    let Some(memcached) = Memcached::start("large") else { return };
    let report = memcached.run("--ratio 0:1 --value-bytes 2000000 --warmup 0 --requests 20");
    assert_eq!((report.requests.errors, report.requests.completed), (20, 0), "{report:?}");
    assert!(report.complaints[0].contains("too large"), "{report:?}");
}
