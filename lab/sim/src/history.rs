//! What clients have asked, when, and what they were answered.
//!
//! All values are numbers, and no write of a run writes the number of another one: so a value names
//! its write. `incr` adds one; a value that is stored is a multiple of [`STEP`], so that increments
//! of different values do not meet.

use std::collections::{BTreeMap, BTreeSet};

/// Between two values that are stored.
pub(crate) const STEP: u64 = 10_000;

/// What happens without a request is on no connection.
const NOBODYS: usize = usize::MAX;

const SECOND_NS: u64 = 1_000_000_000;
/// An item may be seen so much longer than it was stored for.
const LATE_NS: u64 = 2 * SECOND_NS;
/// An item may end so much earlier: its last second has begun when it is stored, and the cells
/// that store and read it may differ.
const EARLY_NS: u64 = 2 * SECOND_NS;
/// How long ago a flush was asked for of which it is checked that it has ended all items.
const FLUSHES_NS: u64 = 60 * SECOND_NS;
/// The clocks of cells run faster or slower by this part at most.
pub(crate) const DRIFT_PART: u64 = 19;

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Get,
    /// Returns the number of the item besides.
    Gets,
    /// Lets the item stay for ever, and returns it.
    Keep,
    Set(u64),
    /// Stores for some seconds.
    SetFor {
        value: u64,
        seconds: u64,
    },
    Add(u64),
    /// Stores if the number of the item is still the one that came with a value.
    Cas {
        value: u64,
        token: u64,
        /// The value that the number came with.
        seen: u64,
    },
    Delete,
    Incr,
    /// All items are ended by the loss of the range, or by a flush. Nobody asks it.
    Lose,
    /// All items end by the delayed flush with this number. Nobody asks it.
    End(u32),
    /// A delayed flush, of all keys.
    Flush {
        seconds: u64,
    },
    /// All items of all keys end now, range by range.
    FlushNow,
}

impl Ask {
    /// Whether it returns what the key has, and changes no value.
    pub(crate) fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Gets | Self::Keep)
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nobody knows: it may have been executed, or be executed later, or never.
    Open,
    /// It was not executed and will not be.
    Refused,
    /// The value that was read or made by adding; `None` for none.
    Value(Option<u64>),
    /// It was stored or deleted.
    Done,
    /// `NOT_STORED`, or `NOT_FOUND` of a delete.
    Failed,
    /// `EXISTS` of a `cas`.
    Exists,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) client: usize,
    pub(crate) key: usize,
    pub(crate) ask: Ask,
    pub(crate) asked_ns: u64,
    /// When the answer came. Without one it may still be executed.
    pub(crate) answered_ns: Option<u64>,
    pub(crate) answer: Answer,
    /// The connection on which it was asked, and its place among all requests.
    pub(crate) session: usize,
    pub(crate) nth: usize,
    /// So much before it was asked may the answer to a read have been right.
    pub(crate) age_ns: u64,
}

impl Entry {
    /// A request without an answer.
    fn asked((client, session): (usize, usize), key: usize, ask: Ask, asked_ns: u64) -> Self {
        let (answered_ns, answer, age_ns) = (None, Answer::Open, 0);
        Self { client, key, ask, asked_ns, answered_ns, answer, session, nth: 0, age_ns }
    }

    /// Since when the answer may have been right.
    pub(crate) fn since_ns(&self) -> u64 {
        self.asked_ns.saturating_sub(self.age_ns)
    }

    /// Whether `later` was asked on the same connection, after this, and cannot have its effect
    /// before: also where both were sent together. But a read may show what was sent with it, and
    /// after it: it is asked again where its answer was lost. So is a change that may have made
    /// nothing; reads that follow need not show it then. And what was sent with a flush, before it,
    /// may outlast it.
    pub(crate) fn precedes(&self, later: &Self) -> bool {
        let is_one = self.session == later.session && self.session != NOBODYS;
        let is_before = self.answered_ns.is_some_and(|at_ns| at_ns < later.asked_ns);
        let always_makes = matches!(self.ask, Ask::Set(_) | Ask::SetFor { .. });
        let is_ordered = match later.ask {
            Ask::FlushNow => false,
            read if read.reads() => always_makes,
            _ => !self.ask.reads(),
        };
        is_one && self.nth < later.nth && (is_before || is_ordered && self.answered_ns.is_some())
    }
}

