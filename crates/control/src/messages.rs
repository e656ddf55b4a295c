//! The bodies of calls between cells, in JSON: they are few, and small.

use ring::{CellId, Map, Started};
use serde::{Deserialize, Serialize};

/// Of the coordinator; the bodies are its own.
pub(crate) const QUORUM: u8 = 1;
/// A cell wants to join.
pub(crate) const JOIN: u8 = 2;

/// A cell that wants to join.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Join {
    /// What it calls itself; see [`ring::Command::Join`].
    pub(crate) token: u64,
    pub(crate) started: Started,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_witness: bool,
}

/// It has joined. Where the map refuses that, the answer fails, with a [`ring::Refusal`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Joined {
    pub(crate) cell: CellId,
    /// The map, with the addresses of the others.
    pub(crate) map: Map,
}
