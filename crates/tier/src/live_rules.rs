//! The rules of now: an operator may change them while the cell runs.

use crate::rules::{Ack, Rules};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use std::sync::Arc;

/// The rules of now. Who asks often keeps those that it was given, and asks for their
/// [`number`](Self::number).
pub struct LiveRules {
    now: Mutex<Arc<Rules>>,
    /// What was asked for, and is not in force yet.
    wanted: Mutex<Option<Arc<Rules>>>,
    /// How often they were set.
    number: AtomicU64,
    /// What keys promise that no prefix names; the most that any promises; and the most that any
    /// has promised since the cell began.
    base: AtomicU64,
    most: AtomicU64,
    ever: AtomicU64,
}

impl LiveRules {
    /// Begins with `rules`.
    pub(crate) fn new(rules: Arc<Rules>) -> Self {
        let [base, most, ever] =
            [rules.base(), rules.most(), rules.most()].map(|ack| AtomicU64::new(ack as u64));
        let wanted = Mutex::default();
        Self { now: Mutex::new(rules), wanted, number: AtomicU64::new(1), base, most, ever }
    }

    /// The rules of now.
    #[must_use]
    pub fn now(&self) -> Arc<Rules> {
        lock(&self.now).clone()
    }

    /// Another one after each change.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// What replies promise about keys with no prefix that is named.
    #[inline]
    #[must_use]
    pub fn base(&self) -> Ack {
        ack(&self.base)
    }

    /// The most that replies about any key promise.
    #[inline]
    #[must_use]
    pub fn most(&self) -> Ack {
        ack(&self.most)
    }

    /// The most that replies have promised since the cell began: some of them may wait still.
    #[inline]
    #[must_use]
    pub fn ever(&self) -> Ack {
        ack(&self.ever)
    }

    /// Asks for other rules. Of several that were asked for, the last ones are taken.
    pub(crate) fn want(&self, rules: Arc<Rules>) {
        *lock(&self.wanted) = Some(rules);
    }

    /// What was asked for since this was called last.
    pub(crate) fn take_wanted(&self) -> Option<Arc<Rules>> {
        lock(&self.wanted).take()
    }

    /// Has `rules` hold from now on.
    pub(crate) fn set(&self, rules: Arc<Rules>) {
        let mut now = lock(&self.now);
        self.base.store(rules.base() as u64, Ordering::Relaxed);
        self.most.store(rules.most() as u64, Ordering::Relaxed);
        self.ever.fetch_max(rules.most() as u64, Ordering::Relaxed);
        *now = rules;
        self.number.fetch_add(1, Ordering::Release);
    }
}

fn ack(of: &AtomicU64) -> Ack {
    Ack::ALL[of.load(Ordering::Relaxed) as usize]
}
