//! Lists of all keys while other clients are served by the same worker.
//!
//! A server of one worker holds millions of small items and answers GETs of other keys: those of
//! one client in a closed loop, or of many in an open loop at half of what the server can do. Turns
//! with dumps and turns without alternate. Percentiles are
//! those of the generator; the slowest request is also given without the waits for a core.
//!
//! A client that reads its dump runs on the generator's core, and takes some of it: both are
//! reported by the generator's own delay.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::reports;
use crate::claim::{Claim, Measured};
use crate::instruments::{
    Batch, Client, Contestant, GET, Limit, Load, Seen, key, times, watched, within,
};
use crate::lab::Lab;
use measure::account::rss_bytes;
use measure::process::Server;
use measure::stats::{Series, alternate, median};

/// The limit of all servers here, in MiB: all items fit.
const MEMORY_MIB: u64 = 1024;
/// Requests in flight on each connection while a server is filled.
const FILL_DEPTH: usize = 64;
/// Bytes of the values that fill it.
const FILL_VALUE_BYTES: usize = 2;
/// Items that a flush cuts off.
const FLUSHED: u64 = 4_000_000;
/// Items that a dump lists.
const LISTED: u64 = 5_000_000;
/// Rounds of the quick and of the full form, each with a turn of both kinds.
const ROUNDS: [usize; 2] = [4, 10];
/// Seconds of a turn.
const TURN_S: u64 = 3;
/// What is requested of a server that lists its keys.
const MIXED: Load = Load { ratio: "9:1", limit: Limit::Duration("1s"), ..GET };
/// One client beside the dumps: what it waits is what the worker does between two turns.
const PROBE: Load = Load { connections: 1, limit: Limit::Duration("3s"), ..GET };
/// How much later than without a dump the slowest hundredth may be.
const LATER_US_MAX: f64 = 1_000.0;
/// How many times longer the slowest hundredth may take.
const TIMES_MAX: f64 = 2.0;
/// Clients that request a dump and do not read it.
const STUCK: usize = 16;
/// How long the buffers of the kernel take to be full.
const FULL: Duration = Duration::from_secs(1);
/// What may be resident more because of them.
const STUCK_BYTES_MAX: u64 = 8 << 20;
/// Keys of which most are deleted during a dump, and in the full form.
const SHRINKING: [u64; 2] = [2_000_000, 8_000_000];
/// One key of this number stays.
const STAYS_EVERY: u64 = 8;
/// Lines that are read between two batches of deletes.
const LINES: usize = 1_000;
/// Keys that a batch deletes: all are gone before the dump ends.
const DELETES: usize = 3_000;
/// Sets that go out together.
const SETS: usize = 500;
/// The request for a dump.
const METADUMP: &[u8] = b"lru_crawler metadump all\r\n";

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("walks.flushed", "GETs of one client beside dumps, after a flush of 4 million")
        .bar("p99 <= 1 ms later than without")
        .by(flushed),
    Claim::new("walks.dump", "dumps of 5 million items at half the peak load")
        .bar("p99 <= 2x of that without")
        .by(dumped),
    Claim::new("walks.stuck", "16 dumps whose clients do not read")
        .bar("RSS <= 8 MiB more, p99 <= 2x, each ends when it is read")
        .by(stuck),
    Claim::new("walks.once", "a dump while deletes of other keys shrink the index")
        .bar("each key that stays is listed once")
        .by(once),
];

/// A server with a number of small items and the keys of the load.
fn filled(lab: &Lab, items: u64) -> Result<Server> {
    let server = Contestant::volvox(lab)?.memory_mib(MEMORY_MIB).pinned(lab).start(lab)?;
    lab.detail(&format!("storing {items} items"));
    let filling = Load {
        ratio: "0:1",
        depth: FILL_DEPTH,
        popularity: "sequential",
        limit: Limit::Requests(items),
        keys: items,
        value_bytes: FILL_VALUE_BYTES,
        prefix: "dump-",
        warm_up: "0s",
        ..GET
    };
    filling.drive(lab, &server)?;
    if Client::connect(server.address())?.stat("evictions")? > 0 {
        bail!("{items} items do not fit {MEMORY_MIB} MiB");
    }
    Ok(server)
}

