//! The limit on memory changes while the server works, and while it does not.
//!
//! A server that is full gets stores of new keys at half the rate that it can do, in an open loop.
//! `cache_memlimit` lowers its limit, and raises it again where the plan says so. What counts: no
//! store fails, the slowest one, and how soon resident memory is at the new limit and stays there.
//! Times in which the worker or the generator had no core are taken apart. memcached gets the same
//! steps at half of its own rate; it is reported and not judged.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::reports;
use crate::claim::{Claim, Measured};
use crate::instruments::{
    Client, Contestant, GET, Limit, Load, Program, Seen, Slow, Step, watched,
};
use crate::lab::Lab;
use measure::{account::rss_bytes, process::Server};

/// Different keys: nearly every store is of a new one.
const KEYS: u64 = 100_000_000;
/// Requests in flight on each connection while a server is filled.
const FILL_DEPTH: usize = 64;
/// What an item takes beside its value, at least: a server that is filled by it evicts.
const BESIDE_VALUE_BYTES: u64 = 55;
/// The load begins, and the limit is lowered after this.
const BEFORE: Duration = Duration::from_secs(3);
/// Where the limit is raised again, the load goes on for so long.
const AFTER: Duration = Duration::from_secs(4);
/// What may be resident beyond the limit.
const BEYOND_BYTES: u64 = 16 << 20;
/// The slowest store.
const WORST_US_MAX: f64 = 10_000.0;
/// How soon an idle server must be at its new limit.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// How often the memory of an idle server is read.
const POLL: Duration = Duration::from_millis(50);
/// Runs of every plan in the quick and in the full form; the worst of them counts.
const RUNS: [usize; 2] = [1, 3];
/// Bytes of the values before and after, where all values change at one limit.
const REFILL_BYTES: [usize; 2] = [10, 4096];
/// The limit there, in MiB, and in the full form.
const REFILL_MIB: [u64; 2] = [256, 1024];
/// What the keys begin with, each time that a limit's worth of the second length is stored.
const REFILLS: [&str; 8] = ["r1-", "r2-", "r3-", "r4-", "r5-", "r6-", "r7-", "r8-"];
/// The share of a fresh cell's items that must be held.
const REFILLED_MIN: f64 = 0.97;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    resize("resize.2b", "a full cell is lowered and raised, values of 2 bytes", |lab| {
        resized(lab, &TINY)
    }),
    resize("resize.200b", "the same, values of 200 bytes", |lab| resized(lab, &SMALL)),
    resize("resize.4k", "the same, values of 4 KiB", |lab| resized(lab, &LARGE)),
    Claim::new("resize.idle", "1024 to 256 MiB without a request, values of each size")
        .bar("RSS <= limit + 16 MiB within 30 s")
        .by(idle),
    Claim::new("resize.refill", "all values change from 10 B to 4 KiB at one limit")
        .bar(">= 97 % of a fresh cell's items")
        .by(refill),
];

const fn resize(
    id: &'static str,
    claim: &'static str,
    measure: fn(&Lab) -> Result<Measured>,
) -> Claim {
    let bar = "no failed SET, worst <= 10 ms (waits for a core apart), RSS <= limit + 16 MiB in \
               5 s (2 B: 10 s)";
    Claim::new(id, claim).bar(bar).by(measure)
}

/// How long values are, and how soon memory must be at a lowered limit.
struct Values {
    bytes: usize,
    within: Duration,
}

const TINY: Values = Values { bytes: 2, within: Duration::from_secs(10) };
const SMALL: Values = Values { bytes: 200, within: Duration::from_secs(5) };
const LARGE: Values = Values { bytes: 4096, within: Duration::from_secs(5) };

/// Limits in MiB: the first, the lowered one, and that to which it is raised again.
struct Plan {
    from: u64,
    to: u64,
    back: Option<u64>,
}

