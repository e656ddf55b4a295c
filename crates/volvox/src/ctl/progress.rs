//! How far something is, in one line that is shown where somebody looks.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use super::client::Client;
use super::map::{Learned, Map};
use super::table::bytes;

/// How often the cells that lead what others learn are asked how far that is, and how long each
/// has to answer: nothing else is looked at meanwhile.
const ASK: Duration = Duration::from_millis(250);
/// How long a cell is not asked again that has not answered.
const SILENT: Duration = Duration::from_secs(5);

/// The line that is shown.
#[derive(Default)]
pub(super) struct Shown(String);

impl Shown {
    /// Shows `text` in the place of what was shown; nothing, where standard error is no terminal.
    pub(super) fn show(&mut self, text: &str) {
        if stderr().is_terminal() && self.0 != text {
            let blank = " ".repeat(self.0.chars().count());
            eprint!("\r{blank}\r{text}");
            text.clone_into(&mut self.0);
        }
    }
}

/// What cells learn in a ring, as the primaries of that say.
pub(super) struct Learning {
    timeout: Duration,
    clients: BTreeMap<u32, Client>,
    /// By cell, when it has not answered.
    silent: BTreeMap<u32, Instant>,
    asked_at: Option<Instant>,
    text: String,
}

impl Learning {
    /// Each answer within `timeout`, and before it delays anything else.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            timeout: timeout.min(ASK),
            clients: BTreeMap::new(),
            silent: BTreeMap::new(),
            asked_at: None,
            text: String::new(),
        }
    }

    /// How much of what is learned by `map` was sent, and how long the rest takes: something that
    /// follows a line. Empty where nobody looks.
    pub(super) fn text(&mut self, map: &Map) -> &str {
        let is_due = self.asked_at.is_none_or(|at| at.elapsed() >= ASK);
        if is_due && stderr().is_terminal() {
            self.asked_at = Some(Instant::now());
            let learned = map.ranges.iter().filter(|range| range.learner.is_some());
            let learned: Vec<_> =
                learned.filter_map(|range| self.ask(range.primary, range.id, map)).collect();
            self.text = sum(&learned).map(|all| how_far(&all)).unwrap_or_default();
        }
        &self.text
    }

    /// How much of `range` was sent, as `cell` says, which leads it.
    fn ask(&mut self, cell: u32, range: u32, map: &Map) -> Option<Learned> {
        if self.silent.get(&cell).is_some_and(|at| at.elapsed() < SILENT) {
            return None;
        }
        let asked = self.client(cell, map).and_then(|mut client| {
            let says = client.stats("ring").ok()?;
            Some((client, says))
        });
        let Some((client, says)) = asked else {
            self.silent.insert(cell, Instant::now());
            return None;
        };
        self.clients.insert(cell, client);
        let says = Map::parse(&says).ok()?;
        says.ranges.iter().find(|it| it.id == range)?.learned
    }

    fn client(&mut self, cell: u32, map: &Map) -> Option<Client> {
        let connect = || Client::connect(&map.cells.get(&cell)?.clients, self.timeout).ok();
        self.clients.remove(&cell).or_else(connect)
    }
}

/// All of these together: they are learned at the same time.
fn sum(all: &[Learned]) -> Option<Learned> {
    all.iter().copied().reduce(|sum, it| Learned {
        bytes: sum.bytes + it.bytes,
        about_bytes: match (sum.about_bytes, it.about_bytes) {
            (0, _) | (_, 0) => 0,
            (a, b) => a + b,
        },
        took_ms: sum.took_ms.max(it.took_ms),
    })
}

/// How much was sent, and how long the rest takes.
pub(super) fn how_far(learned: &Learned) -> String {
    let sent = bytes(learned.bytes);
    match learned.left_ms() {
        None => format!(": {sent}"),
        Some(left_ms) => {
            let (about, left_s) = (bytes(learned.about_bytes), left_ms as f64 / 1e3);
            format!(": {sent} of about {about}, {left_s:.1} s left")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_was_sent_and_how_long_that_took() {
        let learned = |bytes, about_bytes, took_ms| Learned { bytes, about_bytes, took_ms };
        let cases = [
            (learned(0, 0, 0), None, ": 0"),
            (learned(1 << 20, 0, 100), None, ": 1M"),
            (learned(1 << 20, 4 << 20, 100), Some(300), ": 1M of about 4M, 0.3 s left"),
            (learned(4 << 20, 4 << 20, 900), Some(0), ": 4M of about 4M, 0.0 s left"),
        ];
        for (learned, left_ms, text) in cases {
            assert_eq!((learned.left_ms(), &how_far(&learned)[..]), (left_ms, text));
        }
        let both = sum(&[learned(1, 4, 10), learned(2, 6, 20)]);
        assert_eq!(both, Some(learned(3, 10, 20)));
        assert_eq!(sum(&[learned(1, 4, 10), learned(0, 0, 0)]), Some(learned(1, 0, 10)));
        assert_eq!(sum(&[]), None);
    }
}
