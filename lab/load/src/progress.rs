//! The line that shows a run is alive: rate and latencies so far, on a terminal only.

use std::io::Write;

use crate::drive::Glimpse;

/// The line of one phase; it remembers what it showed last.
#[derive(Default)]
pub(crate) struct Line {
    time_s: f64,
    replies: u64,
}

impl Line {
    /// Overwrites the line on `screen`.
    pub fn show(&mut self, screen: &mut dyn Write, glimpse: &Glimpse) {
        let text = self.text(glimpse);
        // A screen that has gone away is no reason to end a run.
        let _ = write!(screen, "\r{text}\x1b[K");
        let _ = screen.flush();
    }

    /// Rate since the line before, latencies since the warm-up.
    fn text(&mut self, glimpse: &Glimpse) -> String {
        let (time_s, replies) = (glimpse.time.as_secs_f64(), glimpse.replies);
        let rate = replies.saturating_sub(self.replies) as f64 / (time_s - self.time_s).max(1e-9);
        *self = Self { time_s, replies };
        let mut line = format!("{time_s:6.0} s  {replies:>12} replies  {rate:>10.0}/s");
        match glimpse.latencies_ns.as_ref().filter(|latencies| !latencies.is_empty()) {
            None => line.push_str("  warming up"),
            Some(latencies) => {
                for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
                    let us = latencies.value_at_quantile(quantile) as f64 / 1e3;
                    line.push_str(&format!("  {name} {us:.0} us"));
                }
            }
        }
        line
    }
}

/// Takes the line away, before something else is printed.
pub(crate) fn clear(screen: &mut dyn Write) {
    let _ = write!(screen, "\r\x1b[K");
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use std::time::Duration;

    #[test]
    fn the_line_shows_rate_and_percentiles() {
        let glimpse = |time_s, replies, latency_ns: Option<u64>| {
            let mut latencies_ns = Histogram::new(3).unwrap();
            latencies_ns += latency_ns.unwrap_or(1);
            let latencies_ns = latency_ns.map(|_| latencies_ns);
            Glimpse { time: Duration::from_secs(time_s), replies, latencies_ns }
        };
        let mut line = Line::default();
        let early = line.text(&glimpse(1, 10, None));
        assert!(early.contains("10/s") && early.ends_with("warming up"), "{early}");
        let late = line.text(&glimpse(3, 1_010, Some(250_000)));
        assert!(late.contains("500/s  p50 250 us"), "{late}");
    }
}
