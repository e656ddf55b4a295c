//! The numbers of workers that have requests waiting.

/// Numbers of workers, each of them once, by rising number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiters(Vec<u16>);

impl Waiters {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The numbers, rising.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }

    /// Adds a number, if it is not there.
    pub(super) fn add(&mut self, worker: u16) {
        if let Err(at) = self.0.binary_search(&worker) {
            self.0.insert(at, worker);
        }
    }

    /// Adds all numbers of `other`.
    pub(super) fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|worker| self.add(worker));
    }
}
