//! A walk for a learner that a full log may stop in the middle of a chain.
//!
//! A walk of the engine ends before a chain that its sink does not take whole, and passes all of it
//! again. What was appended of it must not be appended again: it would fill the log again, and a
//! chain that is longer than the room for it would never be passed.

use base::{KeyId, Version};
use engine::Cursor;

/// An item as it is: its key, by slice and hash, and its version.
type Item = (KeyId, Version);

/// Where a walk is, and what was appended of the chain there.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) at: Cursor,
    /// Appended in the step before.
    earlier: Vec<Item>,
    appended: Vec<Item>,
    is_full: bool,
}

impl Walk {
    /// A step begins. Returns where.
    pub(crate) fn begin(&mut self) -> Cursor {
        self.earlier = std::mem::take(&mut self.appended);
        self.is_full = false;
        self.at
    }

    /// Appends `item` by `append`, unless it was. Returns whether the log has it.
    pub(crate) fn append(&mut self, item: Item, append: impl FnOnce() -> bool) -> bool {
        if self.earlier.contains(&item) {
            return true;
        }
        self.is_full = !append();
        if !self.is_full {
            self.appended.push(item);
        }
        !self.is_full
    }

    /// A step has come from `before` to `at`. Unless a log was full, it ended after a chain.
    /// Returns whether it has come further, or appended something.
    pub(crate) fn end(&mut self, before: Cursor, at: Cursor) -> bool {
        let earlier = std::mem::take(&mut self.earlier);
        let has_appended = !self.appended.is_empty();
        match self.is_full {
            false => self.appended.clear(),
            true if at == before => self.appended.extend(earlier),
            true => {}
        }
        self.at = at;
        !self.is_full || at != before || has_appended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SliceId;

    /// Chains of these lengths, in a log that takes `room` items in each step.
    fn steps(chains: &[u64], room: u64) -> (u64, Vec<u64>) {
        let (mut walk, mut steps, mut log) = (Walk::default(), 0, Vec::new());
        let mut next = 0;
        while next < chains.len() && steps < 1000 {
            steps += 1;
            let (before, mut left) = (walk.begin(), room);
            while next < chains.len() {
                let taken = (0..chains[next]).all(|item| {
                    let number = next as u64 * 100 + item;
                    let id = KeyId { slice: SliceId::of(b"k"), hash: number };
                    walk.append((id, Version::new(1, number)), || {
                        let has_room = left > 0;
                        left -= u64::from(has_room);
                        log.extend(has_room.then_some(number));
                        has_room
                    })
                });
                if !taken {
                    break;
                }
                next += 1;
            }
            walk.end(before, Cursor::from_raw(next as u64));
        }
        (steps, log)
    }

    #[test]
    fn each_item_is_appended_once_however_little_room_there_is() {
        for chains in [&[1, 2, 3][..], &[9], &[0, 7, 7, 0, 20, 1]] {
            for room in 1..40 {
                let (steps, log) = steps(chains, room);
                let all: Vec<_> = (0..chains.len() as u64)
                    .flat_map(|at| (0..chains[at as usize]).map(move |item| at * 100 + item))
                    .collect();
                assert_eq!(log, all, "{chains:?} {room}");
                assert!(steps <= all.len() as u64 + 1, "{chains:?} {room}: {steps} steps");
            }
        }
    }

    #[test]
    fn an_item_that_has_changed_is_appended_again() {
        let mut walk = Walk::default();
        let item =
            |version| (KeyId { slice: SliceId::of(b"k"), hash: 1 }, Version::new(1, version));
        let before = walk.begin();
        assert!(walk.append(item(1), || true) && !walk.append(item(9), || false));
        walk.end(before, before);
        walk.begin();
        assert!(walk.append(item(1), || panic!("it was")) && !walk.append(item(2), || false));
    }
}
