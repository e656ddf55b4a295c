//! Lines of the log that other machines cause: the same one is written once a minute at most, with
//! how often it came.

use std::sync::{Arc, Mutex, PoisonError};

use drivers::Clock;

/// Between two times that the same line is written.
const MINUTE_NS: u64 = 60_000_000_000;
/// Lines that are remembered. The one that was written first makes place.
const LINES_MAX: usize = 64;

/// The lines of the last minute.
pub(super) struct Repeats {
    clock: Clock,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines(Vec<Line>);

struct Line {
    text: String,
    /// When it was written last.
    at_ns: u64,
    /// How often it came since.
    count: u64,
}

impl Repeats {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, lines: Mutex::default() }
    }

    /// Logs `text` as a warning, unless it was logged within the last minute.
    pub(super) fn warn(&self, text: &str) {
        let now_ns = self.clock.now().mono_ns;
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.write(text, now_ns) {
            tracing::warn!("{line}");
        }
    }

    /// What logs a text in the same way.
    pub(super) fn sink(self: Arc<Self>) -> Arc<dyn Fn(String) + Send + Sync> {
        Arc::new(move |text| self.warn(&text))
    }
}

impl Lines {
    /// What is written for `text` now.
    fn write(&mut self, text: &str, now_ns: u64) -> Option<String> {
        let before = self.0.iter().position(|line| line.text == text);
        if let Some(line) = before.and_then(|at| self.0.get_mut(at))
            && now_ns.saturating_sub(line.at_ns) < MINUTE_NS
        {
            line.count += 1;
            return None;
        }
        let oldest = (self.0.len() == LINES_MAX).then_some(0);
        let count = before.or(oldest).map_or(0, |at| self.0.remove(at).count);
        self.0.push(Line { text: text.to_owned(), at_ns: now_ns, count: 0 });
        Some(match before {
            Some(_) if count > 0 => format!("{text} ({count} times more since it was said)"),
            _ => text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_line_is_written_once_a_minute_with_how_often_it_came() {
        let mut lines = Lines::default();
        let mut write = |text: &str, s: u64| lines.write(text, s * 1_000_000_000);
        assert_eq!(write("a", 0).as_deref(), Some("a"));
        assert_eq!(write("b", 1).as_deref(), Some("b"), "another line");
        assert_eq!((write("a", 10), write("a", 59)), (None, None));
        assert_eq!(write("a", 60).as_deref(), Some("a (2 times more since it was said)"));
        assert_eq!(write("a", 119), None);
        assert_eq!(write("b", 70).as_deref(), Some("b"), "it came once");
    }

    #[test]
    fn as_many_lines_are_remembered_as_is_said() {
        let mut lines = Lines::default();
        for number in 0..2 * LINES_MAX {
            assert!(lines.write(&number.to_string(), 0).is_some());
        }
        assert_eq!(lines.0.len(), LINES_MAX);
        let (last, first) = ((2 * LINES_MAX - 1).to_string(), LINES_MAX - 1);
        assert_eq!(lines.write(&last, 1), None);
        assert!(lines.write(&first.to_string(), 1).is_some(), "it made place");
    }
}
