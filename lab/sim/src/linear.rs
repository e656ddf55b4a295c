//! Whether the history of one key is linearizable: whether there is one order of its requests in
//! which each has its effect at one moment between its asking and its answer, and in which each
//! answer is right.
//!
//! The search goes through all orders, depth first, as Wing and Gong have described it; a set of
//! requests that has led to a state once is not tried again (Lowe). A request without an answer may
//! have its effect at any time after its asking, or never.
//!
//! An answer that changes nothing, and is right where the search stands, comes next there: an order
//! in which it comes later is as good with it here. So it is no choice.
//!
//! An item that was stored for some time only ends once, at one moment of its own between two
//! times.

use crate::history::{Answer, Ask, End, Entry, STEP};
use std::collections::{BTreeMap, HashSet};

/// States after which a search is given up.
const STATES_MAX: usize = 4_000_000;

/// What the search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is an order.
    Order,
    /// There is none. The request that no order has reached, of those in the longest one.
    None(Entry),
    /// Not within [`STATES_MAX`] states.
    TooMany,
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

/// A set of requests, one bit for each.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Set(Box<[u64]>);

impl Set {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn flip(&mut self, at: usize) {
        self.0[at / 64] ^= 1 << (at % 64);
    }
}

/// One choice of the search.
struct Choice {
    /// The index of a request, or their number: the item ends.
    entry: usize,
    before: State,
    /// It was none: nothing else is tried in its place.
    is_read: bool,
}

/// Searches an order of `entries`, which are of one key and in the order of asking. `ends`: by
/// value, when items end that were stored for some time only.
pub(crate) fn search(entries: &[Entry], ends: &BTreeMap<u64, End>) -> Found {
    let must = entries.iter().filter(|entry| entry.answered_ns.is_some()).count();
    let mut done = Set(vec![0; entries.len().div_ceil(64)].into());
    let mut tried = HashSet::new();
    let (mut path, mut state, mut answered): (Vec<Choice>, State, usize) = (Vec::new(), None, 0);
    let (mut next, mut best, mut stuck) = (0, 0, 0);
    loop {
        if answered == must {
            return Found::Order;
        }
        // Nothing that was asked after this may come next: its answer has come before.
        let first = (0..entries.len()).find(|at| !done.has(*at)).unwrap_or(0);
        let open = || (first..entries.len()).filter(|at| !done.has(*at)).map(|at| &entries[at]);
        let end = state.and_then(|value| ends.get(&(value / STEP * STEP)));
        let late_ns = end.and_then(|end| end.latest_ns).unwrap_or(u64::MAX);
        let bound_ns = open().map(ends_ns).min().unwrap_or(u64::MAX).min(late_ns);
        if path.len() >= best {
            (best, stuck) = (path.len(), first_to_end(entries, &done));
        }
        if next == 0
            && let Some(at) = right_read(entries, &done, state, bound_ns)
        {
            done.flip(at);
            path.push(Choice { entry: at, before: state, is_read: true });
            answered += 1;
            continue;
        }
        let mut chosen = None;
        for (at, entry) in entries.iter().enumerate().skip(next.max(first)) {
            if entry.asked_ns > bound_ns {
                break;
            }
            if done.has(at) {
                continue;
            }
            let Some(after) = apply(entry, state) else { continue };
            done.flip(at);
            if tried.insert((done.clone(), after)) {
                chosen = Some((at, after));
                break;
            }
            done.flip(at);
        }
        if chosen.is_none()
            && next <= entries.len()
            && end.is_some_and(|end| end.earliest_ns <= bound_ns)
            && tried.insert((done.clone(), None))
        {
            chosen = Some((entries.len(), None));
        }
        if let Some((entry, after)) = chosen {
            path.push(Choice { entry, before: state, is_read: false });
            state = after;
            answered += is_answered(entries, entry);
            next = 0;
            if tried.len() > STATES_MAX {
                return Found::TooMany;
            }
        } else {
            let Some(Choice { entry, before, is_read }) = path.pop() else {
                return Found::None(entries[stuck]);
            };
            if entry < entries.len() {
                done.flip(entry);
            }
            answered -= is_answered(entries, entry);
            (state, next) = (before, if is_read { entries.len() + 1 } else { entry + 1 });
        }
    }
}

/// A request that is not `done`, may come next, changes nothing, and whose answer is right.
fn right_read(entries: &[Entry], done: &Set, state: State, bound_ns: u64) -> Option<usize> {
    let only_reads = |entry: &Entry| match entry.ask.reads() {
        true => entry.answer != Answer::Open,
        false => matches!(entry.answer, Answer::Failed | Answer::Exists | Answer::Value(None)),
    };
    let may = |entry: &Entry| only_reads(entry) && apply(entry, state) == Some(state);
    let next = entries.iter().enumerate().take_while(|(_, entry)| entry.asked_ns <= bound_ns);
    let mut reads = next.filter(|(at, entry)| !done.has(*at) && may(entry));
    reads.next().map(|(at, _)| at)
}

/// The time before which a request has its effect.
fn ends_ns(entry: &Entry) -> u64 {
    entry.answered_ns.unwrap_or(u64::MAX)
}

/// The request that is not `done` and whose answer has come first.
fn first_to_end(entries: &[Entry], done: &Set) -> usize {
    let open = (0..entries.len()).filter(|at| !done.has(*at));
    open.min_by_key(|at| ends_ns(&entries[*at])).unwrap_or(0)
}

/// 1 for a request with an answer.
fn is_answered(entries: &[Entry], entry: usize) -> usize {
    usize::from(entries.get(entry).is_some_and(|entry| entry.answered_ns.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ask: Ask, answer: Answer, from: u64, to: u64) -> Entry {
        let answered_ns = (answer != Answer::Open).then_some(to);
        Entry { client: 0, key: 0, ask, asked_ns: from, answered_ns, answer }
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
            let ends = BTreeMap::from([(STEP, End { earliest_ns: 10, latest_ns: Some(20) })]);
            assert_eq!(search(entries, &ends) == Found::Order, *expected, "case {at}");
        }
    }
}
