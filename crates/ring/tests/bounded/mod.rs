//! A model of a range: three cells, its map, leases, copies, crashes, and messages that are late or
//! lost. `stateright` visits every state within the bounds.
//!
//! The map and its commands are the real ones. The rules of `ring::Member` and of the copies are
//! here in small: time goes in ticks, a range has one key, and its changes are numbered over the
//! whole run. A change with an odd number sets the key, one with an even number deletes it. At
//! first it is set.
//!
//! ```text
//! ages of leases and silences, one heartbeat and one entry on its way for each pair of cells,
//! proposals that wait for the coordinator as long as they like, or for ever
//! ```
//!
//! Not modelled: several keys and lanes, eviction, requests that are forwarded, the agreement of
//! the coordinator itself.

mod actions;
mod adopt;
mod cell;
mod lead;
mod rules;
mod steps;
mod world;

pub use actions::Ring;
pub use rules::{Bounds, Rule};
