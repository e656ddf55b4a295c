//! Whether the history of one key is linearizable: whether there is one order of its requests in
//! which each has its effect at one moment between its asking and its answer, and in which each
//! answer is right.
//!
//! The search goes through all orders, depth first, as Wing and Gong have described it; a set of
//! requests that has led to a state once is not tried again (Lowe). A request without an answer may
//! have its effect at any time after its asking, or never.
//!
//! What is no choice is not tried, so that long histories are searched in bounded time:
//!
//! - An answer that changes nothing, and is right where the search stands, comes next there: an
//!   order in which it comes later is as good with it here.
//! - What has no answer and would change nothing, or would be overwritten at once, never happens.
//! - Of what has no answer and does the same, the first comes first.
//! - Where the search has been with less of what has no answer, it has been.
//! - Each value is stored once: it is not left while an answer that shows it is to come.
//!
//! An item that was stored for some time only ends once, at one moment of its own between two
//! times. Where cells go by different seconds, it may be absent and there again.

use crate::history::{Answer, Ask, End, Entry, STEP};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// States after which a search is given up.
const STATES_MAX: usize = 2_000_000;

/// What the search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is an order.
    Order,
    /// There is none. The request that no order has reached, of those in the longest one.
    None(Entry),
    /// Not within [`STATES_MAX`] states. The same.
    TooMany(Entry),
}

/// What a key holds.
type State = Option<u64>;

/// What `entry` makes of `state`. `None` if its answer is wrong there.
fn apply(entry: &Entry, state: State) -> Option<State> {
    use Answer::{Done, Exists, Failed, Open, Value};
    match (entry.ask, entry.answer) {
        (Ask::Get | Ask::Gets | Ask::Keep, Value(value)) => (value == state).then_some(state),
        (Ask::Set(value) | Ask::SetFor { value, .. }, Done | Open) => Some(Some(value)),
        (Ask::Add(value), Done) => state.is_none().then_some(Some(value)),
        (Ask::Add(value), Open) => Some(state.or(Some(value))),
        (Ask::Add(_), Failed) => state.map(Some),
        (Ask::Cas { value, seen, .. }, Done) => (state == Some(seen)).then_some(Some(value)),
        (Ask::Cas { value, seen, .. }, Open) => {
            Some(if state == Some(seen) { Some(value) } else { state })
        }
        (Ask::Cas { seen, .. }, Exists) => {
            state.is_some_and(|state| state != seen).then_some(state)
        }
        (Ask::Cas { .. } | Ask::Delete, Failed) => state.is_none().then_some(None),
        (Ask::Delete, Done) => state.map(|_| None),
        (Ask::Delete, Open) | (Ask::Lose | Ask::End(_) | Ask::FlushNow, _) => Some(None),
        (Ask::Incr, Value(None)) => state.is_none().then_some(None),
        (Ask::Incr, Value(Some(value))) => {
            (state.map(|state| state + 1) == Some(value)).then_some(Some(value))
        }
        (Ask::Incr, Open) => Some(state.map(|state| state + 1)),
        _ => None,
    }
}

/// Whether what `entry` leaves does not depend on what it finds.
fn is_blind(entry: &Entry) -> bool {
    match entry.ask {
        Ask::Set(_) | Ask::SetFor { .. } | Ask::Lose | Ask::End(_) | Ask::FlushNow => true,
        Ask::Delete => entry.answer == Answer::Open,
        _ => false,
    }
}

/// Whether it only reads, and its answer is known.
fn only_reads(entry: &Entry) -> bool {
    match entry.ask.reads() {
        true => entry.answer != Answer::Open,
        false => matches!(entry.answer, Answer::Failed | Answer::Exists | Answer::Value(None)),
    }
}

/// What requests without an answer do alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    End,
    Add,
    /// Stores a value that no answer shows.
    Store,
}

/// One step of the search: a request has its effect, or the item ends.
#[derive(Clone, Copy)]
struct Step {
    /// `None`: the item ends.
    entry: Option<usize>,
    after: State,
}

