//! What a stream has applied and may not acknowledge yet, since the journal does not have it.

use crate::ring::copies::Promised;
use std::collections::VecDeque;

/// Acknowledgements that wait, at most: the last ones are joined.
const WAITING_MAX: usize = 256;

/// One that waits.
struct Waiting {
    /// The ends of the logs of what is copied, after it was applied.
    ends: Vec<u64>,
    position: u64,
    promised: Promised,
}

/// The acknowledgements of one stream that wait for the journal, by rising positions.
#[derive(Default)]
pub(crate) struct Acks {
    waiting: VecDeque<Waiting>,
    /// The last position that was acknowledged, if any was.
    last: Option<u64>,
    /// Parts of the states that the next entry shows which the logs have already.
    pub(crate) states_done: usize,
}

impl Acks {
    /// Everything up to `position` is applied, and in the logs before these `ends`.
    pub(crate) fn push(&mut self, ends: Vec<u64>, position: u64, promised: Promised) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_back();
        }
        self.waiting.push_back(Waiting { ends, position, promised });
    }

    /// The last one that `may` leave, by its ends. It waits no more, nor do those before it.
    pub(crate) fn pop(&mut self, may: impl Fn(&[u64]) -> bool) -> Option<(u64, Promised)> {
        let mut last = None;
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| may(&waiting.ends)) {
            last = Some((waiting.position, waiting.promised));
        }
        self.last = last.map(|(position, _)| position).or(self.last);
        last
    }

    /// The last position that was acknowledged, if any was.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_journal_has_is_acknowledged_and_many_that_wait_are_joined() {
        let mut acks = Acks::default();
        let promised = |bytes| Promised { bytes, wanted: 0 };
        for position in 1..=WAITING_MAX as u64 + 9 {
            acks.push(vec![position * 10], position, promised(position));
        }
        let up_to = |end: u64| move |ends: &[u64]| ends[0] <= end;
        assert!(acks.pop(up_to(9)).is_none());
        assert_eq!(acks.pop(up_to(25)).map(|(position, it)| (position, it.bytes)), Some((2, 2)));
        let last = WAITING_MAX as u64 + 9;
        assert_eq!(acks.pop(up_to(last * 10 - 1)).map(|it| it.0), Some(WAITING_MAX as u64 - 1));
        assert!(!acks.is_empty());
        assert_eq!(acks.pop(up_to(last * 10)).map(|it| it.0), Some(last));
        assert!(acks.is_empty());
    }
}
