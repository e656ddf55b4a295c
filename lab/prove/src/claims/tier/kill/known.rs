//! What the writer of a key knows of it, and what a kill may leave there.
//!
//! ```text
//! sent a, sent b      answered      sent c      killed           found c, or b
//! [s] a b             [a] b         [a] b c     [a b c]          [c]
//! ```
//!
//! In brackets is what stays possible if nothing more is carried out: the state that was answered
//! last, and, after a kill, those that were under way. A connection carries its requests out in
//! their order, so of those that were sent each may be the last.

use super::state::{Found, Key, State, was_written};

/// How a read after a kill ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It found the answered state, or one that was under way.
    Well,
    /// Nothing, where something was acknowledged.
    Lost,
    /// An older value than the acknowledged one, or one that was deleted.
    Older,
    /// Bytes, flags, a time to live or a token that were never there.
    Wrong,
}

/// What is known of one key.
#[derive(Clone, Debug)]
pub struct Known {
    /// What it may hold, in the order of the requests.
    states: Vec<State>,
    /// How many of them are possible without any further answer; at least one.
    bases: usize,
    /// Whether the last of them is what the key holds once all requests are carried out.
    is_sure: bool,
    /// The token of the last state, if it was read.
    token: Option<u64>,
}

impl Default for Known {
    fn default() -> Self {
        Self { states: vec![None], bases: 1, is_sure: true, token: None }
    }
}

impl Known {
    /// What the key holds once all requests are carried out; unknown after a kill.
    pub fn latest(&self) -> Option<&State> {
        self.states.last().filter(|_| self.is_sure)
    }

    /// The token of that, if it was read.
    pub fn token(&self) -> Option<u64> {
        self.token.filter(|_| self.is_sure)
    }

    /// A request was sent that makes this of it, whatever it was before.
    pub fn sent(&mut self, state: State) {
        self.states.push(state);
        (self.is_sure, self.token) = (true, None);
    }

    /// The first request that is under way was carried out. One that was sent before an answer in
    /// doubt says nothing more: all stay possible until another is sent.
    pub fn answered(&mut self) {
        if self.bases < self.states.len() {
            self.states.drain(..self.bases);
            self.bases = 1;
        }
    }

    /// A read found this token. It is that of the latest state if no change is under way.
    pub fn read(&mut self, token: u64) {
        if self.is_sure && self.states.len() == self.bases {
            self.token = Some(token);
        }
    }

    /// An answer left it open whether a request was carried out: all stay possible.
    pub fn in_doubt(&mut self) {
        self.cut();
        self.is_sure = false;
    }

    /// The server was killed: what was under way was carried out in part.
    pub fn cut(&mut self) {
        self.states.dedup();
        self.is_sure &= self.states.len() == 1;
        self.bases = self.states.len();
        if !self.is_sure {
            self.token = None;
        }
    }

    /// Judges what a read found after a kill. What was found stays.
    pub fn found(&mut self, key: Key, found: Option<&Found>) -> Verdict {
        let is = |state: &State| match (state, found) {
            (Some(item), Some(found)) => item.is(key, found),
            (None, None) => true,
            _ => false,
        };
        let Some(state) = self.states.iter().find(|state| is(state)).cloned() else {
            self.is_sure = false;
            return match found {
                None => Verdict::Lost,
                Some(found) if !was_written(key, &found.bytes) => Verdict::Wrong,
                Some(found) if self.has_bytes(key, found) => Verdict::Wrong,
                Some(_) => Verdict::Older,
            };
        };
        let token = found.map(|found| found.token);
        let is_other = self.token.is_some_and(|known| token != Some(known));
        *self = Self { states: vec![state], bases: 1, is_sure: true, token };
        if is_other { Verdict::Wrong } else { Verdict::Well }
    }

