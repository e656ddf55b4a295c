//! A server that is watched while a load runs on it: its memory, the waits of its worker for a
//! core, what it states of itself; and commands that are sent to it meanwhile.
//!
//! Everything bears the time of the kernel's monotonic clock, so the slowest request is set beside
//! what happened when it was slow. The watcher runs on the generator's core: it must not take the
//! server's.
//!
//! A wait of the worker or of the generator for a core is the machine's fault, and is taken apart
//! from a latency. What it leaves behind is a queue, which makes later requests slow too. So the
//! waits count back to the moment when the worker last had nothing to do. How long the generator
//! worked before it sent a request is reported.
//!
//! Bounds: waits are read every [`WAITS`], memory every [`MEMORY`], statistics every [`STATED`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::generator::{ByTime, Load, Outcome, RUN_MAX};
use super::wire::Client;
use crate::lab::Lab;
use measure::account::{Waits, rss_bytes};
use measure::clock::mono_ns;
use measure::exec::Running;
use measure::process::Server;

/// How often the waits for a core are read.
const WAITS: Duration = Duration::from_millis(2);
/// How often memory is read.
const MEMORY: Duration = Duration::from_millis(50);
/// How often statistics are requested.
const STATED: Duration = Duration::from_millis(200);
/// When it is known which thread of the generator works.
const SETTLED: Duration = Duration::from_millis(300);
/// Readings that are looked at together: the kernel adds up times a few milliseconds late.
const TOGETHER: usize = 10;
/// From this share of the time on, the worker has had no pause.
const BUSY: f64 = 0.9;
/// The most changes of statistics that a line names.
const CHANGES_MAX: usize = 24;
const NS_PER_US: f64 = 1e3;

/// A command that is sent while the load runs.
pub struct Step {
    /// After the start of the load.
    pub after: Duration,
    /// Without the end of its line; its reply is `OK`.
    pub command: String,
}

/// How long both had waited for a core until a moment, and how long the server's worker had one.
#[derive(Clone, Copy)]
struct Waited {
    at_ns: u64,
    server_ran_ns: u64,
    server_ns: u64,
    generator_ns: u64,
}

/// What the server stated at a moment.
struct Stated {
    at_ns: u64,
    stats: BTreeMap<String, f64>,
}

/// A server under a load, and what was seen of it.
pub struct Seen {
    /// What the generator reports.
    pub outcome: Outcome,
    /// The same by time.
    pub by_time: ByTime,
    /// When each step was answered.
    pub answered_ns: Vec<u64>,
    /// Resident bytes by time.
    pub memory: Vec<(u64, u64)>,
    waited: Vec<Waited>,
    stated: Vec<Stated>,
}

/// The slowest request of a slot.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// When it was answered, at the latest.
    pub at_ns: u64,
    /// From the moment it was due.
    pub latency_us: f64,
    /// The part in which the server's worker worked. If it is all of it, requests were in a queue,
    /// or a step was long.
    pub worked_us: f64,
    /// How long the worker had had no pause when the request was due.
    pub busy_us: f64,
    /// How long the server's worker had no core since that pause; at most the latency.
    pub server_us: f64,
    /// How long the generator had none; at most the latency.
    pub generator_us: f64,
    /// The longest that a request of that time waited for the generator while a connection was
    /// free; part of it may be in the line before.
    pub own_us: f64,
}

impl Slow {
    /// The latency without the waits for a core.
    pub fn apart_us(&self) -> f64 {
        (self.latency_us - self.server_us - self.generator_us).max(0.0)
    }

    fn new(at_ns: u64, latency_us: f64) -> Self {
        let [worked_us, busy_us, server_us, generator_us, own_us] = [0.0; 5];
        Self { at_ns, latency_us, worked_us, busy_us, server_us, generator_us, own_us }
    }

    fn due_ns(&self) -> u64 {
        self.at_ns.saturating_sub((self.latency_us * NS_PER_US) as u64)
    }

    /// In words; `from_ns` is what the time counts from.
    pub fn line(&self, from_ns: u64) -> String {
        format!(
            "{:.1} ms, answered {:.0} ms after the limit changed; the worker worked {:.1} ms, \
             without a pause since {:.0} ms before; without a core: worker {:.1} ms, generator \
             {:.1} ms; generator's own delay {:.1} ms",
            self.latency_us / 1e3,
            (self.at_ns as f64 - from_ns as f64) / 1e6,
            self.worked_us / 1e3,
            self.busy_us / 1e3,
            self.server_us / 1e3,
            self.generator_us / 1e3,
            self.own_us / 1e3
        )
    }
}

/// What both have had of a time.
struct Taken {
    long_us: f64,
    ran_us: f64,
    server_us: f64,
    generator_us: f64,
}