/// Clients of a server.
fn connected(server: &Server, count: usize) -> Result<Vec<Client>> {
    (0..count).map(|_| Client::connect(server.address())).collect()
}

/// A turn of the mixed load at half of what a server answers of it.
fn half_of_peak(lab: &Lab, server: &Server) -> Result<Load> {
    lab.detail("finding the peak");
    let rate = MIXED.drive(lab, server)?.number("/rate/achieved_per_s")? as u64 / 2;
    Ok(Load { rate: Some(rate), limit: Limit::Requests(rate * TURN_S), ..MIXED })
}

/// Turns of a load: without dumps in the first list, with dumps in the second.
struct Turns {
    p99_us: [Series; 2],
    details: Vec<String>,
}

/// Runs a load in turns. In those of the second kind `prepare` comes before the load, and `beside`
/// uses what it has made until its other argument says that the turn is over.
fn turns(
    lab: &Lab,
    server: &Server,
    load: Load,
    prepare: impl Fn() -> Result<Vec<Client>>,
    beside: impl Fn(Vec<Client>, &dyn Fn() -> bool) -> Result<u64> + Sync,
) -> Result<Turns> {
    let cores = lab.cores();
    let done = AtomicU64::new(0);
    let rate = load.rate.map_or("one at a time".to_owned(), |rate| format!("{rate} a second"));
    let mut details = vec![format!("requests on {} connections, {rate}", load.connections)];
    let series = alternate(2, lab.form(ROUNDS), |which, round| {
        let kind = ["without", "with"][which];
        lab.detail(&format!("round {} {kind} dumps, {rate}", round + 1));
        let clients = if which == 1 { prepare()? } else { Vec::new() };
        let began = Instant::now();
        let over = || began.elapsed() >= Duration::from_secs(TURN_S);
        let seen = thread::scope(|scope| -> Result<Seen> {
            let run =
                || cores.generator().run(|| beside(clients, &over)).context("move to a core")?;
            let beside = (which == 1).then(|| scope.spawn(run));
            let seen = watched(lab, server, load, reports(), &[])?;
            if let Some(beside) = beside {
                let count = beside.join().expect("invariant: a client of dumps does not panic")?;
                done.fetch_add(count, Ordering::Relaxed);
            }
            Ok(seen)
        })?;
        let wrong = seen.outcome.wrong()?;
        if !wrong.is_empty() {
            bail!("not a measurement: {}", wrong.join(", "));
        }
        let [raw, apart] = seen.worst(0)?;
        let p99_us = seen.outcome.number("/get_latency/p99_us")?;
        details.push(format!(
            "round {} {kind} dumps: GET p50 {:.3} p99 {:.3} p99.9 {:.3} ms; worst of all {:.1} ms, \
             {:.1} ms without waits for a core",
            round + 1,
            seen.outcome.number("/get_latency/p50_us")? / 1e3,
            p99_us / 1e3,
            seen.outcome.number("/get_latency/p999_us")? / 1e3,
            raw.latency_us / 1e3,
            apart.apart_us() / 1e3,
        ));
        Ok(p99_us)
    })?;
    details.push(format!("{} dumps ended in the turns with dumps", done.into_inner()));
    let p99_us = series.try_into().ok().context("invariant: two kinds of turns")?;
    Ok(Turns { p99_us, details })
}

/// Dumps one after the other until the turn is over; how many ended.
fn dumps(mut clients: Vec<Client>, over: &dyn Fn() -> bool) -> Result<u64> {
    let mut ended = 0;
    while let Some(client) = clients.first_mut().filter(|_| !over()) {
        client.send(METADUMP)?;
        client.dumped()?;
        ended += 1;
    }
    Ok(ended)
}

