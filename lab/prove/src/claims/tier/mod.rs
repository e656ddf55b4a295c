//! What a tier below the memory of one cell promises, and what it costs.

pub mod clients;
pub mod disk;
pub mod kill;
pub mod loss;
pub mod outage;
pub mod pressure;
pub mod price;
pub mod reads;
pub mod recovery;
pub mod ring;
pub mod size;
pub mod table;
pub mod tests;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::instruments::{Client, Contestant};
use crate::lab::Lab;
use measure::exec::Exec;
use measure::process::Server;

/// Longest that all may take to be written back.
const DRAIN_MAX: Duration = Duration::from_secs(300);

/// Our server above a tier in a directory of its own, with this acknowledgement.
pub(super) fn tiered(lab: &Lab, cell: Contestant, ack: &str) -> Contestant {
    let directory = directory(lab, ack);
    cell.env("VOLVOX_TIER_DIRECTORY", &directory.display().to_string()).env("VOLVOX_TIER_ACK", ack)
}

/// The same in a directory that is empty.
pub(super) fn emptied(lab: &Lab, cell: Contestant, ack: &str) -> Result<Contestant> {
    let directory = directory(lab, ack);
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| format!("empty {}", directory.display()))?;
    }
    Ok(tiered(lab, cell, ack))
}

/// Waits until all that a cell has is written back.
pub(super) fn drained(lab: &Lab, server: &Server) -> Result<()> {
    let address = server.address().to_string();
    let seconds = DRAIN_MAX.as_secs().to_string();
    let words = ["ctl", "--server", &address, "tier", "drain", "--wait", &seconds];
    Exec::new(lab.volvox()?).args(words).capture(DRAIN_MAX).map(drop)
}

/// A number of `stats tier`.
pub(super) fn number(client: &mut Client, name: &str) -> Result<u64> {
    let stats = client.stats_of("stats tier")?;
    let number = stats.get(name).with_context(|| format!("`stats tier` has no {name}"))?;
    Ok(number.parse()?)
}

pub(super) fn directory(lab: &Lab, ack: &str) -> PathBuf {
    lab.folder().join(format!("tier-{ack}"))
}