impl Taken {
    /// Whether the worker worked all the time, or was kept from it.
    fn is_busy(&self) -> bool {
        self.ran_us + self.server_us + self.generator_us >= BUSY * self.long_us
    }
}

/// Runs a load and sends each of `steps`, in their order. `reports` are the commands of the
/// server's statistics.
pub fn watched(
    lab: &Lab,
    server: &Server,
    load: Load,
    reports: &[&str],
    steps: &[Step],
) -> Result<Seen> {
    let exec = lab.generator()?.args(load.words(server)).arg("--by-time");
    let (began, running) = (Instant::now(), exec.start(RUN_MAX)?);
    let (pid, ended) = (running.pid(), AtomicBool::new(false));
    let watch = || {
        thread::scope(|scope| {
            let kernel = scope.spawn(|| kernel(server.pid(), pid, began, &ended));
            let said = say(server, running, began, reports, steps);
            ended.store(true, Ordering::Relaxed);
            let kernel = kernel.join().expect("invariant: the watcher does not panic");
            said.and_then(|said| Ok((said, kernel?)))
        })
    };
    let ((outcome, answered_ns, stated), (memory, waited)) =
        lab.cores().generator().run(watch).context("move to the generator's core")??;
    let by_time = outcome.by_time()?;
    Ok(Seen { outcome, by_time, answered_ns, memory, waited, stated })
}

/// Sends the steps and requests statistics until the load has ended.
fn say(
    server: &Server,
    mut running: Running,
    began: Instant,
    reports: &[&str],
    steps: &[Step],
) -> Result<(Outcome, Vec<u64>, Vec<Stated>)> {
    let mut client = Client::connect(server.address())?;
    let (mut answered_ns, mut stated) = (Vec::new(), Vec::new());
    let (mut steps, mut next) = (steps.iter().peekable(), began);
    while running.is_alive() {
        if let Some(step) = steps.next_if(|step| began.elapsed() >= step.after) {
            client.command(&step.command)?;
            answered_ns.push(mono_ns());
        }
        if Instant::now() >= next {
            next = Instant::now() + STATED;
            let mut stats = BTreeMap::new();
            for report in reports {
                let numbers = client.stats_of(report)?.into_iter();
                stats.extend(numbers.filter_map(|(name, text)| Some((name, text.parse().ok()?))));
            }
            stated.push(Stated { at_ns: mono_ns(), stats });
        }
        thread::sleep(WAITS);
    }
    Ok((running.json()?, answered_ns, stated))
}

/// What the kernel counts of both until the load has ended: memory and waits by time.
#[allow(clippy::type_complexity, reason = "two series, taken apart where they are used")]
fn kernel(
    server: u32,
    generator: u32,
    began: Instant,
    ended: &AtomicBool,
) -> Result<(Vec<(u64, u64)>, Vec<Waited>)> {
    let worker = Waits::of_busiest(server)?;
    let (mut memory, mut waited) = (Vec::new(), Vec::new());
    let (mut next, mut loading) = (began, None);
    while !ended.load(Ordering::Relaxed) {
        if loading.is_none() && began.elapsed() >= SETTLED {
            // A generator that has ended has no thread any more: the loop ends soon too.
            loading = Waits::of_busiest(generator).ok();
        }
        // The end of the generator is the end of its account.
        let generator = loading.as_ref().and_then(|waits| waits.ran_and_waited_ns().ok());
        let [server_ran_ns, server_ns] = worker.ran_and_waited_ns()?;
        let generator_ns = generator.map_or(0, |[_, waited_ns]| waited_ns);
        waited.push(Waited { at_ns: mono_ns(), server_ran_ns, server_ns, generator_ns });
        if Instant::now() >= next {
            next = Instant::now() + MEMORY;
            memory.push((mono_ns(), rss_bytes(server)?));
        }
        thread::sleep(WAITS);
    }
    Ok((memory, waited))
}

impl Seen {
    /// The slowest request of every slot from a moment on.
    fn slow(&self, from_ns: u64) -> impl Iterator<Item = Slow> {
        let ByTime { began_mono_ns, slot_ms, worst_us, own_delay_us, .. } = &self.by_time;
        let end_ns = move |nth: usize| began_mono_ns + ((nth + 1) as f64 * slot_ms * 1e6) as u64;
        let slots = worst_us.iter().enumerate().filter(|(_, latency_us)| **latency_us > 0.0);
        let slots = slots.map(move |(nth, latency_us)| (nth, end_ns(nth), *latency_us));
        slots.filter(move |(_, at_ns, _)| *at_ns >= from_ns).map(move |(nth, at_ns, latency_us)| {
            let slots_long = (latency_us / 1e3 / slot_ms).ceil() as usize;
            let own = &own_delay_us[nth.saturating_sub(slots_long)..=nth];
            let own_us = own.iter().copied().fold(0.0, f64::max);
            self.with_waits(Slow { own_us, ..Slow::new(at_ns, latency_us) })
        })
    }

