//! How many keys a get requests, and which.
//!
//! The number is drawn for each get. Keys are drawn one by one, or follow the first one in the
//! order of their numbers. Bound: [`MULTIGET_MAX`] keys.

use super::spread::Spread;
use super::stream::Stream;

/// The most keys of one get.
pub const MULTIGET_MAX: u32 = 10_000;

/// The keys of a get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multiget {
    /// How many.
    pub keys: Spread,
    /// Whether they follow the first one in order instead of being drawn one by one.
    pub consecutive: bool,
}

impl Multiget {
    /// Always one key.
    pub const ONE: Self = Self { keys: Spread::Fixed(1), consecutive: false };

    /// Appends the keys of one get of `stream` to `asked`, and returns how many they are.
    #[inline]
    pub(crate) fn draw(
        &self,
        stream: &mut Stream,
        keys_count: u64,
        asked: &mut impl Extend<u64>,
    ) -> u32 {
        let count = stream.number(&self.keys).max(1);
        if self.consecutive {
            let first = stream.key();
            let nth = |nth: u32| (first + u64::from(nth)) % keys_count;
            asked.extend((0..count).map(nth));
        } else {
            asked.extend((0..count).map(|_| stream.key()));
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Popularity, Ratio, Workload, WorkloadSpec};

    #[test]
    fn gets_have_as_many_keys_as_asked_for() {
        let workload = Workload::new(&WorkloadSpec {
            keys: 10,
            key_bytes: Spread::Fixed(4),
            key_prefix: "k".into(),
            popularity: Popularity::Uniform,
            ratio: Ratio::of(1, 0),
            value_bytes: Spread::Fixed(1),
            ttl_s: Spread::Fixed(0),
            seed: 1,
        })
        .unwrap();
        let mut stream = Stream::new(&workload, 0, 1);
        let scan = Multiget { keys: Spread::Uniform(1, 4), consecutive: true };
        let mut counts = [0; 5];
        for _ in 0..1_000 {
            let mut asked: Vec<u64> = Vec::new();
            counts[scan.draw(&mut stream, 10, &mut asked) as usize] += 1;
            assert!(asked.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 10), "{asked:?}");
        }
        assert!(counts[0] == 0 && counts[1..].iter().all(|count| *count > 200), "{counts:?}");
        let mut asked: Vec<u64> = Vec::new();
        assert_eq!(Multiget::ONE.draw(&mut stream, 10, &mut asked), 1);
        assert_eq!(asked.len(), 1);
    }
}
