//! Counters with one writer each: an addition is a load and a store, never a locked instruction.
//!
//! Each thread counts in a structure of its own, on cache lines of its own. A reader adds up the
//! structures of all threads. A single counter may wrap below zero, because one thread may subtract
//! what another added; only the sum has a meaning.
//!
//! Nothing here orders memory: a reader may see one counter of a thread before another that the
//! thread wrote first.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread changes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`, wrapping.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.get().wrapping_add(amount), Ordering::Relaxed);
    }

    /// Subtracts `amount`, wrapping: only the sum over all threads has a meaning.
    #[inline]
    pub fn subtract(&self, amount: u64) {
        self.add(amount.wrapping_neg());
    }

    /// The present value. The writer may change it at any time.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares two structures with the same fields: one of [`Counter`]s, for one thread, and one of
/// their sums, as plain numbers.
#[macro_export]
macro_rules! counters {
    (
        $(#[$sum_doc:meta])* $sum:ident of $(#[$one_doc:meta])* $one:ident;
        $($(#[$doc:meta])* $name:ident,)*
    ) => {
        $(#[$sum_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $sum { $($(#[$doc])* pub $name: u64,)* }

        $(#[$one_doc])*
        #[derive(Default)]
        #[repr(align(64))]
        pub(crate) struct $one { $($(#[$doc])* pub $name: $crate::Counter,)* }

        impl $sum {
            /// Adds the present values of one thread's counters.
            pub(crate) fn add(&mut self, one: &$one) {
                $(self.$name = self.$name.wrapping_add(one.$name.get());)*
            }

            /// What was counted after the sums were `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    crate::counters! {
        /// Sums.
        Sums of
        /// Ones.
        Ones;
        /// A number.
        hits,
    }

    #[test]
    fn sums_of_wrapping_parts_are_right() {
        let (first, second) = (Ones::default(), Ones::default());
        first.hits.add(5);
        second.hits.subtract(2);
        let mut sums = Sums::default();
        sums.add(&first);
        sums.add(&second);
        assert_eq!(sums, Sums { hits: 3 });
        assert_eq!(sums.since(&Sums { hits: 1 }), Sums { hits: 2 });
    }
}
