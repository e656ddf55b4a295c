//! How far the lab is, and how long it will take.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A line on the screen: rewritten on a terminal, one for each job elsewhere.
pub(crate) struct Progress {
    began: Instant,
    jobs: usize,
    done: usize,
    /// Expected time of what is done, and of what is left, as planned.
    planned: (Duration, Duration),
    rewrites: bool,
}

impl Progress {
    /// Nothing is done of `jobs`, which are expected to take `total`.
    pub fn new(jobs: usize, total: Duration) -> Self {
        Self {
            began: Instant::now(),
            jobs,
            done: 0,
            planned: (Duration::ZERO, total),
            rewrites: std::io::stderr().is_terminal(),
        }
    }

    /// Says what comes next.
    pub fn begin(&self, title: &str) {
        let gone = self.began.elapsed();
        let left = time_left(gone, self.planned.0, self.planned.1);
        let (nth, jobs) = (self.done + 1, self.jobs);
        let text = format!("{nth}/{jobs}  {title}  ({} gone, {} left)", clock(gone), clock(left));
        let mut screen = std::io::stderr();
        // A screen that has gone away is no reason to end a lab.
        let _ = if self.rewrites {
            write!(screen, "\r\x1b[K{text}").and_then(|()| screen.flush())
        } else {
            writeln!(screen, "{text}")
        };
    }

    /// The job is done that was expected to take `planned`.
    pub fn end(&mut self, planned: Duration) {
        self.done += 1;
        self.planned = (self.planned.0 + planned, self.planned.1.saturating_sub(planned));
    }

    /// Removes the line.
    pub fn clear(&self) {
        if self.rewrites {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Time for what is left: as planned, by as much slower as it has gone so far.
fn time_left(gone: Duration, done: Duration, left: Duration) -> Duration {
    /// Planned time after which the pace so far counts.
    const TELLING: Duration = Duration::from_secs(20);
    if done < TELLING {
        return left;
    }
    left.mul_f64(gone.as_secs_f64() / done.as_secs_f64())
}

/// Hours where there are any, minutes, seconds.
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_so_far_tells_what_is_left() {
        let seconds = Duration::from_secs;
        for (gone, done, left, expected) in
            [(5, 1, 100, 100), (60, 60, 100, 100), (120, 60, 100, 200), (30, 60, 100, 50)]
        {
            assert_eq!(time_left(seconds(gone), seconds(done), seconds(left)), seconds(expected));
        }
    }

    #[test]
    fn times_read_like_a_clock() {
        for (seconds, text) in [(5, "0:05"), (125, "2:05"), (3_725, "1:02:05")] {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }
}