/// What may come next somewhere, and what was chosen.
struct Choice {
    /// The steps that were not tried, the last of which comes first.
    steps: Vec<Step>,
    chosen: Option<Step>,
    /// Nothing that was asked after this may come next.
    bound_ns: u64,
    /// The only step is a read.
    is_read: bool,
}

struct Search<'h> {
    entries: &'h [Entry],
    ends: &'h BTreeMap<u64, End>,
    /// The requests with an answer, and those without.
    answered: Vec<usize>,
    open: Vec<usize>,
    /// What must have happened before, of what was asked on the same connection, where the times of
    /// asking and answering do not say so.
    before: Vec<Vec<usize>>,
    /// The values that answers show, each by what was stored.
    shown: HashSet<u64>,
    done: Vec<bool>,
    /// A hash of those with an answer that are done.
    hash: u128,
    /// Those without one that are done, one bit for each.
    used: Vec<u64>,
    /// All before this in `answered` are done.
    low: usize,
    left: usize,
    /// Where the search has been: by hash and state, what was used of those without an answer.
    tried: HashMap<(u128, State), Vec<Box<[u64]>>>,
    states: usize,
    /// By what was stored, how many answers that are not done can be right only there.
    needs: HashMap<u64, usize>,
    path: Vec<Choice>,
}

/// Searches an order of `entries`, which are of one key and in the order of asking. `ends`: by
/// value, when items end that were stored for some time only.
pub(crate) fn search(entries: &[Entry], ends: &BTreeMap<u64, End>) -> Found {
    Search::new(entries, ends).run()
}

/// Of each of `entries`, those that must have happened before, of what was asked on the same
/// connection, where times do not say so.
fn before(entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut sessions: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        sessions.entry(entry.session).or_default().push(at);
    }
    let mut before = vec![Vec::new(); entries.len()];
    for all in sessions.values_mut() {
        all.sort_by_key(|at| entries[*at].nth);
        for (nth, at) in all.iter().enumerate() {
            let of = &entries[*at];
            // A connection is answered in order: those before such a one are such, too.
            let by_time = |it: &Entry| it.answered_ns.is_some_and(|ns| ns < of.since_ns());
            let earlier = all[..nth].iter().rev().filter(|it| entries[**it].precedes(of));
            let earlier = earlier.take_while(|it| !by_time(&entries[**it]));
            before[*at] = earlier.copied().collect();
        }
    }
    before
}

impl<'h> Search<'h> {
    fn new(entries: &'h [Entry], ends: &'h BTreeMap<u64, End>) -> Self {
        let has_answer = |at: &usize| entries[*at].answered_ns.is_some();
        let (answered, open): (Vec<_>, Vec<_>) = (0..entries.len()).partition(has_answer);
        let value = |entry: &Entry| match (entry.ask, entry.answer) {
            (Ask::Cas { seen, .. }, Answer::Done | Answer::Exists) => Some(seen),
            (_, Answer::Value(value)) => value,
            _ => None,
        };
        let shown = entries.iter().filter_map(value).map(|value| value / STEP * STEP).collect();
        let mut needs = HashMap::new();
        for stored in entries.iter().filter_map(needed) {
            *needs.entry(stored).or_default() += 1;
        }
        let before = before(entries);
        let (done, left) = (vec![false; entries.len()], answered.len());
        let used = vec![0; open.len().div_ceil(64)];
        Self {
            entries,
            ends,
            answered,
            open,
            before,
            shown,
            done,
            hash: 0,
            used,
            low: 0,
            left,
            tried: HashMap::new(),
            states: 0,
            needs,
            path: Vec::new(),
        }
    }

    fn run(mut self) -> Found {
        let (mut state, mut best, mut stuck) = (None, 0, 0);
        while self.left > 0 {
            let choice = self.choice(state);
            if self.path.len() >= best {
                (best, stuck) = (self.path.len(), self.first_to_end().unwrap_or(0));
            }
            self.path.push(choice);
            match self.advance() {
                Some(after) => state = after,
                None => return Found::None(self.entries[stuck]),
            }
            if self.states > STATES_MAX {
                return Found::TooMany(self.entries[stuck]);
            }
        }
        Found::Order
    }

