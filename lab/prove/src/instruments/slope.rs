//! Counts per request, free of the cost of starting and ending.
//!
//! The server runs twice under an instrument. Both runs do the same but for the number of requests,
//! so the difference of the counts belongs to the difference of the requests.
//!
//! Server and requests share one core: the server runs when every request of a round is sent, so it
//! finds as many at each wait in every run. Apart, that number depends on which core is faster, and
//! the count of a request on it (a null server: 206 or 250).

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::contestant::{Contestant, Program};
use super::fleet::{Fleet, Shape};
use crate::lab::Lab;
use measure::process::{ALLOCATIONS, Counts, INSTRUCTIONS, Instrument, per_request};

/// Connections of every server but memcached, which derives its descriptors from them: instruments
/// leave few.
const CONNECTIONS_MAX: usize = 256;

/// How much work the two runs do.
#[derive(Clone, Copy)]
pub struct Work {
    /// What is requested.
    pub shape: Shape,
    /// On how many connections.
    pub connections: usize,
    /// Rounds of the shorter and of the longer run.
    pub rounds: (u64, u64),
}

/// What one request takes.
#[derive(Clone, Copy)]
pub struct Taken {
    /// User instructions.
    pub instructions: f64,
    /// Calls that allocate memory.
    pub allocations: f64,
}

/// What one request takes of a server, whatever its arguments and variables are.
pub fn taken(lab: &Lab, contestant: &Contestant, work: Work) -> Result<Taken> {
    let each = counts(lab, contestant, work, Instrument::Callgrind, work.shape.depth)?;
    let instructions = each.get(INSTRUCTIONS).copied();
    let instructions = instructions.context("callgrind counted no instruction")?;
    Ok(Taken { instructions, allocations: each.get(ALLOCATIONS).copied().unwrap_or(0.0) })
}

/// System calls of one batch, by name. A batch on one connection is one readable event.
pub fn system_calls(
    lab: &Lab,
    contestant: &Contestant,
    work: Work,
) -> Result<BTreeMap<String, f64>> {
    counts(lab, contestant, work, Instrument::Strace, 1)
}

/// What the longer run counted more than the shorter, in each of `per_batch` parts of a batch.
fn counts(
    lab: &Lab,
    contestant: &Contestant,
    work: Work,
    instrument: Instrument,
    per_batch: usize,
) -> Result<BTreeMap<String, f64>> {
    instrument.tool().need()?;
    let few = run(lab, contestant, work, work.rounds.0, instrument)?;
    let many = run(lab, contestant, work, work.rounds.1, instrument)?;
    let parts = |rounds: u64| rounds * (work.connections * per_batch) as u64;
    Ok(per_request(&few, &many, (parts(work.rounds.0), parts(work.rounds.1))))
}

fn run(
    lab: &Lab,
    contestant: &Contestant,
    work: Work,
    rounds: u64,
    instrument: Instrument,
) -> Result<Counts> {
    let file = lab.folder().join(format!("{}-{rounds}.out", instrument.tool().program));
    let contestant = contestant.clone().under(instrument, &file).pinned(lab);
    let contestant = match contestant.program() {
        Program::Memcached => contestant,
        _ => contestant.connections_max(CONNECTIONS_MAX),
    };
    let (is_null, cores) =
        (matches!(contestant.program(), Program::Null(..)), lab.cores().server());
    let server = contestant.start(lab)?;
    let exchange = || {
        let mut fleet = Fleet::connect(server.address(), work.connections)?;
        if !is_null {
            fleet.fill()?;
        }
        fleet.run(work.shape, rounds, !is_null)
    };
    cores.run(exchange).context("move to the server's core")??;
    server.stop()?;
    instrument.read(&file)
}
