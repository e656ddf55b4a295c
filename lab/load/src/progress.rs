//! The line that shows that work goes on, on a terminal only: time, count and rate so far.
//!
//! It is written at most once a second, whatever the caller does. Times are seconds.

use std::time::Duration;

use crate::drive::Watch;
use measure::screen::Line;

/// The time between two lines.
const EVERY: Duration = Duration::from_secs(1);
/// Characters of a bar.
const BAR: usize = 20;

/// The line of one phase; it remembers what it showed last.
pub(crate) struct Progress<'w> {
    watch: &'w Watch,
    line: Line,
    time: Duration,
    count: u64,
}

impl<'w> Progress<'w> {
    /// A line that is shown while `watch` is live.
    pub fn new(watch: &'w Watch) -> Self {
        Self { watch, line: Line::new(), time: Duration::ZERO, count: 0 }
    }

    /// Shows that `count` things were done in `time`, and `more`, if a second has passed.
    pub fn show(&mut self, time: Duration, count: u64, name: &str, more: impl FnOnce() -> String) {
        if !self.watch.is_live() || time < self.time + EVERY {
            return;
        }
        let line = text(time, count, (self.time, self.count), name, &more());
        match self.watch.show() {
            Some(show) => show(&line),
            None => self.line.show(&line),
        }
        (self.time, self.count) = (time, count);
    }

    /// Removes the line, before something else is printed.
    pub fn clear(&self) {
        self.line.clear();
    }
}

/// How far `done` of `all` is after `time`, drawn, and how long the rest takes at that rate.
pub(crate) fn bar(time: Duration, done: u64, all: u64) -> String {
    let part = done.min(all) as f64 / all.max(1) as f64;
    let filled = (part * BAR as f64) as usize;
    let left = match done.min(all) {
        0 => String::new(),
        _ => format!(", {:.0} s left", time.as_secs_f64() * (1.0 - part) / part),
    };
    format!("[{}{}] {:.0} %{left}", "#".repeat(filled), ".".repeat(BAR - filled), part * 100.0)
}

/// The rate is that since the line before.
fn text(time: Duration, count: u64, before: (Duration, u64), name: &str, more: &str) -> String {
    let (time_s, passed_s) = (time.as_secs_f64(), time.saturating_sub(before.0).as_secs_f64());
    let rate = count.saturating_sub(before.1) as f64 / passed_s.max(1e-9);
    format!("{time_s:6.0} s  {count:>12} {name}  {rate:>10.0}/s  {more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_ends_where_all_is_done() {
        let cases = [
            (0, "[....................] 0 %"),
            (250, "[#####...............] 25 %, 6 s left"),
            (1_000, "[####################] 100 %, 0 s left"),
            (2_000, "[####################] 100 %, 0 s left"),
        ];
        for (done, expected) in cases {
            assert_eq!(bar(Duration::from_secs(2), done, 1_000), expected);
        }
        assert!(bar(Duration::ZERO, 0, 0).ends_with("0 %"));
    }

    #[test]
    fn the_rate_is_that_since_the_line_before() {
        let second = Duration::from_secs(1);
        let early = text(second, 10, (Duration::ZERO, 0), "replies", "warming up");
        assert!(early.contains("10/s") && early.ends_with("warming up"), "{early}");
        let late = text(3 * second, 1_010, (second, 10), "requests", "p50 250 us");
        assert!(late.contains("1010 requests") && late.ends_with("500/s  p50 250 us"), "{late}");
        let watch = Watch::new(Default::default(), false);
        Progress::new(&watch).show(second, 1, "replies", || unreachable!("the watch is not live"));
    }
}