    /// Takes the next step that was not tried, here or further up. Returns the state after it.
    fn advance(&mut self) -> Option<State> {
        loop {
            let choice = self.path.last_mut()?;
            if let Some(step) = choice.chosen.take() {
                self.flip(step.entry);
            }
            let choice = self.path.last_mut()?;
            let is_read = choice.is_read;
            let Some(step) = choice.steps.pop() else {
                self.path.pop();
                continue;
            };
            choice.chosen = Some(step);
            self.flip(step.entry);
            if is_read || self.is_new(step.after) {
                return Some(step.after);
            }
        }
    }

    /// Whether the search has not been in `state` with the same requests done, or with fewer of
    /// those that need not be.
    fn is_new(&mut self, state: State) -> bool {
        let been = self.tried.entry((self.hash, state)).or_default();
        let has_all = |fewer: &[u64]| fewer.iter().zip(&self.used).all(|(a, b)| a & !b == 0);
        let is_new = !been.iter().any(|fewer| has_all(fewer));
        if is_new {
            been.push(self.used.as_slice().into());
            self.states += 1;
        }
        is_new
    }

    /// A request is done, or is not any more.
    fn flip(&mut self, entry: Option<usize>) {
        let Some(at) = entry else { return };
        self.done[at] = !self.done[at];
        if self.entries[at].answered_ns.is_none() {
            let place = self.open.partition_point(|other| *other < at);
            self.used[place / 64] ^= 1 << (place % 64);
            return;
        }
        if let Some(needs) = needed(&self.entries[at]).and_then(|it| self.needs.get_mut(&it)) {
            *needs = if self.done[at] { *needs - 1 } else { *needs + 1 };
        }
        self.hash ^= mark_of(at);
        self.left = if self.done[at] { self.left - 1 } else { self.left + 1 };
        if !self.done[at] {
            let place = self.answered.partition_point(|other| *other < at);
            self.low = self.low.min(place);
        }
        while self.answered.get(self.low).is_some_and(|at| self.done[*at]) {
            self.low += 1;
        }
    }

    /// The requests with an answer that are not done, in the order of asking.
    fn waiting(&self) -> impl Iterator<Item = usize> {
        self.answered[self.low..].iter().copied().filter(|at| !self.done[*at])
    }

    /// The one of them whose answer has come first.
    fn first_to_end(&self) -> Option<usize> {
        let ends_ns = |at: usize| self.entries[at].answered_ns.unwrap_or(u64::MAX);
        let mut first: Option<usize> = None;
        for at in self.waiting() {
            // What may have been right only later has its end later.
            if first.is_some_and(|first| self.entries[at].since_ns() > ends_ns(first)) {
                break;
            }
            first = first.filter(|first| ends_ns(*first) <= ends_ns(at)).or(Some(at));
        }
        first
    }

    /// When the item of `state` ends, if it was stored for some time only.
    fn end(&self, state: State) -> Option<&End> {
        state.and_then(|value| self.ends.get(&(value / STEP * STEP)))
    }

    /// What `entry` makes of `state`, which may seem to have ended, and be there again.
    fn apply(&self, entry: &Entry, state: State) -> Option<State> {
        let may_return = || self.end(state).is_some_and(|end| end.returns);
        apply(entry, state).or_else(|| {
            let after = apply(entry, None).filter(|_| may_return())?;
            Some(after.or(state))
        })
    }