    /// Whether these are the bytes of a state that is possible: something beside them differs.
    fn has_bytes(&self, key: Key, found: &Found) -> bool {
        self.states.iter().flatten().any(|item| item.bytes(key) == found.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::{Content, Item, Part};
    use super::*;

    const KEY: Key = Key { writer: 1, number: 5 };

    fn item(change: u64) -> Item {
        let content = Content::Parts(vec![Part { change, times: 4 }]);
        Item { content, flags: 0, ttl_steps: 0 }
    }

    fn read(change: u64) -> Found {
        Found { bytes: item(change).bytes(KEY), flags: 0, ttl_s: None, token: change }
    }

    /// Changes 1 and 2 are answered, 3 and 4 under way at the kill.
    fn killed() -> Known {
        let mut known = Known::default();
        (1..=4).for_each(|change| known.sent(Some(item(change))));
        known.answered();
        known.answered();
        known.cut();
        known
    }

    #[test]
    fn the_answered_state_and_those_under_way_are_well() {
        for change in [2, 3, 4] {
            let mut known = killed();
            assert_eq!(known.found(KEY, Some(&read(change))), Verdict::Well, "{change}");
            assert_eq!(known.latest(), Some(&Some(item(change))));
            assert_eq!(known.found(KEY, Some(&read(change))), Verdict::Well, "it stays");
            let other = if change == 4 { 3 } else { 4 };
            assert_eq!(known.found(KEY, Some(&read(other))), Verdict::Older, "it does not change");
        }
    }

    #[test]
    fn what_a_kill_loses_is_seen() {
        assert_eq!(killed().found(KEY, None), Verdict::Lost);
        assert_eq!(killed().found(KEY, Some(&read(1))), Verdict::Older);
        let mut wrong = read(2);
        wrong.bytes.truncate(50);
        assert_eq!(killed().found(KEY, Some(&wrong)), Verdict::Wrong);
        assert_eq!(killed().found(KEY, Some(&Found { flags: 1, ..read(2) })), Verdict::Wrong);
        let hours = Some(3_600);
        assert_eq!(killed().found(KEY, Some(&Found { ttl_s: hours, ..read(2) })), Verdict::Wrong);
    }

    #[test]
    fn a_delete_that_was_answered_is_not_undone() {
        let mut known = Known::default();
        known.sent(Some(item(1)));
        known.answered();
        known.sent(None);
        known.cut();
        assert_eq!(known.clone().found(KEY, None), Verdict::Well);
        assert_eq!(known.clone().found(KEY, Some(&read(1))), Verdict::Well);
        known.sent(None);
        known.answered();
        known.cut();
        assert_eq!(known.found(KEY, Some(&read(1))), Verdict::Older);
    }

    #[test]
    fn an_answer_in_doubt_leaves_both_possible_until_the_next_change() {
        let mut known = Known::default();
        (1..=3).for_each(|change| known.sent(Some(item(change))));
        known.answered();
        known.in_doubt();
        known.answered();
        for change in [1, 2, 3] {
            assert_eq!(known.clone().found(KEY, Some(&read(change))), Verdict::Well);
        }
        known.sent(Some(item(4)));
        known.answered();
        assert_eq!(known.found(KEY, Some(&read(3))), Verdict::Older);
    }

    #[test]
    fn several_kills_in_a_row_leave_all_that_was_under_way_possible() {
        let mut known = killed();
        assert_eq!(known.latest(), None, "nobody knows what is there");
        known.sent(Some(item(5)));
        assert_eq!(known.latest(), Some(&Some(item(5))));
        known.cut();
        for change in [2, 3, 4, 5] {
            assert_eq!(known.clone().found(KEY, Some(&read(change))), Verdict::Well);
        }
        known.sent(Some(item(6)));
        known.answered();
        known.cut();
        assert_eq!(known.clone().found(KEY, Some(&read(5))), Verdict::Older);
        assert_eq!(known.found(KEY, Some(&read(6))), Verdict::Well);
    }

    #[test]
    fn a_token_that_was_read_is_the_same_after_a_kill() {
        let mut known = Known::default();
        known.sent(Some(item(1)));
        known.answered();
        known.read(1);
        known.cut();
        assert_eq!(known.clone().found(KEY, Some(&read(1))), Verdict::Well);
        let other = Found { token: 9, ..read(1) };
        assert_eq!(known.clone().found(KEY, Some(&other)), Verdict::Wrong);
        known.sent(Some(item(2)));
        known.read(1);
        assert_eq!(known.token(), None, "a change is under way");
    }
}
