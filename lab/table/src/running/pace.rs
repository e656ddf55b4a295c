//! How much time the lab still needs: the plan's expectation, corrected by the pace so far.

use std::time::{Duration, Instant};

/// Expected times of what is done and of what is left.
pub(super) struct Pace {
    began: Instant,
    done: Duration,
    left: Duration,
}

impl Pace {
    /// Nothing is done of what is expected to take `total`.
    pub fn new(total: Duration) -> Self {
        Self { began: Instant::now(), done: Duration::ZERO, left: total }
    }

    /// What was expected to take `planned` is done.
    pub fn end(&mut self, planned: Duration) {
        self.done += planned;
        self.left = self.left.saturating_sub(planned);
    }

    /// The time since the beginning and the time left, for the screen.
    pub fn text(&self) -> String {
        let gone = self.began.elapsed();
        let left = time_left(gone, self.done, self.left);
        format!("{} gone, {} left", clock(gone), clock(left))
    }
}

/// What is left, as much slower than planned as what is done was.
fn time_left(gone: Duration, done: Duration, left: Duration) -> Duration {
    /// Planned time after which the pace counts.
    const PACE_KNOWN: Duration = Duration::from_secs(20);
    if done < PACE_KNOWN {
        return left;
    }
    left.mul_f64(gone.as_secs_f64() / done.as_secs_f64())
}

/// Hours if there are any, minutes, seconds.
pub(super) fn clock(time: Duration) -> String {
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
    fn the_pace_so_far_moves_the_time_left() {
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