    /// What may come next.
    fn choice(&self, state: State) -> Choice {
        let end = self.end(state);
        let late_ns = end.and_then(|end| end.latest_ns).unwrap_or(u64::MAX);
        let first_ns = self.first_to_end().and_then(|at| self.entries[at].answered_ns);
        let bound_ns = first_ns.unwrap_or(u64::MAX).min(late_ns);
        let next = || {
            let is_asked = |at: &usize| self.entries[*at].since_ns() <= bound_ns;
            let follows = |at: &usize| self.before[*at].iter().all(|of| self.done[*of]);
            self.waiting().take_while(is_asked).filter(follows)
        };
        let is_right = |at: &usize| {
            only_reads(&self.entries[*at]) && self.apply(&self.entries[*at], state) == Some(state)
        };
        let step = |at: usize| {
            let after = self.apply(&self.entries[at], state)?;
            Some(Step { entry: Some(at), after })
        };
        let mut choice = Choice { steps: Vec::new(), chosen: None, bound_ns, is_read: false };
        if let Some(at) = next().find(is_right) {
            choice.is_read = true;
            choice.steps.extend(step(at));
            return choice;
        }
        // What is tried last comes first.
        choice.steps = self.open_steps(state, bound_ns);
        if end.is_some_and(|end| end.earliest_ns <= bound_ns) {
            choice.steps.push(Step { entry: None, after: None });
        }
        let is_end = |at: &usize| matches!(self.entries[*at].ask, Ask::End(_));
        let first_end = next().find(is_end);
        // All flushes that must have happened in the end do the same.
        let may = |at: &usize| !self.is_useless(*at) && (!is_end(at) || first_end == Some(*at));
        let mut answered: Vec<_> = next().filter(may).collect();
        answered.sort_by_key(|at| {
            let entry = &self.entries[*at];
            // It may be wrong soon.
            let is_right = entry.ask.reads() && self.apply(entry, state) == Some(state);
            (is_right, Reverse(entry.answered_ns))
        });
        choice.steps.extend(answered.into_iter().filter_map(step));
        choice.steps.retain(|step| !self.is_dead_end(step, state));
        choice
    }

    /// Whether an answer that is to come could not be right any more after this step from `state`.
    fn is_dead_end(&self, step: &Step, state: State) -> bool {
        let Some(stored) = state.map(|value| value / STEP) else { return false };
        let stays = step.after.is_some_and(|after| after / STEP == stored);
        let may_return = self.end(state).is_some_and(|end| end.returns);
        let needed = step.entry.and_then(|at| needed(&self.entries[at])) == Some(stored);
        let needs = self.needs.get(&stored).copied().unwrap_or(0);
        !stays && !may_return && needs > usize::from(needed)
    }

    /// What has no answer and may come next.
    fn open_steps(&self, state: State, bound_ns: u64) -> Vec<Step> {
        let is_asked = |at: &usize| self.entries[*at].asked_ns <= bound_ns;
        let next = self.open.iter().copied().take_while(is_asked).filter(|at| !self.done[*at]);
        let (mut steps, mut like) = (Vec::new(), Vec::new());
        for at in next {
            let entry = &self.entries[at];
            let after = self.apply(entry, state).filter(|after| *after != state);
            let Some(after) = after else { continue };
            if self.is_useless(at) {
                continue;
            }
            let does = match (entry.ask, after) {
                (Ask::Incr, _) => Some(Does::Add),
                (_, None) => Some(Does::End),
                (_, Some(value)) => (!self.shown.contains(&value)).then_some(Does::Store),
            };
            // Items that end differ in when they do.
            let does = does.filter(|_| !after.is_some_and(|value| self.ends.contains_key(&value)));
            if does.is_some_and(|does| like.contains(&does)) {
                continue;
            }
            like.extend(does);
            steps.push(Step { entry: Some(at), after });
        }
        steps.reverse();
        steps
    }

    /// Whether `entry` overwrites what has just happened, and need not have.
    fn is_useless(&self, at: usize) -> bool {
        let Some(Choice { chosen: Some(step), bound_ns, .. }) = self.path.last() else {
            return false;
        };
        let entry = &self.entries[at];
        let need_not = step.entry.is_none_or(|before| self.entries[before].answered_ns.is_none());
        // It could have come before that, too.
        need_not && is_blind(entry) && entry.asked_ns <= *bound_ns
    }
}

