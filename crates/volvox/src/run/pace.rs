//! How fast a cell copies what it has to one that learns it, and frees what it has no more: clients
//! come first.
//!
//! ```text
//! each 20 ms:  hardly a request was executed           -> rest half as long between two steps
//!              workers have waited for a processor for
//!              more than a part of the time            -> twice as long
//!              no more                                 -> an eighth shorter
//! ```
//!
//! It begins with the longest rest.
//!
//! They wait where other threads have the processors, and where the process has used up its share
//! of them. Where the system does not say how long, the rest stays the shortest. Additive increase
//! and multiplicative decrease, as TCP has it, for a rate that nobody knows.

use std::fs;
use std::time::Duration;

/// The rest between two steps, at least and at most. With the longest, 60,000 items are copied in a
/// second: an operation ends, whatever else there is to do.
const REST_MIN: Duration = Duration::from_micros(200);
const REST_MAX: Duration = Duration::from_millis(8);
/// While workers wait, a step that has taken long is followed by this many times as much rest. What
/// took longer than the longest step was stopped itself.
const RESTS_OF_STEP: u32 = 4;
const STEP_MAX: Duration = Duration::from_millis(4);
/// How often it is looked.
const LOOK_NS: u64 = 20_000_000;
/// The part of the time for which each worker may wait, in thousandths.
const WAITS_PER_MILLE: u64 = 100;
/// Fewer requests in that time count as none.
const REQUESTS_MIN: u64 = 10;
/// Threads that are looked at.
const THREADS_MAX: usize = 64;
/// The beginnings of the names of threads that serve clients.
const SERVE: [&str; 2] = ["worker-", "client-"];

/// What there was until a moment.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at_ns: u64,
    /// For how long all threads together had waited.
    waited_ns: u64,
    /// Requests that were executed.
    executed: u64,
}

/// How long to rest between two steps.
#[derive(Debug)]
pub(super) struct Pace {
    rest: Duration,
    /// What was seen when it was looked last.
    looked: Option<Seen>,
    /// Files of the threads that serve clients.
    threads: Vec<String>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rest: REST_MAX, looked: None, threads: Vec::new() }
    }
}

impl Pace {
    /// How long to rest before the next step. The last one has begun at `begun_ns`; requests that
    /// are `executed` are counted from any moment on.
    pub(super) fn rest(
        &mut self,
        (begun_ns, now_ns): (u64, u64),
        executed: impl FnOnce() -> u64,
    ) -> Duration {
        if self.looked.is_none_or(|seen| now_ns >= seen.at_ns + LOOK_NS) {
            if self.looked.is_none() {
                self.threads = serving();
            }
            let now = Seen { at_ns: now_ns, waited_ns: self.waited_ns(), executed: executed() };
            if let Some(before) = self.looked.replace(now) {
                let all_ns = (now_ns - before.at_ns) * self.threads.len().max(1) as u64;
                let waited_ns = now.waited_ns.saturating_sub(before.waited_ns);
                self.adapt(waited_ns * 1000 / all_ns, now.executed - before.executed);
            }
        }
        let step = Duration::from_nanos(now_ns.saturating_sub(begun_ns));
        match self.rest > REST_MIN {
            true => self.rest.max(step.min(STEP_MAX) * RESTS_OF_STEP),
            false => self.rest,
        }
    }

    /// Nothing is copied or freed now.
    pub(super) fn stops(&mut self) {
        (self.rest, self.looked) = (REST_MAX, None);
    }

    /// The threads have waited for this part of the time, in thousandths, in which requests were
    /// `executed`.
    fn adapt(&mut self, per_mille: u64, executed: u64) {
        self.rest = match per_mille > WAITS_PER_MILLE {
            _ if executed < REQUESTS_MIN => (self.rest / 2).max(REST_MIN),
            true => (self.rest * 2).min(REST_MAX),
            false => (self.rest - self.rest / 8).max(REST_MIN),
        };
    }

    /// For how long the threads have waited for a processor, all together.
    fn waited_ns(&self) -> u64 {
        self.threads.iter().filter_map(|path| waited_in(&fs::read_to_string(path).ok()?)).sum()
    }
}

/// What the system says of the threads that serve clients, as files.
fn serving() -> Vec<String> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let paths = tasks.filter_map(|task| {
        let path = task.ok()?.path();
        let name = fs::read_to_string(path.join("comm")).ok()?;
        let serves = SERVE.iter().any(|begin| name.starts_with(begin));
        serves.then(|| path.join("schedstat").display().to_string())
    });
    paths.take(THREADS_MAX).collect()
}

/// The second number of `schedstat`: nanoseconds in which a thread could run and did not.
fn waited_in(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_longer_while_workers_wait_and_shorter_again_after_that() {
        let mut pace = Pace { rest: REST_MIN, ..Pace::default() };
        pace.adapt(WAITS_PER_MILLE, REQUESTS_MIN);
        assert_eq!(pace.rest, REST_MIN);
        pace.adapt(WAITS_PER_MILLE + 1, REQUESTS_MIN);
        assert_eq!(pace.rest, REST_MIN * 2);
        (0..20).for_each(|_| pace.adapt(1000, 1000));
        assert_eq!(pace.rest, REST_MAX);
        pace.adapt(0, 1000);
        assert_eq!(pace.rest, REST_MAX * 7 / 8);
        (0..100).for_each(|_| pace.adapt(0, 1000));
        assert_eq!(pace.rest, REST_MIN);
        // Where no client asks for anything, they wait for what copying takes alone.
        pace = Pace::default();
        (0..10).for_each(|_| pace.adapt(1000, REQUESTS_MIN - 1));
        assert_eq!(pace.rest, REST_MIN);
    }

    #[test]
    fn what_the_system_says_of_a_thread_is_read() {
        assert_eq!(waited_in("17 4200 3\n"), Some(4200));
        assert_eq!(waited_in(""), None);
        let own = fs::read_to_string("/proc/thread-self/schedstat");
        assert!(own.is_ok_and(|text| waited_in(&text).is_some()), "the kernel counts it");
    }

    #[test]
    fn it_is_looked_at_most_each_twenty_milliseconds() {
        let mut pace = Pace::default();
        let rest = |pace: &mut Pace, now_ns| pace.rest((now_ns, now_ns), || now_ns);
        assert_eq!(rest(&mut pace, 0), REST_MAX);
        assert_eq!(rest(&mut pace, LOOK_NS - 1), REST_MAX);
        // No thread of this process serves clients.
        assert_eq!(rest(&mut pace, LOOK_NS), REST_MAX * 7 / 8);
        pace.stops();
        assert_eq!(rest(&mut pace, 9 * LOOK_NS), REST_MAX, "it begins again");
        let begun_ns = 9 * LOOK_NS;
        let rest = pace.rest((begun_ns, begun_ns + 9_000_000), || 0);
        assert_eq!(rest, STEP_MAX * 4, "it was stopped");
    }
}
