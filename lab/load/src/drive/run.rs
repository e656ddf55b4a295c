//! A run from its first connection to its last reply.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::plan::{Limit, Plan};
use super::worker::{Lane, Worker};
use crate::server::{Probe, Sample};
use crate::tally::Tally;
use measure::Error;

/// Longest sleep of the thread that watches the others.
const WATCH_TICK: Duration = Duration::from_millis(100);

/// Descriptors that are not connections: standard streams, epoll, the probe.
const SPARE_DESCRIPTORS: u64 = 64;

/// How a run is watched and stopped from outside.
pub struct Watch {
    /// Set to end the run early; the report is still made.
    pub stop: Arc<AtomicBool>,
    /// Whether threads publish snapshots.
    pub(super) live: bool,
    snapshots: Mutex<Vec<(u64, Option<Histogram<u64>>)>>,
}

impl Watch {
    /// A watch over a run; `live` when somebody looks on.
    #[must_use]
    pub fn new(stop: Arc<AtomicBool>, live: bool) -> Self {
        Self { stop, live, snapshots: Mutex::default() }
    }

    /// Whether somebody looks on.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Forgets what the threads of an earlier run left.
    fn clear(&self) {
        self.snapshots.lock().expect("no holder of this lock panics").clear();
    }

    /// Leaves a thread's counts for the watcher.
    pub(super) fn publish(&self, lane: usize, replies: u64, tally: &Tally) {
        let mut latencies = tally.get_ns.clone();
        for more in [&tally.set_ns, &tally.delete_ns, &tally.modify_ns] {
            latencies.add(more).expect("all histograms have the same bounds");
        }
        let mut snapshots = self.snapshots.lock().expect("no holder of this lock panics");
        if snapshots.len() <= lane {
            snapshots.resize(lane + 1, (0, None));
        }
        snapshots[lane] = (replies, Some(latencies));
    }

    /// What the threads left last.
    fn look(&self, time: Duration) -> Glimpse {
        let snapshots = self.snapshots.lock().expect("no holder of this lock panics");
        let mut replies = 0;
        let mut merged: Option<Histogram<u64>> = None;
        for (count, latencies) in snapshots.iter() {
            replies += count;
            match (&mut merged, latencies) {
                (Some(sum), Some(more)) => {
                    sum.add(more).expect("all histograms have the same bounds");
                }
                (sum, more) => *sum = more.clone(),
            }
        }
        Glimpse { time, replies, latencies_ns: merged }
    }
}

/// A run while it goes on.
#[derive(Clone, Debug)]
pub struct Glimpse {
    /// Since its start.
    pub time: Duration,
    /// Replies so far, warm-up included.
    pub replies: u64,
    /// Latencies of the measured ones, once a thread has told.
    pub latencies_ns: Option<Histogram<u64>>,
}

/// What a run has shown.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Everything counted.
    pub tally: Tally,
    /// Length of the measured window.
    pub window_ns: u64,
    /// CPU time of the generator's threads in the window.
    pub own_cpu_ns: u64,
    /// The busiest thread's share of one core, 0 to 1.
    pub busiest: f64,
    /// The largest share of the window that a thread waited for a core, 0 to 1.
    pub starved: f64,
    /// The server's CPU time in the window, where it is known.
    pub server: Option<ServerCpu>,
    /// Whether it was told to stop.
    pub stopped: bool,
    /// Whether it ended for want of any reply.
    pub gave_up: bool,
}

/// CPU time of the server, scaled to the measured window.
#[derive(Clone, Debug)]
pub struct ServerCpu {
    /// Seconds in all.
    pub cpu_s: f64,
    /// User and system seconds where they are told apart.
    pub parts_s: Option<(f64, f64)>,
    /// The server's version where it tells.
    pub version: Option<String>,
    /// Where the figure is from.
    pub source: &'static str,
}

/// Carries `plan` out. `progress` is called about once a second when `watch` is live.
///
/// # Errors
/// When a setting is out of range, a connection cannot be opened, or a system call fails.
pub fn run(
    plan: &Plan,
    watch: &Watch,
    progress: &mut dyn FnMut(&Glimpse),
) -> Result<Observed, Error> {
    plan.check()?;
    watch.clear();
    let plan = &Plan { target: plan.target.reached()?, ..plan.clone() };
    allow_descriptors(plan.connections as u64 + SPARE_DESCRIPTORS)?;
    let workers = (0..plan.threads)
        .map(|lane| Worker::connect(plan, lane))
        .collect::<Result<Vec<_>, Error>>()?;
    let probe = match plan.server_pid {
        Some(pid) => Probe::Process(pid),
        None => Probe::Stats(plan.target.clone()),
    };
    let (done, finished) = mpsc::channel();
    let start = Instant::now();
    let (lanes, marks) = thread::scope(|scope| {
        let carry = |worker: Worker<'_>, done: mpsc::Sender<()>| {
            let lane = worker.run(start, watch);
            // The watcher may have left already; then nobody waits for this.
            let _ = done.send(());
            lane
        };
        let handles: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let done = done.clone();
                scope.spawn(move || carry(worker, done))
            })
            .collect();
        drop(done);
        let marks = observe(plan, &probe, start, &finished, watch, progress);
        let mut lanes: Result<Vec<Lane>, Error> = handles
            .into_iter()
            .map(|handle| handle.join().expect("threads of the generator do not panic"))
            .collect();
        // Closed only now that the server was sampled: it may end a thread with each connection,
        // and the kernel forgets the time of a thread that has ended.
        lanes.iter_mut().flatten().for_each(|lane| lane.connections.clear());
        (lanes, marks)
    });
    Ok(conclude(plan, &lanes?, marks, probe.name()))
}