fn flushed(lab: &Lab) -> Result<Measured> {
    let server = filled(lab, FLUSHED)?;
    Client::connect(server.address())?.command("flush_all")?;
    GET.populate(lab, &server)?;
    let turns = turns(lab, &server, PROBE, || connected(&server, 1), dumps)?;
    server.stop()?;
    let [without, with] = turns.p99_us.each_ref().map(|series| median(series).unwrap_or(0.0));
    let later_us = with - without;
    let text = format!("p99 {:.3} ms without, {:.3} ms with", without / 1e3, with / 1e3);
    Ok(Measured::new(text, later_us, later_us <= LATER_US_MAX).with_details(turns.details))
}

fn dumped(lab: &Lab) -> Result<Measured> {
    let server = filled(lab, LISTED)?;
    MIXED.populate(lab, &server)?;
    let load = half_of_peak(lab, &server)?;
    let turns = turns(lab, &server, load, || connected(&server, 1), dumps)?;
    server.stop()?;
    let factor = times(&turns.p99_us[1], &turns.p99_us[0])?;
    let holds = factor.value <= TIMES_MAX;
    Ok(Measured::new(within(factor), factor.value, holds).with_details(turns.details))
}

fn stuck(lab: &Lab) -> Result<Measured> {
    let server = filled(lab, LISTED)?;
    MIXED.populate(lab, &server)?;
    let load = half_of_peak(lab, &server)?;
    let before_bytes = rss_bytes(server.pid())?;
    let held_most = AtomicU64::new(0);
    let begin = || -> Result<Vec<Client>> {
        let mut clients = connected(&server, STUCK)?;
        clients.iter_mut().try_for_each(|client| client.send(METADUMP))?;
        // Until then the server fills the buffers of the kernel.
        thread::sleep(FULL);
        Ok(clients)
    };
    let wait = |_clients: Vec<Client>, over: &dyn Fn() -> bool| -> Result<u64> {
        let mut asking = Client::connect(server.address())?;
        while !over() {
            thread::sleep(Duration::from_millis(100));
            held_most.fetch_max(asking.stat("read_buf_bytes")?, Ordering::Relaxed);
        }
        Ok(0)
    };
    let turns = turns(lab, &server, load, begin, wait)?;
    let grown_bytes = rss_bytes(server.pid())?.saturating_sub(before_bytes);
    lab.detail("one waits, and then reads");
    let mut client = Client::connect(server.address())?;
    client.send(METADUMP)?;
    thread::sleep(Duration::from_secs(1));
    let ends = client.dumped();
    drop(client);
    server.stop()?;
    let factor = times(&turns.p99_us[1], &turns.p99_us[0])?;
    let mut details = turns.details;
    let held_kib = held_most.into_inner() >> 10;
    details.push(format!("connections held at most {held_kib} KiB of unsent replies and input"));
    details.push(match &ends {
        Ok(bytes) => format!("a dump that was not read for a second ended after {bytes} bytes"),
        Err(error) => format!("a dump that was not read for a second failed: {error:#}"),
    });
    let text = format!("RSS {} KiB more, p99 {}", grown_bytes >> 10, within(factor));
    let holds = grown_bytes <= STUCK_BYTES_MAX && factor.value <= TIMES_MAX && ends.is_ok();
    Ok(Measured::new(text, factor.value, holds).with_details(details))
}

/// How often a dump has listed each key.
struct Listed(Vec<u8>);

impl Listed {
    /// Counts the key of a line, `key=k000.. exp=..`; false at the end of the dump.
    fn count(&mut self, line: &str) -> Result<bool> {
        if line == "END" || line == "OK" {
            return Ok(line == "OK");
        }
        let name = line.strip_prefix("key=").and_then(|rest| rest.split(' ').next());
        let index = name.and_then(|name| name.strip_prefix('k')?.parse::<usize>().ok());
        let count = index.and_then(|index| self.0.get_mut(index));
        *count.with_context(|| format!("a dump has the line {line:?}"))? += 1;
        Ok(true)
    }