const PLANS: [Plan; 2] =
    [Plan { from: 1024, to: 256, back: Some(1024) }, Plan { from: 256, to: 48, back: None }];

impl Plan {
    fn name(&self) -> String {
        let back = self.back.map_or(String::new(), |back| format!(" to {back}"));
        format!("{} to {}{back} MiB", self.from, self.to)
    }

    fn bound_bytes(&self) -> u64 {
        (self.to << 20) + BEYOND_BYTES
    }
}

/// Stores of keys that are nearly all new.
fn stores(value_bytes: usize) -> Load {
    Load { ratio: "0:1", keys: KEYS, value_bytes, warm_up: "0s", ..GET }
}

/// Stores until a server of `mib` evicts.
fn fill(lab: &Lab, server: &Server, value_bytes: usize, mib: u64) -> Result<()> {
    let items = (mib << 20) / (value_bytes as u64 + BESIDE_VALUE_BYTES);
    let requests = Limit::Requests(items + items / 10);
    let filling = Load {
        depth: if value_bytes > 1000 { 1 } else { FILL_DEPTH },
        popularity: "sequential",
        limit: requests,
        ..stores(value_bytes)
    };
    // memcached refuses stores that come faster than it evicts; of ours none may fail later.
    filling.try_drive(lab, server).context("fill the server")?;
    if Client::connect(server.address())?.stat("evictions")? == 0 {
        bail!("nothing was evicted of {mib} MiB: the server is not full");
    }
    Ok(())
}

/// The commands of a program's statistics.
fn reports_of(program: &Program) -> &'static [&'static str] {
    match program {
        Program::Volvox => reports(),
        _ => &["stats"],
    }
}

/// What one plan found.
struct Found {
    failed: u64,
    /// The slowest store, and the one that is slowest without its waits.
    worst: [Slow; 2],
    /// How soon memory was at the lowered limit.
    below: Option<Duration>,
    rate: u64,
    details: Vec<String>,
}

impl Found {
    fn holds(&self, values: &Values) -> bool {
        let in_time = self.below.is_some_and(|below| below <= values.within);
        self.failed == 0 && self.worst[1].apart_us() <= WORST_US_MAX && in_time
    }

    fn text(&self) -> String {
        let [raw, apart] = &self.worst;
        let below = self.below.map_or("never at the limit".to_owned(), |below| {
            format!("at the limit in {:.1} s", below.as_secs_f64())
        });
        format!(
            "{} failed, worst {:.1} ms ({:.1} apart), {below}",
            self.failed,
            raw.latency_us / 1e3,
            apart.apart_us() / 1e3
        )
    }
}

/// One plan on one server: filled, loaded at half its peak, and changed.
fn carry_out(lab: &Lab, contestant: Contestant, values: &Values, plan: &Plan) -> Result<Found> {
    let name = format!("{}, {} B, {}", contestant.program().name(), values.bytes, plan.name());
    let contestant = contestant.memory_mib(plan.from).pinned(lab);
    let server = contestant.start(lab)?;
    lab.detail(&format!("{name}: filling"));
    fill(lab, &server, values.bytes, plan.from)?;
    lab.detail(&format!("{name}: finding the peak"));
    let load = Load { limit: Limit::Duration("1500ms"), ..stores(values.bytes) };
    let rate = load.try_drive(lab, &server)?.number("/rate/achieved_per_s")? as u64 / 2;
    // One second more than the bar allows, so that a miss is seen.
    let lowered = values.within + Duration::from_secs(1);
    let mut steps = vec![step(BEFORE, plan.to)];
    steps.extend(plan.back.map(|back| step(BEFORE + lowered, back)));
    let length = BEFORE + lowered + plan.back.map_or(Duration::ZERO, |_| AFTER);
    lab.detail(&format!("{name}: at {rate}/s"));
    let requests = rate * length.as_secs();
    let load = Load { rate: Some(rate), limit: Limit::Requests(requests), ..load };
    let seen = watched(lab, &server, load, reports_of(contestant.program()), &steps)?;
    server.stop()?;
    found(&name, rate, plan, &seen)
}