/// Samples the server at both ends of the window, and shows progress in between.
fn observe(
    plan: &Plan,
    probe: &Probe,
    start: Instant,
    finished: &Receiver<()>,
    watch: &Watch,
    progress: &mut dyn FnMut(&Glimpse),
) -> [Option<Sample>; 2] {
    let begin = start + plan.warmup;
    let end = match plan.limit {
        Limit::Time(time) => Some(begin + time),
        Limit::Requests(_) => None,
    };
    let (mut first, mut last) = (None, None);
    let mut shown = start;
    loop {
        let now = Instant::now();
        if first.is_none() && now >= begin {
            first = Some(probe.sample());
        }
        let over = end.is_some_and(|end| now >= end) || watch.stop.load(Ordering::Relaxed);
        if last.is_none() && over {
            last = Some(probe.sample());
        }
        if watch.live && now >= shown + Duration::from_secs(1) {
            progress(&watch.look(now - start));
            shown = now;
        }
        let next = [Some(begin), end].into_iter().flatten().filter(|mark| *mark > now).min();
        let wait = next.map_or(WATCH_TICK, |mark| (mark - now).min(WATCH_TICK));
        match finished.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => {}
            // The first thread to end closes the window if no fixed time does.
            Ok(()) if last.is_none() && end.is_none() => last = Some(probe.sample()),
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    [first.flatten(), last.unwrap_or_else(|| probe.sample())]
}

/// Joins what the threads brought back.
fn conclude(
    plan: &Plan,
    lanes: &[Lane],
    marks: [Option<Sample>; 2],
    source: &'static str,
) -> Observed {
    let mut tally = Tally::default();
    for lane in lanes {
        tally.merge(&lane.tally);
    }
    let warmup_ns = plan.warmup.as_nanos() as u64;
    let window = |lane: &Lane| lane.window_end_ns.saturating_sub(warmup_ns);
    let window_ns = lanes.iter().map(window).max().unwrap_or(0);
    let largest_share = |time_ns: fn(&Lane) -> u64| {
        let longest_ns = lanes.iter().map(time_ns).max().unwrap_or(0);
        longest_ns as f64 / window_ns.max(1) as f64
    };
    let server = match marks {
        [Some(first), Some(last)] if last.at > first.at => {
            // The samples were taken a little beside the window's edges.
            let scale = window_ns as f64 / 1e9 / (last.at - first.at).as_secs_f64();
            let parts_s = first.parts_s.zip(last.parts_s).map(|(before, after)| {
                ((after.0 - before.0) * scale, (after.1 - before.1) * scale)
            });
            let cpu_s = (last.cpu_s - first.cpu_s) * scale;
            Some(ServerCpu { cpu_s, parts_s, version: last.version, source })
        }
        _ => None,
    };
    Observed {
        tally,
        window_ns,
        own_cpu_ns: lanes.iter().map(|lane| lane.usage.cpu_ns).sum(),
        busiest: largest_share(|lane| lane.usage.cpu_ns),
        starved: largest_share(|lane| lane.usage.starved_ns),
        server,
        stopped: lanes.iter().any(|lane| lane.stopped),
        gave_up: lanes.iter().any(|lane| lane.gave_up),
    }
}

/// Raises the soft limit of open files as far as the hard one allows.
fn allow_descriptors(needed: u64) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = limit.maximum.filter(|maximum| *maximum < needed) {
        return Err(Error::Setting(format!(
            "{needed} descriptors are needed and {maximum} allowed; lower --connections or raise \
             the hard limit (ulimit -Hn)"
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|errno| Error::io(format!("cannot raise the limit to {needed} files"), errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Kind;

    #[test]
    fn a_glimpse_holds_every_kind_of_request_and_nothing_of_the_run_before() {
        let watch = Watch::new(Arc::default(), true);
        let mut tally = Tally::default();
        tally.complete(Kind::Delete, 1_000);
        tally.complete(Kind::Modify, 2_000);
        watch.publish(0, 5, &tally);
        watch.publish(1, 7, &Tally::default());
        let glimpse = watch.look(Duration::ZERO);
        assert_eq!((glimpse.replies, glimpse.latencies_ns.unwrap().len()), (12, 2));
        watch.clear();
        let glimpse = watch.look(Duration::ZERO);
        assert!(glimpse.replies == 0 && glimpse.latencies_ns.is_none());
    }
}
