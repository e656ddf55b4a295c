//! What a tier below the memory of one cell promises, and what it costs.

pub mod disk;
pub mod kill;
pub mod loss;
pub mod pressure;
pub mod price;
pub mod size;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::instruments::Contestant;
use crate::lab::Lab;

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

fn directory(lab: &Lab, ack: &str) -> PathBuf {
    lab.folder().join(format!("tier-{ack}"))
}
