//! Eviction: which segments go, which of their items stay, and space for those who need it.
//!
//! `evict` chooses segments and walks them at the pace of the writers; `victim` decides about each
//! item; `ghosts` and `balance` hold what is remembered of evicted keys, and `arrivals` notices a
//! new working set; `space` evicts at once for a request that cannot continue. Reading knows
//! nothing of it. Writing uses the ghosts, and the space that is made for it.

mod arrivals;
mod balance;
mod evict;
mod ghosts;
mod holdings;
mod space;
mod stopped;
mod victim;
mod work;

pub(crate) use evict::Eviction;
pub use evict::Left;
pub use holdings::Holdings;
pub(crate) use space::{give_back, with_space};
pub(crate) use stopped::{Failed, Stopped};
pub(crate) use work::Work;
