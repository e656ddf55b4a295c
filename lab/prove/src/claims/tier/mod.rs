//! What a tier below the memory of one cell promises, and what it costs.

pub mod price;

use crate::instruments::Contestant;
use crate::lab::Lab;

/// Our server above a tier in a directory of its own, with this acknowledgement.
pub(super) fn tiered(lab: &Lab, cell: Contestant, ack: &str) -> Contestant {
    let directory = lab.folder().join(format!("tier-{ack}"));
    cell.env("VOLVOX_TIER_DIRECTORY", &directory.display().to_string()).env("VOLVOX_TIER_ACK", ack)
}
