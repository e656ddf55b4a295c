//! What the log of effects costs a request: user instructions with it, beside those without.
//!
//! The log is turned on by settings for tests, which our server takes as variables of its
//! environment. Each count is that of one request on 50 connections, without the cost of starting:
//! see `instructions`. A request that allocates memory because of the log fails its claim.

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::claims::instructions::beside;
use crate::instruments::{Contestant, Shape, Verb};
use crate::lab::Lab;

/// Variables and values of our server's environment.
type Settings = &'static [(&'static str, &'static str)];

/// What turns the log on, with a reader that passes its mark at each batch's end. Empty while the
/// server has no such setting.
const LOG: Settings = &[];
/// The same, with replies that wait at a gate for that mark.
const GATE: Settings = &[];

const SET_1: Shape = Shape { verb: Verb::Set, depth: 1 };
const SET_16: Shape = Shape { depth: 16, ..SET_1 };
const GET_1: Shape = Shape { verb: Verb::Get(1), depth: 1 };
const GET_16: Shape = Shape { depth: 16, ..GET_1 };

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("log.set.1", "log on: instructions per SET, depth 1")
        .bar("<= 1.25x")
        .by(|lab| with(lab, LOG, SET_1, 1.25)),
    Claim::new("log.set.16", "log on: instructions per SET, depth 16")
        .bar("<= 1.25x")
        .by(|lab| with(lab, LOG, SET_16, 1.25)),
    Claim::new("log.gate.1", "behind a gate: instructions per SET, depth 1")
        .bar("<= 1.5x")
        .by(|lab| with(lab, GATE, SET_1, 1.5)),
    Claim::new("log.gate.16", "behind a gate: instructions per SET, depth 16")
        .bar("<= 1.5x")
        .by(|lab| with(lab, GATE, SET_16, 1.5)),
    Claim::new("log.get.1", "log on: instructions per GET, depth 1")
        .bar("<= 1.02x")
        .by(|lab| with(lab, LOG, GET_1, 1.02)),
    Claim::new("log.get.16", "log on: instructions per GET, depth 16")
        .bar("<= 1.02x")
        .by(|lab| with(lab, LOG, GET_16, 1.02)),
];

fn with(lab: &Lab, settings: Settings, shape: Shape, times_max: f64) -> Result<Measured> {
    if settings.is_empty() {
        return Ok(Measured::not("the server has no setting that turns its log on"));
    }
    let log = |contestant: Contestant| {
        settings.iter().fold(contestant, |contestant, (name, value)| contestant.env(name, value))
    };
    beside(lab, shape, log, times_max)
}
