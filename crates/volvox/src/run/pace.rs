//! How fast a cell copies what it has to one that learns it, and frees what it has no more: clients
//! come first.
//!
//! ```text
//! each 20 ms:  the share of the processors was used up, or workers have waited for one
//!              for more than a tenth of that time
//!                                   -> rest twice as long between two steps
//!              neither              -> a 32nd shorter
//!              and they hardly wait -> a quarter shorter
//! ```
//!
//! Where the system says neither, the rest comes to be the shortest. As TCP finds a rate that
//! nobody knows, it is raised a little, and halved where it was too much. It begins with the
//! longest rest, and is raised slowly: each time that a share of the processors is used up,
//! clients wait for some milliseconds, and of a hundred requests not one should.

use std::fs;
use std::path::{Path, PathBuf};
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
/// Workers that wait for less have hardly anything to do.
const IDLE_PER_MILLE: u64 = 5;
/// By which part of it the rest becomes shorter: where workers have something to do, and where not.
const SHORTER: u32 = 32;
const SHORTER_IDLE: u32 = 4;
/// Groups that are looked at.
const SHARES_MAX: usize = 16;
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
    /// Files about the shares of the processors that the process has.
    shares: Vec<PathBuf>,
    /// How often these were used up until it was looked.
    used_up: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rest: REST_MAX, looked: None, threads: Vec::new(), shares: Vec::new(), used_up: 0 }
    }
}

impl Pace {
    /// How long to rest before the next step. The last one has begun at `begun_ns`.
    pub(super) fn rest(&mut self, begun_ns: u64, now_ns: u64) -> Duration {
        match self.looked {
            None => {
                (self.threads, self.shares) = (serving(), shares());
                self.looked = Some((now_ns, self.waited_ns()));
                self.used_up = used_up(&self.shares);
            }
            Some((at_ns, before_ns)) if now_ns >= at_ns + LOOK_NS => {
                let waited_ns = self.waited_ns();
                let all_ns = (now_ns - at_ns) * self.threads.len().max(1) as u64;
                let used_up = used_up(&self.shares);
                let is_used_up = used_up > self.used_up;
                self.adapt(waited_ns.saturating_sub(before_ns) * 1000 / all_ns, is_used_up);
                (self.looked, self.used_up) = (Some((now_ns, waited_ns)), used_up);
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

    /// The threads have waited for this part of the time, in thousandths, and a share of the
    /// processors was used up or not.
    fn adapt(&mut self, per_mille: u64, is_used_up: bool) {
        self.rest = match per_mille {
            _ if is_used_up => (self.rest * 2).min(REST_MAX),
            0..IDLE_PER_MILLE => (self.rest - self.rest / SHORTER_IDLE).max(REST_MIN),
            IDLE_PER_MILLE..=WAITS_PER_MILLE => (self.rest - self.rest / SHORTER).max(REST_MIN),
            _ => (self.rest * 2).min(REST_MAX),
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

/// Where the system counts how often the groups of this process had used up their shares of the
/// processors: its own group, and those that hold that.
fn shares() -> Vec<PathBuf> {
    let Ok(groups) = fs::read_to_string("/proc/self/cgroup") else { return Vec::new() };
    let named = groups.lines().filter_map(group_in).flat_map(|(root, group)| {
        let path = Path::new(root).join(group.trim_start_matches('/'));
        let within: Vec<_> = path.ancestors().map(Path::to_path_buf).collect();
        within.into_iter().take_while(move |it| it.starts_with(root))
    });
    let files = named.map(|group| group.join("cpu.stat"));
    files.filter(|it| it.is_file()).take(SHARES_MAX).collect()
}

/// Where groups of processors are, and which one a line of `/proc/self/cgroup` names.
fn group_in(line: &str) -> Option<(&'static str, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (kinds, group) = rest.split_once(':')?;
    match kinds {
        "" => Some(("/sys/fs/cgroup", group)),
        _ => kinds.split(',').any(|kind| kind == "cpu").then_some(("/sys/fs/cgroup/cpu", group)),
    }
}

/// How often the shares of these files were used up.
fn used_up(files: &[PathBuf]) -> u64 {
    files.iter().filter_map(|path| used_up_in(&fs::read_to_string(path).ok()?)).sum()
}

/// The number of `nr_throttled`.
fn used_up_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
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
        pace.adapt(WAITS_PER_MILLE, false);
        assert_eq!(pace.rest, REST_MIN);
        pace.adapt(WAITS_PER_MILLE + 1, false);
        assert_eq!(pace.rest, REST_MIN * 2);
        pace.adapt(0, true);
        assert_eq!(pace.rest, REST_MIN * 4);
        (0..20).for_each(|_| pace.adapt(1000, false));
        assert_eq!(pace.rest, REST_MAX);
        pace.adapt(IDLE_PER_MILLE, false);
        assert_eq!(pace.rest, REST_MAX * 31 / 32);
        (0..20).for_each(|_| pace.adapt(0, false));
        assert_eq!(pace.rest, REST_MIN);
    }

    #[test]
    fn the_groups_of_a_process_are_found_and_their_counts() {
        let v1 = group_in("4:cpu,cpuacct:/docker/7f");
        assert_eq!(v1, Some(("/sys/fs/cgroup/cpu", "/docker/7f")));
        assert_eq!(group_in("3:cpuset:/a"), None);
        assert_eq!(group_in("0::/user.slice"), Some(("/sys/fs/cgroup", "/user.slice")));
        let text = "usage_usec 7\nnr_periods 9\nnr_throttled 3\nthrottled_usec 8\n";
        assert_eq!((used_up_in(text), used_up_in("usage_usec 7\n")), (Some(3), None));
        assert!(shares().len() <= SHARES_MAX);
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
        assert_eq!(rest(&mut pace, LOOK_NS), REST_MAX * 3 / 4);
        pace.stops();
        assert_eq!(rest(&mut pace, 9 * LOOK_NS), REST_MAX * 3 / 4, "it goes on from there");
        assert_eq!(pace.rest(0, 3_000_000), Duration::from_millis(12), "the step was long");
    }
}