fn step(after: Duration, mib: u64) -> Step {
    Step { after, command: format!("cache_memlimit {mib}") }
}

fn found(name: &str, rate: u64, plan: &Plan, seen: &Seen) -> Result<Found> {
    let lowered_ns = *seen.answered_ns.first().context("the limit was not lowered")?;
    let until_ns = seen.answered_ns.get(1).copied().unwrap_or(u64::MAX);
    let worst = seen.worst(lowered_ns)?;
    let below = seen.below_after_ns(plan.bound_bytes(), lowered_ns, until_ns);
    let below = below.map(Duration::from_nanos);
    let mut failed = 0;
    for kind in ["not_stored", "errors", "lost", "unanswered", "unsent"] {
        failed += seen.outcome.number(&format!("/requests/{kind}"))? as u64;
    }
    let mut found = Found { failed, worst, below, rate, details: Vec::new() };
    let [raw, apart] = worst;
    found.details.push(format!("{name}, {rate} stores a second: {}", found.text()));
    found.details.push(format!("  worst: {}", raw.line(lowered_ns)));
    found.details.push(format!("  {}", seen.changes(&raw)));
    if apart.at_ns != raw.at_ns {
        found.details.push(format!("  worst without its waits: {}", apart.line(lowered_ns)));
        found.details.push(format!("  {}", seen.changes(&apart)));
    }
    found.details.extend(seen.seconds(lowered_ns).iter().map(|line| format!("  {line}")));
    Ok(found)
}

fn resized(lab: &Lab, values: &Values) -> Result<Measured> {
    let (mut texts, mut details, mut holds) = (Vec::new(), Vec::new(), true);
    let mut worst_ms: f64 = 0.0;
    for plan in PLANS {
        for _ in 0..lab.form(RUNS) {
            let found = carry_out(lab, Contestant::volvox(lab)?, values, &plan)?;
            holds &= found.holds(values);
            worst_ms = worst_ms.max(found.worst[1].apart_us() / 1e3);
            texts.push(format!("{}: {}", plan.name(), found.text()));
            details.extend(found.details);
        }
    }
    for plan in PLANS {
        details.push(match memcached(lab, values, &plan) {
            Ok(line) => line,
            Err(error) => format!("memcached, {}: not measured: {error:#}", plan.name()),
        });
    }
    Ok(Measured::new(texts.join("; "), worst_ms, holds).with_details(details))
}

/// What memcached does with the same steps, in a line.
fn memcached(lab: &Lab, values: &Values, plan: &Plan) -> Result<String> {
    if let Some(other) = lab.stand_in()? {
        bail!("{other}");
    }
    let found = carry_out(lab, Contestant::memcached(lab)?, values, plan)?;
    Ok(format!("memcached, {}, {} stores a second: {}", plan.name(), found.rate, found.text()))
}

fn idle(lab: &Lab) -> Result<Measured> {
    let (mut details, mut longest, mut holds) = (Vec::new(), Duration::ZERO, true);
    let plan = &PLANS[0];
    for values in [TINY, SMALL, LARGE] {
        let server = Contestant::volvox(lab)?.memory_mib(plan.from).pinned(lab).start(lab)?;
        lab.detail(&format!("{} B: filling", values.bytes));
        fill(lab, &server, values.bytes, plan.from)?;
        let mut client = Client::connect(server.address())?;
        client.command(&format!("cache_memlimit {}", plan.to))?;
        lab.detail(&format!("{} B: idle", values.bytes));
        let (began, mut took) = (Instant::now(), None);
        while took.is_none() && began.elapsed() < IDLE_MAX + Duration::from_secs(1) {
            thread::sleep(POLL);
            let is_below = rss_bytes(server.pid())? <= plan.bound_bytes();
            took = is_below.then(|| began.elapsed());
        }
        let items = client.stat("curr_items")?;
        drop(client);
        server.stop()?;
        holds &= took.is_some_and(|took| took <= IDLE_MAX);
        longest = longest.max(took.unwrap_or(IDLE_MAX));
        let took = took.map_or("not".to_owned(), |took| format!("{:.1} s", took.as_secs_f64()));
        details.push(format!("{} B: {took}, {items} items left", values.bytes));
    }
    let text = details.join("; ");
    Ok(Measured::new(text, longest.as_secs_f64(), holds).with_details(details))
}

