//! How soon a cell answers after it was killed with a long journal, beside Redis on an append-only
//! file of the same writes.
//!
//! What is read lies in the memory of the system, for both: it was written just before. A start is
//! timed from the process to the first value, which only a recovered server has.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::emptied;
use super::loss::{Dialect, Speaker, killed};
use crate::claim::{Claim, Measured};
use crate::instruments::{Batch, Client, Contestant, KEY_BYTES, key};
use crate::lab::Lab;
use measure::account::Account;
use measure::process::{Launch, Server};
use measure::stats::median;
use measure::tools;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("recovery.speed", "journal read at a start, until the first value")
        .bar(">= 400 MB/s")
        .by(speed),
    Claim::new("recovery.redis", "the first value after a kill, beside Redis with the same writes")
        .bar(">= 3x sooner")
        .by(beside_redis),
];

/// Keys that are stored, each once, in the quick and the full form; and the bytes of their values.
const KEYS: [u64; 2] = [1_000_000, 3_000_000];
const VALUE_BYTES: usize = 300;
/// Memory of the cell: room for the index of all keys.
const MEMORY_MIB: [u64; 2] = [1536, 4608];
/// Nothing is written back meanwhile: neither for its age nor because the journal fills.
const AGE_S: &str = "86400";
const JOURNAL: &str = "4GiB";
/// Requests that go out together.
const BATCH: u64 = 500;
/// How often each is killed and started.
const STARTS: usize = 3;

fn speed(lab: &Lab) -> Result<Measured> {
    // What the journal adds to keys and values does not count.
    let megabytes = (lab.form(KEYS) * (KEY_BYTES + VALUE_BYTES) as u64) as f64 / 1e6;
    let all = ours(lab)?;
    let seconds = middle(&all)?;
    let mb_per_s = megabytes / seconds;
    let text = format!("{mb_per_s:.0} MB/s: {megabytes:.0} MB in {seconds:.2} s");
    let details = vec![shown("ours", &all)];
    Ok(Measured::new(text, mb_per_s, mb_per_s >= 400.0).with_details(details))
}

fn beside_redis(lab: &Lab) -> Result<Measured> {
    let both = [ours(lab)?, redis(lab)?];
    let (own, other) = (middle(&both[0])?, middle(&both[1])?);
    let factor = other / own;
    let text = format!("{factor:.1}x: {own:.2} s, Redis {other:.2} s");
    let details = vec![shown("ours", &both[0]), shown("Redis", &both[1])];
    Ok(Measured::new(text, factor, factor >= 3.0).with_details(details))
}

/// One start, until the first value.
struct Start {
    seconds: f64,
    /// Processor time of it.
    cpu_s: f64,
}

/// The start in the middle.
fn middle(starts: &[Start]) -> Result<f64> {
    let seconds: Vec<f64> = starts.iter().map(|start| start.seconds).collect();
    median(&seconds).context("invariant: there were starts")
}

fn shown(name: &str, starts: &[Start]) -> String {
    let one = |it: &Start| format!("{:.2} s ({:.2} s of a core)", it.seconds, it.cpu_s);
    format!("{name}: {}", starts.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Seconds of each start of our cell.
fn ours(lab: &Lab) -> Result<Vec<Start>> {
    let cell = Contestant::volvox(lab)?.memory_mib(lab.form(MEMORY_MIB));
    let cell = emptied(lab, cell, "os")?;
    let cell = cell.env("VOLVOX_TIER_AGE_S", AGE_S).env("VOLVOX_TIER_JOURNAL", JOURNAL);
    let dialect = Dialect::Memcached;
    let starts = starts(lab, dialect, |ready| cell.start_when(lab, ready))?;
    fs::remove_dir_all(super::directory(lab, "os")).context("remove the journal")?;
    Ok(starts)
}

/// Seconds of each start of Redis.
fn redis(lab: &Lab) -> Result<Vec<Start>> {
    let program = tools::REDIS.need()?.display().to_string();
    let folder = lab.folder().join("redis-recovery");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("empty the folder of redis")?;
    }
    let words = |port: u16| {
        let text = format!(
            "{program} --port {port} --bind 127.0.0.1 --appendonly yes --dir {} \
             --appendfsync no --auto-aof-rewrite-percentage 0 --save",
            folder.display()
        );
        text.split(' ').map(str::to_owned).chain([String::new()]).collect()
    };
    let start = |ready: &mut dyn FnMut(SocketAddr) -> io::Result<()>| {
        Launch::new().start("redis", &folder, words, ready)
    };
    let starts = starts(lab, Dialect::Redis, start)?;
    fs::remove_dir_all(&folder).context("remove the folder of redis")?;
    Ok(starts)
}

/// Fills a server, and times how soon it answers after each of some kills.
fn starts(
    lab: &Lab,
    dialect: Dialect,
    start: impl Fn(&mut dyn FnMut(SocketAddr) -> io::Result<()>) -> Result<Server>,
) -> Result<Vec<Start>> {
    let keys = lab.form(KEYS);
    lab.detail("the keys are stored");
    let mut server = start(&mut |at| Speaker::answers(dialect, at, "nothing").map(drop))?;
    fill(dialect, server.address(), keys)?;
    let mut starts = Vec::new();
    for number in 0..STARTS {
        lab.detail(&format!("start {}", number + 1));
        killed(server)?;
        let began = Instant::now();
        server = start(&mut |at| {
            let found = Speaker::answers(dialect, at, &key(keys / 2))?;
            found.map(drop).ok_or_else(|| io::Error::other("a key is missing"))
        })?;
        let cpu_s = Account::of(server.pid())?.cpu_ns as f64 / 1e9;
        starts.push(Start { seconds: began.elapsed().as_secs_f64(), cpu_s });
    }
    let mut speaker = Speaker::connect(dialect, server.address())?;
    for index in (0..keys).step_by(997) {
        let found = speaker.get(&key(index))?;
        ensure!(found.is_some(), "{dialect:?}: {} is missing after a start", key(index));
    }
    killed(server)?;
    Ok(starts)
}

/// Stores keys, each once.
fn fill(dialect: Dialect, address: SocketAddr, keys: u64) -> Result<()> {
    let mut client = Client::connect(address)?;
    let value = "v".repeat(VALUE_BYTES);
    for first in (0..keys).step_by(BATCH as usize) {
        let mut batch = Batch::default();
        for index in first..(first + BATCH).min(keys) {
            if dialect == Dialect::Memcached {
                batch.set(index, VALUE_BYTES, 0);
                continue;
            }
            batch.request.extend(format!("SET {} {value}\r\n", key(index)).into_bytes());
            batch.reply.extend(b"+OK\r\n");
        }
        client.exchange(&batch)?;
    }
    Ok(())
}
