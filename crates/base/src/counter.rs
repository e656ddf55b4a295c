//! Counters with one writer each: adding is a load and a store, never a locked instruction.
//!
//! Each thread counts in a structure of its own; whoever wants the sum adds them up.

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

    /// Takes `amount` away, wrapping: the sum over all threads is what means something.
    #[inline]
    pub fn subtract(&self, amount: u64) {
        self.add(amount.wrapping_neg());
    }

    /// The present value; the writer may be about to change it.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares a structure of [`Counter`]s for one thread, and the structure of their sums.
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
        pub(crate) struct $one { $($(#[$doc])* pub(crate) $name: $crate::Counter,)* }

        impl $sum {
            /// Adds the present values of one thread's counters.
            pub(crate) fn add(&mut self, one: &$one) {
                $(self.$name = self.$name.wrapping_add(one.$name.get());)*
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
    }
}
