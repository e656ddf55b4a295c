//! How fast a cell copies what it has to one that learns it, and frees what it has no more: clients
//! come first.
//!
//! ```text
//! each 20 ms:  the part of that time for which workers have waited for a processor
//!              more than a part     -> rest twice as long between two steps
//!              no more              -> an eighth shorter
//! ```
//!
//! They wait where other threads have the processors, and where the process has used up its share
//! of them. Where the system does not say how long, the rest stays the shortest. As TCP finds a
//! rate that nobody knows, it is raised a little, and halved where it was too much.

use std::fs;
use std::time::Duration;

/// The rest between two steps, at least and at most, but for what follows a long step.
const REST_MIN: Duration = Duration::from_micros(200);
const REST_MAX: Duration = Duration::from_millis(8);
/// While workers wait, a step that has taken long is followed by this many times as much rest. What
/// took longer than the longest step was stopped itself. So a step comes each 20 ms at least, and
/// 25,000 items are copied in a second: an operation ends, whatever else there is to do.
const RESTS_OF_STEP: u32 = 4;
const STEP_MAX: Duration = Duration::from_millis(4);
/// How often it is looked.
const LOOK_NS: u64 = 20_000_000;
/// The part of the time for which each worker may wait, in thousandths.
const WAITS_PER_MILLE: u64 = 100;
/// Threads that are looked at.
const THREADS_MAX: usize = 64;
/// The beginnings of the names of threads that serve clients.
const SERVE: [&str; 2] = ["worker-", "client-"];

/// How long to rest between two steps.
#[derive(Debug)]
pub(super) struct Pace {
    rest: Duration,
    /// When it was looked, and for how long all threads together had waited until then.
    looked: Option<(u64, u64)>,
    /// Files of the threads that serve clients.
    threads: Vec<String>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rest: REST_MIN, looked: None, threads: Vec::new() }
    }
}

impl Pace {
    /// How long to rest before the next step. The last one has begun at `begun_ns`.
    pub(super) fn rest(&mut self, begun_ns: u64, now_ns: u64) -> Duration {
        match self.looked {
            None => {
                self.threads = serving();
                self.looked = Some((now_ns, self.waited_ns()));
            }
            Some((at_ns, before_ns)) if now_ns >= at_ns + LOOK_NS => {
                let waited_ns = self.waited_ns();
                let all_ns = (now_ns - at_ns) * self.threads.len().max(1) as u64;
                self.adapt(waited_ns.saturating_sub(before_ns) * 1000 / all_ns);
                self.looked = Some((now_ns, waited_ns));
            }
            Some(_) => {}
        }
        let step = Duration::from_nanos(now_ns.saturating_sub(begun_ns));
        match self.rest > REST_MIN {
            true => self.rest.max(step.min(STEP_MAX) * RESTS_OF_STEP),
            false => self.rest,
        }
    }

    /// Nothing is copied now. The next time begins where this one has ended.
    pub(super) fn stops(&mut self) {
        self.looked = None;
    }

    /// The threads have waited for this part of the time, in thousandths.
    fn adapt(&mut self, per_mille: u64) {
        self.rest = match per_mille > WAITS_PER_MILLE {
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
        let mut pace = Pace::default();
        pace.adapt(WAITS_PER_MILLE);
        assert_eq!(pace.rest, REST_MIN);
        pace.adapt(WAITS_PER_MILLE + 1);
        assert_eq!(pace.rest, REST_MIN * 2);
        (0..20).for_each(|_| pace.adapt(1000));
        assert_eq!(pace.rest, REST_MAX);
        pace.adapt(0);
        assert_eq!(pace.rest, REST_MAX * 7 / 8);
        (0..100).for_each(|_| pace.adapt(0));
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
        let mut pace = Pace { rest: REST_MAX, ..Pace::default() };
        let rest = |pace: &mut Pace, now_ns| pace.rest(now_ns, now_ns);
        assert_eq!(rest(&mut pace, 0), REST_MAX);
        assert_eq!(rest(&mut pace, LOOK_NS - 1), REST_MAX);
        // No thread of this process serves clients.
        assert_eq!(rest(&mut pace, LOOK_NS), REST_MAX * 7 / 8);
        pace.stops();
        assert_eq!(rest(&mut pace, 9 * LOOK_NS), REST_MAX * 7 / 8, "it goes on from there");
        assert_eq!(pace.rest(0, 3_000_000), Duration::from_millis(12), "the step was long");
    }
}