/// What must have been stored where `entry` is right: each store has a value of its own, with room
/// for what is added to it.
fn needed(entry: &Entry) -> Option<u64> {
    match (entry.ask, entry.answer) {
        (Ask::Cas { seen, .. }, Answer::Done) => Some(seen / STEP),
        (_, Answer::Value(value)) => value.map(|value| value / STEP),
        _ => None,
    }
}

/// A number that stands for the request at `at` in the hash of a set: no two sets of a search have
/// the same hash, but for a chance of less than one in 2^80.
fn mark_of(at: usize) -> u128 {
    let mix = |start: u64| {
        let mut word = start.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    let at = 2 * at as u64;
    u128::from(mix(at + 1)) << 64 | u128::from(mix(at + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ask: Ask, answer: Answer, from: u64, to: u64) -> Entry {
        let answered_ns = (answer != Answer::Open).then_some(to);
        let (session, age_ns) = (from as usize, 0);
        let nth = from as usize;
        Entry { client: 0, key: 0, ask, asked_ns: from, answered_ns, answer, session, nth, age_ns }
    }

    fn is_linear(entries: &[Entry]) -> bool {
        search(entries, &BTreeMap::new()) == Found::Order
    }

    #[test]
    fn answers_that_one_order_explains_are_linear_and_others_are_not() {
        use Answer::{Done, Exists, Failed, Open, Value};
        let (get, set, add) = (Ask::Get, Ask::Set(1), Ask::Add(2));
        let cas = Ask::Cas { value: 3, token: 9, seen: 1 };
        let cases: &[(&[Entry], bool)] = &[
            (&[], true),
            (&[entry(get, Value(None), 0, 1)], true),
            (&[entry(get, Value(Some(1)), 0, 1)], false),
            // A write that was answered is seen by a read that was asked later.
            (&[entry(set, Done, 0, 1), entry(get, Value(None), 2, 3)], false),
            (&[entry(set, Done, 0, 3), entry(get, Value(None), 1, 2)], true),
            // A write without an answer may be seen late, but not come and go.
            (&[entry(set, Open, 0, 0), entry(get, Value(Some(1)), 7, 8)], true),
            (
                &[
                    entry(set, Open, 0, 0),
                    entry(get, Value(Some(1)), 1, 2),
                    entry(get, Value(None), 3, 4),
                ],
                false,
            ),
            // Conditions that fail are reads.
            (&[entry(add, Failed, 0, 1)], false),
            (&[entry(set, Open, 0, 0), entry(add, Failed, 1, 2)], true),
            (&[entry(set, Done, 0, 1), entry(cas, Exists, 2, 3)], false),
            (&[entry(set, Done, 0, 1), entry(cas, Done, 2, 3)], true),
            (&[entry(Ask::Delete, Failed, 0, 1)], true),
            (&[entry(set, Done, 0, 1), entry(Ask::Incr, Value(Some(2)), 2, 3)], true),
            (
                &[
                    entry(set, Done, 0, 1),
                    entry(Ask::Incr, Value(Some(2)), 2, 3),
                    entry(Ask::Incr, Value(Some(2)), 4, 5),
                ],
                false,
            ),
            (
                &[
                    entry(set, Done, 0, 1),
                    entry(Ask::Lose, Done, 2, 3),
                    entry(get, Value(None), 4, 5),
                ],
                true,
            ),
        ];
        for (at, (entries, expected)) in cases.iter().enumerate() {
            assert_eq!(is_linear(entries), *expected, "case {at}");
        }
    }

    #[test]
    fn an_old_answer_is_right_if_it_was_and_no_connection_goes_back() {
        use Answer::{Done, Value};
        let of = |session, it: Entry| Entry { session, ..it };
        let old = |session, value, from| Entry {
            session,
            age_ns: 5,
            ..entry(Ask::Get, Value(value), from, from + 1)
        };
        let (one, two) = (Some(STEP), Some(2 * STEP));
        let set = |value, from| entry(Ask::Set(value * STEP), Done, from, from + 1);
        let get = |session, value, from| of(session, entry(Ask::Get, Value(value), from, from + 1));
        let cases: &[(&[Entry], bool)] = &[
            (&[set(1, 10), set(2, 20), old(9, one, 25)], true),
            (&[set(1, 10), set(2, 20), old(9, one, 27)], false),
            (&[set(1, 10), set(2, 20), get(9, one, 25)], false),
            // Its own write, and what it has read before.
            (&[set(1, 10), of(9, set(2, 20)), old(9, one, 23)], false),
            (&[set(1, 10), set(2, 20), old(9, two, 22), old(9, one, 24)], false),
            (&[set(1, 10), set(2, 20), old(8, one, 24)], true),
            (&[set(1, 10), set(2, 20), get(9, two, 22), old(9, one, 24)], false),
            // A read of the primary after that of a copy.
            (
                &[
                    set(1, 10),
                    entry(Ask::Set(2 * STEP), Done, 20, 30),
                    old(9, two, 22),
                    get(9, one, 24),
                ],
                false,
            ),
            (
                &[
                    set(1, 10),
                    entry(Ask::Set(2 * STEP), Done, 20, 30),
                    old(9, two, 22),
                    get(8, one, 24),
                ],
                false,
            ),
        ];
        for (at, (entries, expected)) in cases.iter().enumerate() {
            let mut entries = entries.to_vec();
            entries.sort_by_key(Entry::since_ns);
            assert_eq!(is_linear(&entries), *expected, "case {at}");
        }
    }

    #[test]
    fn an_item_ends_once_and_within_its_time() {
        use Answer::{Done, Value};
        let set = entry(Ask::SetFor { value: STEP, seconds: 1 }, Done, 0, 1);
        let get = |value, from| entry(Ask::Get, Value(value), from, from + 1);
        let (there, gone) = (Some(STEP), None);
        let cases: &[(&[Entry], bool)] = &[
            (&[set, get(there, 12), get(gone, 14)], true),
            (&[set, get(gone, 8)], false),
            (&[set, get(gone, 12), get(there, 14)], false),
            (&[set, get(there, 21)], false),
            (&[set, entry(Ask::Incr, Value(Some(STEP + 1)), 4, 5), get(gone, 14)], true),
            (&[set, entry(Ask::Set(2 * STEP), Done, 4, 5), get(Some(2 * STEP), 21)], true),
            (&[set, entry(Ask::Set(2 * STEP), Done, 4, 5), get(gone, 14)], false),
        ];
        for (at, (entries, expected)) in cases.iter().enumerate() {
            let end = End { earliest_ns: 10, latest_ns: Some(20), returns: false };
            let ends = BTreeMap::from([(STEP, end)]);
            assert_eq!(search(entries, &ends) == Found::Order, *expected, "case {at}");
        }
    }

    #[test]
    fn an_item_may_be_there_again_where_cells_go_by_different_seconds() {
        use Answer::{Done, Failed, Value};
        let set = entry(Ask::SetFor { value: STEP, seconds: 1 }, Done, 0, 1);
        let get = |value, from| entry(Ask::Get, Value(value), from, from + 1);
        let (there, gone, other) = (Some(STEP), None, Some(2 * STEP));
        let add = entry(Ask::Add(2 * STEP), Done, 14, 15);
        let cases: &[(&[Entry], bool)] = &[
            (&[set, get(gone, 12), get(there, 14)], true),
            (&[set, entry(Ask::Delete, Failed, 12, 13), get(there, 14)], true),
            (&[set, get(gone, 12), add, get(other, 16)], true),
            (&[set, get(gone, 12), add, get(there, 16)], false),
            (&[set, entry(Ask::Delete, Done, 12, 13), get(there, 14)], false),
        ];
        for (at, (entries, expected)) in cases.iter().enumerate() {
            let ends =
                BTreeMap::from([(STEP, End { earliest_ns: 0, latest_ns: None, returns: true })]);
            assert_eq!(search(entries, &ends) == Found::Order, *expected, "case {at}");
        }
    }
}