/// When an item ends that was stored for some time only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) earliest_ns: u64,
    /// `None`: nobody knows.
    pub(crate) latest_ns: Option<u64>,
    /// It may be there again: the cells go by different seconds, and another one leads it.
    pub(crate) returns: bool,
}

/// All requests.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) entries: Vec<Entry>,
    /// By entry, when its client got the answer that nobody knows what came of it.
    left_open_ns: BTreeMap<usize, u64>,
    /// By key, the numbers of items that were seen, and the value of each.
    tokens: BTreeMap<(usize, u64), u64>,
    values: u64,
    /// Cells have gone by different times: when an item expires is not known.
    pub(crate) is_time_split: bool,
    /// When cells have taken the second of others, which has begun again for them then: so the time
    /// of the ring falls back by a second at most.
    pub(crate) takes_ns: Vec<u64>,
    /// Keys of ranges that were forgiven: what the bucket has of them may be older.
    pub(crate) unknown: BTreeSet<usize>,
    /// Numbers of before a loss do not count. A range that begins again counts on from a number
    /// drawn at random, below 2^30: over minutes, with a loss each few seconds, one in some hundred
    /// rings gives a number of before again by chance.
    forgets_numbers: bool,
    /// How old the answers to reads may be, by the clock of the cell that answers them.
    age_ns: u64,
    /// The first number that was given twice.
    pub(crate) repeated: Option<String>,
}

impl History {
    /// No request yet. Whether numbers of before a loss do not count, and how old the answers to
    /// reads may be, in milliseconds.
    pub(crate) fn new(forgets_numbers: bool, age_ms: u16) -> Self {
        Self { forgets_numbers, age_ns: u64::from(age_ms) * 1_000_000, ..Self::default() }
    }

    /// A value that nobody has stored.
    pub(crate) fn new_value(&mut self) -> u64 {
        self.values += 1;
        self.values * STEP
    }

    /// Notes a request of a client on its connection `session`. Returns its number.
    pub(crate) fn ask(
        &mut self,
        (client, session): (usize, usize),
        key: usize,
        ask: Ask,
        asked_ns: u64,
    ) -> usize {
        let is_for_copies = matches!(ask, Ask::Get | Ask::Gets);
        let age_ns = if is_for_copies { self.age_ns + self.age_ns / DRIFT_PART } else { 0 };
        let asked = Entry::asked((client, session), key, ask, asked_ns);
        self.entries.push(Entry { age_ns, nth: self.entries.len(), ..asked });
        self.entries.len() - 1
    }

    /// Notes an answer, which comes to the client now.
    pub(crate) fn answer(&mut self, entry: usize, answer: Answer, now_ns: u64) {
        let asked = &mut self.entries[entry];
        asked.answer = answer;
        asked.answered_ns = (answer != Answer::Open).then_some(now_ns);
        if answer == Answer::Open {
            self.left_open_ns.insert(entry, now_ns);
        }
    }

