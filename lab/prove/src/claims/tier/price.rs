//! What a tier costs a request: server CPU beside a cell without one, and beside redis.
//!
//! Both hold all keys in memory, so that a GET finds them there: this is the price of the journal,
//! and of writing back meanwhile.

use anyhow::Result;

use super::tiered;
use crate::claim::{Claim, Measured};
use crate::instruments::{
    Contestant, GET, Limit, Load, costs, details, pinned, rounds, times, within,
};
use crate::lab::Lab;

const GET_16: Load = Load { depth: 16, limit: Limit::Requests(400_000), ..GET };
const SET_1: Load = Load { ratio: "0:1", ..GET };
const SET_16: Load = Load { ratio: "0:1", ..GET_16 };

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("price.get.1", "above a tier, GET found in memory, depth 1: server CPU")
        .bar("<= 1.05x of a cell without one")
        .by(|lab| beside(lab, "os", GET, 1.05)),
    Claim::new("price.get.16", "the same, depth 16")
        .bar("<= 1.05x")
        .by(|lab| beside(lab, "os", GET_16, 1.05)),
    Claim::new("price.set.memory.1", "SET at memory, depth 1: server CPU")
        .bar("<= 1.15x")
        .by(|lab| beside(lab, "memory", SET_1, 1.15)),
    Claim::new("price.set.memory.16", "the same, depth 16")
        .bar("<= 2x")
        .by(|lab| beside(lab, "memory", SET_16, 2.0)),
    Claim::new("price.set.os.1", "SET at os, depth 1: server CPU")
        .bar("<= 1.3x")
        .by(|lab| beside(lab, "os", SET_1, 1.3)),
    Claim::new("price.set.os.16", "the same, depth 16")
        .bar("<= 2.3x")
        .by(|lab| beside(lab, "os", SET_16, 2.3)),
];

/// How many times as much CPU a request costs above a tier.
fn beside(lab: &Lab, ack: &str, load: Load, times_max: f64) -> Result<Measured> {
    let cell = pinned(lab, Contestant::volvox(lab)?);
    let two = [tiered(lab, cell.clone(), ack), cell];
    let series = costs(lab, &two, load, rounds(lab))?;
    let factor = times(&series[0], &series[1])?;
    let details = details(&["above a tier", "without one"], &series);
    Ok(Measured::new(within(factor), factor.value, factor.value <= times_max).with_details(details))
}
