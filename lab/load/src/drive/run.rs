//! A run from its first connection to its last reply.
//!
//! It opens the connections, starts a thread per lane, samples the server's CPU time at both ends
//! of the measured window, and joins what the threads return. It never touches a reply. Every wait
//! has a deadline, so a stop is noticed within a tick.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::plan::{Limit, Plan};
use super::watch::{Glimpse, Watch};
use super::worker::{Lane, Worker};
use crate::server::{Probe, Sample};
use crate::tally::Tally;
use measure::Error;
use measure::clock::mono_ns;

/// The longest wait of the thread that watches the others.
const WATCH_TICK: Duration = Duration::from_millis(100);

/// Descriptors that are not connections: standard streams, epoll, the probe.
const SPARE_DESCRIPTORS: u64 = 64;

/// What a run found.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Everything counted.
    pub tally: Tally,
    /// When the measured window began, by the clock that processes share.
    pub began_mono_ns: u64,
    /// Length of the measured window.
    pub window_ns: u64,
    /// CPU time of the generator's threads in the window.
    pub own_cpu_ns: u64,
    /// The busiest thread's share of one core, 0 to 1.
    pub busiest: f64,
    /// The largest share of the window that a thread waited for a core, 0 to 1.
    pub starved: f64,
    /// The share of one core, 0 to 1, that the hypervisor took from the machine in the window.
    pub stolen: f64,
    /// The server's CPU time in the window, where it is known.
    pub server: Option<ServerCpu>,
    /// Whether it was stopped.
    pub stopped: bool,
    /// Whether it ended because no reply came.
    pub gave_up: bool,
}

/// CPU time of the server, scaled to the measured window.
#[derive(Clone, Debug)]
pub struct ServerCpu {
    /// Seconds in all.
    pub cpu_s: f64,
    /// User and system seconds where the source distinguishes them.
    pub parts_s: Option<(f64, f64)>,
    /// The server's version where it states one.
    pub version: Option<String>,
    /// Where the figure comes from.
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
    let (start, start_ns) = (Instant::now(), mono_ns());
    let (lanes, marks) = thread::scope(|scope| {
        let carry = |worker: Worker<'_>, done: mpsc::Sender<()>| {
            let lane = worker.run(start, watch);
            // The watcher may have ended already; then the message is not needed.
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
            .map(|handle| handle.join().expect("invariant: threads of the generator do not panic"))
            .collect();
        // Closed after the server's last sample: it may end a thread with each connection, and the
        // kernel forgets the time of a thread that has ended.
        lanes.iter_mut().flatten().for_each(|lane| lane.connections.clear());
        (lanes, marks)
    });
    Ok(conclude(plan, &lanes?, start_ns, marks, probe.name()))
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
        let over = end.is_some_and(|end| now >= end) || watch.is_stopped();
        if last.is_none() && over {
            last = Some(probe.sample());
        }
        if watch.is_live() && now >= shown + Duration::from_secs(1) {
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

/// Joins what the threads return.
fn conclude(
    plan: &Plan,
    lanes: &[Lane],
    start_ns: u64,
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
            // The samples were not taken exactly at the edges of the window.
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
        began_mono_ns: start_ns + warmup_ns,
        window_ns,
        own_cpu_ns: lanes.iter().map(|lane| lane.usage.cpu_ns).sum(),
        busiest: largest_share(|lane| lane.usage.cpu_ns),
        starved: largest_share(|lane| lane.usage.starved_ns),
        stolen: largest_share(|lane| lane.usage.stolen_ns),
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
            "{needed} descriptors are needed, and {maximum} are allowed: lower --connections or \
             raise the hard limit (ulimit -Hn)"
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|errno| Error::io(format!("cannot raise the limit to {needed} files"), errno))
}