    /// With the waits of both since the worker last had a pause.
    fn with_waits(&self, slow: Slow) -> Slow {
        let Some([due, done]) = self.around(slow.due_ns(), slow.at_ns) else { return slow };
        let mut paused = due;
        while paused >= TOGETHER && self.taken(paused - TOGETHER, paused).is_busy() {
            paused -= TOGETHER;
        }
        let (own, all) = (self.taken(due, done), self.taken(paused, done));
        let most = |us: f64| us.min(slow.latency_us);
        Slow {
            worked_us: most(own.ran_us),
            busy_us: self.taken(paused, due).long_us,
            server_us: most(all.server_us),
            generator_us: most(all.generator_us),
            ..slow
        }
    }

    /// The two readings that enclose a time.
    fn around(&self, from_ns: u64, to_ns: u64) -> Option<[usize; 2]> {
        let last = self.waited.len().checked_sub(1)?;
        let before = self.waited.partition_point(|waited| waited.at_ns <= from_ns);
        let after = self.waited.partition_point(|waited| waited.at_ns < to_ns);
        Some([before.saturating_sub(1), after.min(last)])
    }

    /// What both have had between two readings.
    fn taken(&self, before: usize, after: usize) -> Taken {
        let (before, after) = (&self.waited[before], &self.waited[after]);
        let us = |of: fn(&Waited) -> u64| of(after).saturating_sub(of(before)) as f64 / NS_PER_US;
        Taken {
            long_us: us(|waited| waited.at_ns),
            ran_us: us(|waited| waited.server_ran_ns),
            server_us: us(|waited| waited.server_ns),
            generator_us: us(|waited| waited.generator_ns),
        }
    }

    /// The slowest request from a moment on, and the one that is slowest without its waits.
    pub fn worst(&self, from_ns: u64) -> Result<[Slow; 2]> {
        let by = |us: fn(&Slow) -> f64| {
            self.slow(from_ns).max_by(|one, other| us(one).total_cmp(&us(other)))
        };
        let worst = by(|slow| slow.latency_us).zip(by(Slow::apart_us));
        worst.map(|(raw, apart)| [raw, apart]).context("no request was answered after the step")
    }

    /// The statistics that changed around a request, by how much.
    pub fn changes(&self, slow: &Slow) -> String {
        let first = self.stated.iter().rev().find(|stated| stated.at_ns <= slow.due_ns());
        let last = self.stated.iter().find(|stated| stated.at_ns >= slow.at_ns);
        let Some((first, last)) = first.or(self.stated.first()).zip(last.or(self.stated.last()))
        else {
            return "no statistics".to_owned();
        };
        let changed = last.stats.iter().filter_map(|(name, after)| {
            let more = after - first.stats.get(name)?;
            (more != 0.0 && !is_passing(name)).then(|| format!("{name} {more:+}"))
        });
        let changes: Vec<String> = changed.take(CHANGES_MAX).collect();
        let over_ms = (last.at_ns as f64 - first.at_ns as f64) / 1e6;
        format!("within {over_ms:.0} ms around it: {}", changes.join(", "))
    }

    /// How long after `from_ns` the resident memory is below a bound and stays so until
    /// `until_ns`; none if it is above at the end.
    pub fn below_after_ns(&self, bound_bytes: u64, from_ns: u64, until_ns: u64) -> Option<u64> {
        let within = self.memory.iter().filter(|(at_ns, _)| (from_ns..until_ns).contains(at_ns));
        let mut last_above = None;
        let mut last = None;
        for (at_ns, rss_bytes) in within {
            last = Some(rss_bytes <= &bound_bytes);
            if *rss_bytes > bound_bytes {
                last_above = Some(*at_ns);
            }
        }
        (last == Some(true)).then(|| last_above.map_or(0, |at_ns| at_ns - from_ns))
    }