    /// Keys that stayed and were not listed; that were listed twice; that were deleted and listed.
    fn wrong(&self) -> (usize, usize, usize) {
        let stays = |at: usize| (at as u64).is_multiple_of(STAYS_EVERY);
        let all = || self.0.iter().enumerate();
        (
            all().filter(|(at, count)| stays(*at) && **count == 0).count(),
            all().filter(|(_, count)| **count > 1).count(),
            all().filter(|(at, count)| !stays(*at) && **count > 0).count(),
        )
    }
}

fn once(lab: &Lab) -> Result<Measured> {
    let keys = lab.form(SHRINKING);
    let server = Contestant::volvox(lab)?.memory_mib(MEMORY_MIB).pinned(lab).start(lab)?;
    let mut client = Client::connect(server.address())?;
    lab.detail(&format!("storing {keys} keys"));
    let mut batch = Batch::default();
    for index in 0..keys {
        batch.set(index, FILL_VALUE_BYTES, 0);
        if batch.requests == SETS || index + 1 == keys {
            client.exchange(&batch)?;
            batch.clear();
        }
    }
    let before_bytes = client.stat("hash_bytes")?;
    lab.detail("listing and deleting");
    let mut dumping = Client::connect(server.address())?;
    dumping.send(METADUMP)?;
    let (mut listed, mut lines) = (Listed(vec![0; keys as usize]), 0_u64);
    let mut leaving = (0..keys).filter(|index| !index.is_multiple_of(STAYS_EVERY)).peekable();
    let mut deleted_at = None;
    'dump: loop {
        for _ in 0..LINES {
            if !listed.count(&dumping.line()?)? {
                break 'dump;
            }
            lines += 1;
        }
        let names = leaving.by_ref().take(DELETES);
        let (mut request, mut count) = (String::new(), 0);
        for index in names {
            request.push_str(&format!("delete {}\r\n", key(index)));
            count += 1;
        }
        client.send(request.as_bytes())?;
        client.expect(&b"DELETED\r\n".repeat(count))?;
        if leaving.peek().is_none() {
            deleted_at.get_or_insert(lines);
        }
    }
    let after_bytes = client.stat("hash_bytes")?;
    drop((client, dumping));
    server.stop()?;
    let (missing, twice, gone) = listed.wrong();
    let details = vec![
        format!("{keys} keys, one of {STAYS_EVERY} stays; {lines} lines, {gone} of keys that left"),
        format!("the index had {before_bytes} bytes before and {after_bytes} after"),
        match deleted_at {
            Some(at) => format!("all deletes were done after {at} lines"),
            None => "the dump ended before the deletes".to_owned(),
        },
    ];
    if after_bytes >= before_bytes || lines == 0 {
        return Ok(Measured::not("the index did not shrink meanwhile").with_details(details));
    }
    let text = format!("{missing} missing, {twice} listed twice, of {}", keys / STAYS_EVERY);
    let wrong = missing + twice;
    Ok(Measured::new(text, wrong as f64, wrong == 0).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_the_lines_of_a_dump() {
        let mut listed = Listed(vec![0; 17]);
        let line = |index: u64| format!("key={} exp=-1 la=9 cas=5 fetch=no cls=1", key(index));
        for index in [0, 8, 8, 3] {
            assert!(listed.count(&line(index)).unwrap());
        }
        assert!(!listed.count("END").unwrap() && listed.count("OK").unwrap());
        assert!(listed.count("key=other exp=-1").is_err() && listed.count(&line(17)).is_err());
        // 16 stays and is missing, 8 is there twice, 3 was deleted later.
        assert_eq!(listed.wrong(), (1, 1, 1));
    }
}
