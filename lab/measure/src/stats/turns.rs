//! Contestants that take turns, so that a slow drift of the machine falls on all alike.
//!
//! They run forwards in one round and backwards in the next (A B C, C B A, ...). What is measured
//! in one round belongs together: comparisons are made within a round.

use anyhow::Result;

/// Measurements of one contestant, one a round.
pub type Series = Vec<f64>;

/// Which contestant runs first, second, ... in a round.
pub fn order(contestants: usize, round: usize) -> impl Iterator<Item = usize> {
    let nth = move |turn| if round.is_multiple_of(2) { turn } else { contestants - 1 - turn };
    (0..contestants).map(nth)
}

/// Measures each contestant once a round, as `measure(contestant, round)`; one list for each.
pub fn alternate<T>(
    contestants: usize,
    rounds: usize,
    mut measure: impl FnMut(usize, usize) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = (0..contestants).map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..rounds {
        for contestant in order(contestants, round) {
            all[contestant].push(measure(contestant, round)?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_forwards_then_backwards() {
        let mut turns = Vec::new();
        let series = alternate(3, 2, |contestant, round| {
            turns.push(contestant);
            Ok(contestant * 10 + round)
        });
        assert_eq!(turns, [0, 1, 2, 2, 1, 0]);
        assert_eq!(series.unwrap(), [[0, 1], [10, 11], [20, 21]]);
    }
}
