//! A witness: a process that takes part in agreement and heartbeats of a ring, and in nothing else.
//!
//! It has a vote, and it is the second that finds the connections of a primary broken. It has no
//! items, serves no clients, and opens no links. It runs until a signal ends it.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use control::{ControlConfig, Plane, Seen, Starting};
use drivers::Clock;
use ring::{
    Addresses, CellId, Change, Granted, Map, Memory, Outcome, Outlook, Range, RangeId, Stamp,
};

use super::keeping::{end, log_change};
use super::member::{OpenRandom, RingClock, address, is_no_file, read_secret};
use super::repeats::Repeats;
use crate::config::{Listen, LogSettings};
use crate::logging::{self, Writes};
use crate::process::{Request, Signals};

/// What a witness is started with.
#[derive(Clone, Debug)]
pub struct WantedWitness {
    /// Its directory.
    pub directory: PathBuf,
    /// Where cells reach it.
    pub listen: Listen,
    /// `ring.listen` of cells.
    pub seeds: Vec<Listen>,
    /// The file with the secret of the ring.
    pub secret_file: PathBuf,
}

/// Runs a witness until a signal ends it; returns the code to exit with.
///
/// # Errors
/// What the system, a file or an address refuses, or that no ring takes it.
pub fn witness(wanted: &WantedWitness) -> Result<u8, Box<dyn Error>> {
    logging::start(&LogSettings::default(), Writes::Another)?;
    let mut signals = Signals::new()?;
    let (clock, random) = (Clock::new(), OpenRandom::open()?);
    is_no_file("--directory", &wanted.directory)?;
    let one = std::slice::from_ref;
    let at = address("--listen", one(&wanted.listen))?;
    let seeds = wanted.seeds.iter().map(|seed| address("--seeds", one(seed)));
    let config = ControlConfig {
        directory: wanted.directory.clone(),
        addresses: Addresses { control: at, links: at, clients: at },
        journal_of: None,
        below: None,
        secret: read_secret(&wanted.secret_file)?,
        seeds: seeds.collect::<Result<Vec<SocketAddr>, _>>()?,
        is_witness: true,
        founding: None,
        clock: Arc::new(RingClock(clock.clone())),
        nonce: Arc::new(move || random.nonce()),
        ends: signals.ends(),
    };
    let notes = Arc::new(Repeats::new(clock));
    let starting = Starting::begin(config, notes.clone().sink())?;
    let (ring, me, start) = (starting.ring(), starting.cell(), starting.incarnation().0);
    tracing::info!("cell {me} of ring {ring:016x}, start {start}: a witness");
    let control = starting.run(Arc::new(Watching(notes)));
    while signals.wait().is_some_and(|request| request == Request::Reload) {}
    drop(control);
    Ok(0)
}

/// What follows for a witness: lines in its log.
struct Watching(Arc<Repeats>);

impl Plane for Watching {
    fn adopt(&self, _map: Arc<Map>, _holds: BTreeMap<RangeId, u64>) {}

    fn extend(&self, _range: RangeId, _epoch: u32, _until_ns: u64) {}

    /// Never: it copies nothing.
    fn granted(&self, _primary: CellId, _granted: Granted) {}

    /// Never: it leads nothing.
    fn serves(&self, _range: &Range) -> bool {
        false
    }

    /// Never: it leads nothing.
    fn unseal(&self, _at: Stamp) {}

    fn hear_ready(&self, _cell: CellId, _version: u64) {}

    /// Never: it learns nothing.
    fn ready_version(&self) -> u64 {
        0
    }

    /// None: nobody asks it to learn.
    fn memory(&self) -> Memory {
        Memory::default()
    }

    fn record(&self, change: Change, _is_old: bool) {
        log_change(&change);
    }

    /// Never: it has no clients that could ask for one.
    fn flushed(&self, _flush: Seen, _outcome: Outcome) {}

    fn see(&self, _outlook: Outlook) {}

    fn note(&self, text: String) {
        self.0.warn(&text);
    }

    fn end(&self, why: String) {
        end(&why);
    }
}
