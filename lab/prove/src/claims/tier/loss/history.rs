//! What was done to a key, and when: what it may hold after a cut, and what is lost of it.
//!
//! ```text
//! sent 1  answered 1   sent 2  answered 2   sent 3   cut   answered 3
//!                                                     | found 2 or 3: well
//!                                                     | found 1: change 2 is lost
//! ```
//!
//! Times are of the clock that all processes share. A key has one writer, which waits for each
//! answer, so its changes follow each other. One history is judged at any number of cuts.

/// Bytes of a value, its stamp included.
const VALUE_BYTES: usize = 200;

/// What a read of one key found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No value.
    Nothing,
    /// What this change stored.
    Change(u64),
    /// Bytes that no change stored.
    Other(String),
}

/// How a read after a cut ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It found the answered state, or one that was under way.
    Well,
    /// Changes are gone that had been answered.
    Lost {
        /// How many.
        changes: u64,
        /// When the oldest of them was answered.
        oldest_ns: u64,
    },
    /// It found what nobody had stored by then.
    Wrong,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    number: u64,
    is_removal: bool,
    sent_ns: u64,
    /// When its answer was read; the end of time where there was none.
    answered_ns: u64,
}

/// The changes of one key.
#[derive(Clone, Debug, Default)]
pub struct History {
    changes: Vec<Change>,
    /// How many there were, those before the last start among them.
    count: u64,
}

impl History {
    /// A change is about to be sent; its number.
    pub fn sent(&mut self, is_removal: bool, now_ns: u64) -> u64 {
        self.count += 1;
        let (number, sent_ns) = (self.count, now_ns);
        self.changes.push(Change { number, is_removal, sent_ns, answered_ns: u64::MAX });
        number
    }

    /// The last change was answered.
    pub fn answered(&mut self, now_ns: u64) {
        if let Some(last) = self.changes.last_mut() {
            last.answered_ns = now_ns;
        }
    }

    /// Begins again from what was found.
    pub fn begin_from(&mut self, found: &Found) {
        self.changes.clear();
        if let Found::Change(number) = found {
            let number = *number;
            self.changes.push(Change { number, is_removal: false, sent_ns: 0, answered_ns: 0 });
        }
    }

    /// Changes that were answered within a time.
    pub fn answered_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let is_in = |it: &&Change| (from_ns..to_ns).contains(&it.answered_ns);
        self.changes.iter().filter(is_in).count() as u64
    }

    /// Judges what was found of the state at `cut_ns`.
    pub fn judge(&self, cut_ns: u64, found: &Found) -> Verdict {
        let mut sent = self.changes.iter().take_while(|change| change.sent_ns < cut_ns);
        let last_kept = match found {
            Found::Other(_) => return Verdict::Wrong,
            // Of all removals it may be the last one.
            Found::Nothing => sent.filter(|it| it.is_removal).last().map_or(0, |it| it.number),
            Found::Change(number) => match sent.find(|it| it.number == *number) {
                Some(change) if !change.is_removal => *number,
                _ => return Verdict::Wrong,
            },
        };
        let is_lost = |it: &&Change| it.number > last_kept && it.answered_ns < cut_ns;
        let mut lost = self.changes.iter().filter(is_lost);
        match lost.next() {
            None => Verdict::Well,
            Some(first) => {
                let changes = 1 + lost.count() as u64;
                Verdict::Lost { changes, oldest_ns: first.answered_ns }
            }
        }
    }
}

/// What a change stores: each byte follows from the key and the number.
pub fn value(key: &str, number: u64) -> String {
    let stamp = format!("{key}.{number:012}.");
    stamp.chars().cycle().take(VALUE_BYTES).collect()
}

/// Which change stored these bytes.
pub fn found(key: &str, bytes: Option<&[u8]>) -> Found {
    let Some(bytes) = bytes else { return Found::Nothing };
    let text = String::from_utf8_lossy(bytes);
    let number = text.split('.').nth(1).and_then(|number| number.parse().ok());
    match number {
        Some(number) if value(key, number) == text => Found::Change(number),
        _ => Found::Other(text.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored (1), stored (2), removed (3), stored (4): sent at 10, 20, .., answered 5 later.
    fn history() -> History {
        let mut history = History::default();
        for (at, is_removal) in [(10, false), (20, false), (30, true), (40, false)] {
            history.sent(is_removal, at);
            history.answered(at + 5);
        }
        history
    }

    #[test]
    fn what_was_answered_or_under_way_is_well() {
        for (cut, found) in [
            (12, Found::Nothing),
            (12, Found::Change(1)),
            (18, Found::Change(1)),
            (22, Found::Change(2)),
            (32, Found::Change(2)),
            (32, Found::Nothing),
            (99, Found::Change(4)),
        ] {
            assert_eq!(history().judge(cut, &found), Verdict::Well, "{cut} {found:?}");
        }
    }

    #[test]
    fn what_was_answered_before_the_cut_and_is_gone_is_lost() {
        let lost = |changes, oldest_ns| Verdict::Lost { changes, oldest_ns };
        assert_eq!(history().judge(18, &Found::Nothing), lost(1, 15));
        assert_eq!(history().judge(28, &Found::Change(1)), lost(1, 25));
        assert_eq!(history().judge(99, &Found::Change(1)), lost(3, 25));
        assert_eq!(history().judge(99, &Found::Nothing), lost(1, 45), "the removal may be kept");
        assert_eq!(history().judge(38, &Found::Change(2)), lost(1, 35), "a removal is undone");
    }

    #[test]
    fn what_nobody_had_stored_is_wrong() {
        assert_eq!(history().judge(38, &Found::Change(4)), Verdict::Wrong, "after the cut");
        assert_eq!(history().judge(99, &Found::Change(3)), Verdict::Wrong, "a removal");
        assert_eq!(history().judge(99, &Found::Other(String::new())), Verdict::Wrong);
    }

    #[test]
    fn values_name_their_change() {
        let bytes = value("w1-5", 77);
        assert_eq!(found("w1-5", Some(bytes.as_bytes())), Found::Change(77));
        assert_eq!(found("w1-5", None), Found::Nothing);
        assert!(matches!(found("w1-6", Some(bytes.as_bytes())), Found::Other(_)), "another key's");
        assert!(matches!(found("w1-5", Some(&bytes.as_bytes()[..90])), Found::Other(_)), "cut off");
    }

    #[test]
    fn after_a_start_what_was_found_is_the_first_state_and_numbers_go_on() {
        let mut history = history();
        history.begin_from(&Found::Change(2));
        assert_eq!(history.judge(99, &Found::Change(2)), Verdict::Well);
        assert_eq!(history.judge(99, &Found::Nothing), Verdict::Lost { changes: 1, oldest_ns: 0 });
        assert_eq!(history.sent(false, 50), 5);
        assert_eq!(history.answered_between(1, 99), 0);
    }
}
