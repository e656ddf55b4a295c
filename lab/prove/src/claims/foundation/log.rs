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

const SET: [Shape; 2] = depths(Verb::Set);
const GET: [Shape; 2] = depths(Verb::Get(1));

const fn depths(verb: Verb) -> [Shape; 2] {
    [Shape { verb, depth: 1 }, Shape { verb, depth: 16 }]
}

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    claim("log.set.1", "log on: instructions per SET, depth 1", "<= 1.25x", |lab| {
        with(lab, LOG, SET[0], 1.25)
    }),
    claim("log.set.16", "log on: instructions per SET, depth 16", "<= 1.25x", |lab| {
        with(lab, LOG, SET[1], 1.25)
    }),
    claim("log.gate.1", "behind a gate: instructions per SET, depth 1", "<= 1.5x", |lab| {
        with(lab, GATE, SET[0], 1.5)
    }),
    claim("log.gate.16", "behind a gate: instructions per SET, depth 16", "<= 1.5x", |lab| {
        with(lab, GATE, SET[1], 1.5)
    }),
    claim("log.get.1", "log on: instructions per GET, depth 1", "<= 1.02x", |lab| {
        with(lab, LOG, GET[0], 1.02)
    }),
    claim("log.get.16", "log on: instructions per GET, depth 16", "<= 1.02x", |lab| {
        with(lab, LOG, GET[1], 1.02)
    }),
];

const fn claim(
    id: &'static str,
    claim: &'static str,
    bar: &'static str,
    measure: fn(&Lab) -> Result<Measured>,
) -> Claim {
    Claim::new(id, claim).bar(bar).by(measure)
}

fn with(lab: &Lab, settings: Settings, shape: Shape, times_max: f64) -> Result<Measured> {
    if settings.is_empty() {
        return Ok(Measured::not("the server has no setting that turns its log on"));
    }
    let log = |contestant: Contestant| {
        settings.iter().fold(contestant, |contestant, (name, value)| contestant.env(name, value))
    };
    beside(lab, shape, log, times_max)
}