/// Items of one length, and the memory of one.
#[derive(Clone, Copy)]
struct Held {
    items: u64,
    bytes: u64,
}

impl Held {
    fn of(server: &Server) -> Result<Self> {
        let mut client = Client::connect(server.address())?;
        Ok(Self { items: client.stat("curr_items")?, bytes: client.stat("bytes")? })
    }

    fn each_bytes(self) -> f64 {
        self.bytes as f64 / self.items as f64
    }

    /// How many of these items are as long as those of `long`, where the others are as `short`.
    fn long(self, short: Self, long: Self) -> f64 {
        let beyond = self.bytes as f64 - self.items as f64 * short.each_bytes();
        beyond / (long.each_bytes() - short.each_bytes())
    }
}

/// The limit stays, the values become long. Items of the second length are counted: the first may
/// still be there. What follows after a flush is reported, where no policy keeps the first.
fn refill(lab: &Lab) -> Result<Measured> {
    let mib = lab.form(REFILL_MIB);
    let [before, after] = REFILL_BYTES;
    let start = || Contestant::volvox(lab)?.memory_mib(mib).pinned(lab).start(lab);
    // Each refill has keys of its own, so that none is overwritten.
    let store = |server: &Server, prefix| -> Result<Held> {
        lab.detail(&format!("values of {after} B, keys {prefix}"));
        let limit = Limit::Requests((mib << 20) / after as u64);
        Load { popularity: "sequential", limit, prefix, ..stores(after) }.drive(lab, server)?;
        Held::of(server)
    };
    let server = start()?;
    store(&server, REFILLS[0])?;
    let fresh = store(&server, REFILLS[1])?;
    server.stop()?;
    let server = start()?;
    lab.detail(&format!("values of {before} B"));
    fill(lab, &server, before, mib)?;
    let short = Held::of(&server)?;
    let share = |held: Held| held.long(short, fresh) / fresh.items as f64;
    let line = |share: f64| format!("{:.1} %", share * 100.0);
    let mut shares = Vec::new();
    for prefix in REFILLS {
        shares.push(share(store(&server, prefix)?));
    }
    let mut client = Client::connect(server.address())?;
    client.command("flush_all")?;
    store(&server, "f1-")?;
    let flushed = share(store(&server, "f2-")?);
    drop(client);
    server.stop()?;
    let last = *shares.last().context("invariant: there is a refill")?;
    let all: Vec<String> = shares.into_iter().map(line).collect();
    let details = vec![
        format!("a fresh cell of {mib} MiB holds {} items of {after} B", fresh.items),
        format!(
            "of {before} B it held {}; then, after each limit's worth: {}",
            short.items,
            all.join(", ")
        ),
        format!("after flush_all and two more: {}", line(flushed)),
    ];
    let text = format!("{} after {} limits' worth of stores", line(last), REFILLS.len());
    Ok(Measured::new(text, last, last >= REFILLED_MIN).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_items_are_counted_by_the_memory_that_they_take() {
        let (short, long) = (Held { items: 100, bytes: 5_000 }, Held { items: 10, bytes: 40_000 });
        let mixed = Held { items: 60, bytes: 55 * 50 + 5 * 4_000 };
        assert_eq!(mixed.long(short, long), 5.0);
        assert_eq!((short.long(short, long), long.long(short, long)), (0.0, 10.0));
    }
}
