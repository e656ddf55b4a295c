//! What clients have asked, when, and what they were answered.
//!
//! All values are numbers, and no write of a run writes the number of another one: so a value names
//! its write. `incr` adds one; a value that is stored is a multiple of [`STEP`], so that increments
//! of different values do not meet.

/// Between two values that are stored.
pub(crate) const STEP: u64 = 10_000;

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Get,
    /// Returns the number of the item besides.
    Gets,
    Set(u64),
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
    /// All items are ended by the loss of the range. Nobody asks it.
    Lose,
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
}

/// All requests.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) entries: Vec<Entry>,
    /// By key, the numbers of items that were seen, and the value of each.
    tokens: std::collections::BTreeMap<(usize, u64), u64>,
    values: u64,
    /// The first number that was given twice.
    pub(crate) repeated: Option<String>,
}

impl History {
    /// A value that nobody has stored.
    pub(crate) fn new_value(&mut self) -> u64 {
        self.values += 1;
        self.values * STEP
    }

    /// Notes a request. Returns its number.
    pub(crate) fn ask(&mut self, client: usize, key: usize, ask: Ask, now_ns: u64) -> usize {
        let (answered_ns, answer) = (None, Answer::Open);
        self.entries.push(Entry { client, key, ask, asked_ns: now_ns, answered_ns, answer });
        self.entries.len() - 1
    }

    /// Notes an answer, which comes to the client now.
    pub(crate) fn answer(&mut self, entry: usize, answer: Answer, now_ns: u64) {
        let entry = &mut self.entries[entry];
        entry.answer = answer;
        entry.answered_ns = (answer != Answer::Open).then_some(now_ns);
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

    /// The entries of one key that may matter, by the time of asking.
    pub(crate) fn of_key(&self, key: usize) -> Vec<Entry> {
        let matters = |entry: &&Entry| {
            let reads = matches!(entry.ask, Ask::Get | Ask::Gets);
            entry.key == key
                && entry.answer != Answer::Refused
                && !(reads && entry.answer == Answer::Open)
        };
        let mut entries: Vec<_> = self.entries.iter().filter(matters).copied().collect();
        entries.sort_by_key(|entry| entry.asked_ns);
        entries
    }
}