    /// A line for every second from shortly before a moment on.
    pub fn seconds(&self, from_ns: u64) -> Vec<String> {
        let ByTime { began_mono_ns, seconds, .. } = &self.by_time;
        let line = |(nth, second): (usize, &super::generator::Second)| {
            let start_ns = began_mono_ns + nth as u64 * 1_000_000_000;
            let end_ns = start_ns + 1_000_000_000;
            let rss = self.memory.iter().rev().find(|(at_ns, _)| *at_ns <= end_ns);
            let around = self.around(start_ns, end_ns);
            let taken = around.map(|[before, after]| self.taken(before, after));
            format!(
                "second {:+.1}: {} answered, p50 {:.2} p99 {:.2} p99.9 {:.2} max {:.2} ms; RSS {} \
                 MiB; worker busy {:.0} %; without a core: worker {:.1} ms, generator {:.1} ms",
                (start_ns as f64 - from_ns as f64) / 1e9,
                second.count,
                second.p50_us / 1e3,
                second.p99_us / 1e3,
                second.p999_us / 1e3,
                second.max_us / 1e3,
                rss.map_or(0, |(_, rss_bytes)| rss_bytes >> 20),
                taken.as_ref().map_or(0.0, |taken| taken.ran_us / taken.long_us * 100.0),
                taken.as_ref().map_or(0.0, |taken| taken.server_us / 1e3),
                taken.as_ref().map_or(0.0, |taken| taken.generator_us / 1e3)
            )
        };
        seconds.iter().enumerate().map(line).collect()
    }
}

/// Counts that change with every request or with time: they say nothing of a slow one.
fn is_passing(name: &str) -> bool {
    const PASSING: [&str; 14] = [
        "uptime",
        "time",
        "rusage_user",
        "rusage_system",
        "cmd_set",
        "bytes_read",
        "bytes_written",
        "total_items",
        "wait_calls",
        "read_calls",
        "write_calls",
        "readable_events",
        "evicted_unfetched",
        "total_connections",
    ];
    PASSING.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn seen() -> Seen {
        let mut worst_us = vec![100.0; 100];
        worst_us[50] = 12_000.0;
        worst_us[80] = 9_000.0;
        let by_time = ByTime {
            began_mono_ns: 1_000 * MS,
            slot_ms: 2.0,
            own_delay_us: vec![10.0; 100],
            worst_us,
            ..ByTime::default()
        };
        // The worker lacks a core for 10 ms until 1100, in which slot 50 ends.
        let waited = (0..200).map(|nth| Waited {
            at_ns: (1_000 + nth) * MS,
            server_ran_ns: nth * MS / 2,
            server_ns: if nth >= 100 { 10 * MS } else { 0 },
            generator_ns: 0,
        });
        let stated = [(1_000, 5.0), (1_200, 8.0)].map(|(at_ms, kept)| Stated {
            at_ns: at_ms * MS,
            stats: [("items_kept".to_owned(), kept), ("time".to_owned(), kept)].into(),
        });
        Seen {
            outcome: serde_json::from_str("{}").unwrap(),
            by_time,
            answered_ns: vec![1_010 * MS],
            memory: vec![(1_000 * MS, 90), (1_050 * MS, 60), (1_100 * MS, 40), (1_150 * MS, 30)],
            waited: waited.collect(),
            stated: stated.into(),
        }
    }

    #[test]
    fn a_wait_for_a_core_is_taken_apart_from_the_latency() {
        let seen = seen();
        let [raw, apart] = seen.worst(1_010 * MS).unwrap();
        assert_eq!((raw.latency_us, raw.at_ns, raw.server_us), (12_000.0, 1_102 * MS, 10_000.0));
        assert_eq!((apart.latency_us, apart.apart_us()), (9_000.0, 9_000.0));
        assert!(raw.line(1_002 * MS).contains("12.0 ms, answered 100 ms after"));
        assert!(seen.worst(2_000 * MS).is_err(), "nothing was answered then");
        assert_eq!(seen.changes(&raw), "within 200 ms around it: items_kept +3");
    }

    #[test]
    fn a_wait_counts_until_the_worker_has_had_a_pause() {
        // Without a pause from 1050 on: the wait that ended at 1100 still holds up slot 80.
        let mut seen = seen();
        for (nth, waited) in seen.waited.iter_mut().enumerate().skip(50) {
            waited.server_ran_ns += (nth as u64 - 50) * MS / 2;
        }
        let slow = seen.slow(1_162 * MS).next().unwrap();
        assert_eq!((slow.latency_us, slow.server_us), (9_000.0, 9_000.0));
        assert!((90e3..130e3).contains(&slow.busy_us), "{slow:?}");
        assert_eq!(slow.apart_us(), 0.0);
    }

    #[test]
    fn memory_must_stay_below_its_bound() {
        let seen = seen();
        let below = |bound, until| seen.below_after_ns(bound, 1_010 * MS, until * MS);
        assert_eq!(below(50, 2_000), Some(40 * MS));
        assert_eq!(below(70, 2_000), Some(0));
        assert_eq!(below(20, 2_000), None);
        assert_eq!(below(50, 1_060), None, "it was above at the end");
    }
}
