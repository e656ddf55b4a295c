//! The line that shows a replay is alive: rate, hit ratio and place in the file, on a terminal.

use std::io::Write;
use std::time::Duration;

/// Time from one line to the next.
const EVERY: Duration = Duration::from_secs(1);

/// How far a replay is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// Since its beginning.
    pub time: Duration,
    pub requests: u64,
    /// Gets that count, and hits among them.
    pub gets: u64,
    pub hits: u64,
    /// The share of the file that was read, where its length is known.
    pub share: Option<f64>,
}

/// The line; it remembers what it showed last.
#[derive(Default)]
pub(super) struct Line {
    time: Duration,
    requests: u64,
}

impl Line {
    /// Overwrites the line on `screen` when it is time to.
    pub fn show(&mut self, screen: &mut dyn Write, sight: &Sight) {
        if sight.time < self.time + EVERY {
            return;
        }
        let text = self.text(sight);
        // A screen that has gone away is no reason to end a replay.
        let _ = write!(screen, "\r{text}\x1b[K");
        let _ = screen.flush();
    }

    /// Rate since the line before, hit ratio since counting began.
    fn text(&mut self, sight: &Sight) -> String {
        let Sight { time, requests, gets, hits, share } = *sight;
        let passed_s = time.saturating_sub(self.time).as_secs_f64().max(1e-9);
        let rate = requests.saturating_sub(self.requests) as f64 / passed_s;
        *self = Self { time, requests };
        let mut line =
            format!("{:6.0} s  {requests:>12} requests  {rate:>10.0}/s", time.as_secs_f64());
        match gets {
            0 => line.push_str("  not counting yet"),
            _ => {
                let percent = hits as f64 / gets as f64 * 100.0;
                line.push_str(&format!("  hit ratio {percent:.2} %"));
            }
        }
        if let Some(share) = share {
            line.push_str(&format!("  {:.0} % of the file read", share * 100.0));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_second_shows_rate_ratio_and_place() {
        let (mut line, mut screen) = (Line::default(), Vec::new());
        let sight = |time_ms, requests, gets, share| Sight {
            time: Duration::from_millis(time_ms),
            requests,
            gets,
            hits: gets / 4,
            share,
        };
        for (time_ms, requests, gets, share, shown) in [
            (999, 10, 0, None, ""),
            (1_000, 10, 0, None, "10/s  not counting yet\x1b[K"),
            (1_900, 20, 0, None, ""),
            (
                3_000,
                1_010,
                1_000,
                Some(0.5),
                "500/s  hit ratio 25.00 %  50 % of the file read\x1b[K",
            ),
        ] {
            screen.clear();
            line.show(&mut screen, &sight(time_ms, requests, gets, share));
            let text = std::str::from_utf8(&screen).unwrap();
            assert!(text.ends_with(shown) && text.is_empty() == shown.is_empty(), "{text}");
        }
    }
}