    /// The answers, and how long each took: from its request on, or from the answer before it to
    /// the same client.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (&Entry, u64)> {
        let mut last_ns = BTreeMap::new();
        self.entries.iter().enumerate().filter_map(move |(nth, entry)| {
            let replied_ns = entry.answered_ns.or_else(|| self.left_open_ns.get(&nth).copied())?;
            let before_ns = last_ns.insert(entry.client, replied_ns).unwrap_or(0);
            let since_ns = entry.asked_ns.max(before_ns);
            Some((entry, entry.answered_ns?.saturating_sub(since_ns)))
        })
    }

    /// The flush with this number ends what `key` has at one moment from now on.
    pub(crate) fn flush(&mut self, number: u32, key: usize, now_ns: u64) {
        self.entries.push(Entry::asked((usize::MAX, NOBODYS), key, Ask::End(number), now_ns));
    }

    /// The flush with this number is replaced: it may have ended nothing.
    pub(crate) fn forget_flush(&mut self, number: u32) {
        let flushes = self.entries.iter_mut().filter(|entry| entry.ask == Ask::End(number));
        flushes.for_each(|entry| entry.ask = Ask::End(0));
    }

    /// All flushes that were due have ended what they could. Those of long ago may have: each of
    /// them can have its effect anywhere until now, and no search goes through all orders of many.
    pub(crate) fn ends_flushes(&mut self, now_ns: u64) {
        let is_due = |entry: &&mut Entry| {
            matches!(entry.ask, Ask::End(number) if number > 0)
                && entry.asked_ns + FLUSHES_NS >= now_ns
        };
        for entry in self.entries.iter_mut().filter(is_due) {
            (entry.answered_ns, entry.answer) = (Some(now_ns), Answer::Done);
        }
    }

    /// All items of `key` are lost.
    pub(crate) fn lose(&mut self, key: usize, asked_ns: u64, answered_ns: u64) {
        if self.forgets_numbers {
            self.tokens.retain(|(of, _), _| *of != key);
        }
        let asked = Entry::asked((usize::MAX, NOBODYS), key, Ask::Lose, asked_ns);
        let (answer, answered_ns) = (Answer::Done, Some(answered_ns));
        self.entries.push(Entry { answer, answered_ns, ..asked });
    }

    /// Notes the number of an item that was seen with `value`.
    pub(crate) fn see(&mut self, key: usize, token: u64, value: u64) {
        let known = *self.tokens.entry((key, token)).or_insert(value);
        if known != value && self.repeated.is_none() {
            self.repeated = Some(format!(
                "key {key}: the number {token} was given to the values {known} and {value}"
            ));
        }
    }

    /// By value, when those items of a key end that were stored for some time only.
    pub(crate) fn ends_of_key(&self, key: usize) -> BTreeMap<u64, End> {
        let of_key = || self.entries.iter().filter(|entry| entry.key == key);
        let mut ends: BTreeMap<_, _> = of_key().filter_map(|entry| self.end(entry)).collect();
        for keep in of_key().filter(|entry| entry.ask == Ask::Keep) {
            let may_keep = |value: u64| match keep.answer {
                Answer::Value(kept) => kept.is_some_and(|kept| kept / STEP * STEP == value),
                _ => keep.answer == Answer::Open,
            };
            for (_, end) in ends.iter_mut().filter(|(value, _)| may_keep(**value)) {
                end.latest_ns = None;
            }
        }
        ends
    }

    /// The value that `entry` has stored, and when it ends, if that was for some time only.
    fn end(&self, entry: &Entry) -> Option<(u64, End)> {
        let Ask::SetFor { value, seconds } = entry.ask else { return None };
        let lasts_ns = seconds * SECOND_NS;
        let (early_ns, late_ns) = (lasts_ns.saturating_sub(EARLY_NS), lasts_ns + LATE_NS);
        let early_ns = if self.is_time_split { 0 } else { early_ns - early_ns / DRIFT_PART };
        // Without an answer it may have been stored late.
        let answered_ns = entry.answered_ns.filter(|_| !self.is_time_split);
        let latest_ns =
            answered_ns.map(|at_ns| self.later(at_ns, at_ns + late_ns + late_ns / DRIFT_PART));
        let (earliest_ns, returns) = (entry.asked_ns + early_ns, self.is_time_split);
        Some((value, End { earliest_ns, latest_ns, returns }))
    }

    /// `until_ns` with a second more for each cell that has taken the second of others since.
    fn later(&self, since_ns: u64, until_ns: u64) -> u64 {
        let later = |before: &u64| {
            let takes = self.takes_ns.iter().filter(|at| (since_ns..*before).contains(*at));
            Some(until_ns + takes.count() as u64 * SECOND_NS).filter(|later| later > before)
        };
        std::iter::successors(Some(until_ns), later).last().unwrap_or(until_ns)
    }

    /// The entries of one key that may matter, by the time of asking.
    pub(crate) fn of_key(&self, key: usize) -> Vec<Entry> {
        let matters = |entry: &&Entry| {
            entry.key == key
                && !matches!(entry.ask, Ask::Flush { .. })
                && entry.answer != Answer::Refused
                && !(entry.ask.reads() && entry.answer == Answer::Open)
        };
        let mut entries: Vec<_> = self.entries.iter().filter(matters).copied().collect();
        // Where a clock has jumped to the second of a flush, another cell may reach it once more.
        let is_end = |entry: &&Entry| matches!(entry.ask, Ask::End(_)) && self.is_time_split;
        let again = |entry: &Entry| Entry { answered_ns: None, answer: Answer::Open, ..*entry };
        let again: Vec<_> = entries.iter().filter(is_end).map(again).collect();
        entries.extend(again);
        entries.sort_by_key(Entry::since_ns);
        entries
    }
}
