//! What lies below the memory of a cell.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `disk` | nothing | files, as the journal needs them |
//! | `backend` | nothing | what keeps keys below the journal |
//! | `sync` | nothing | atomics and the lock, or those of a model checker |
//! | `key` | nothing | the hash that stands for a key |
//! | `index` | `key`, `sync` | where the newest record of each key lies that is not written back |
//! | `lookups` | `key`, `sync` | which keys are looked up below, and which are missing there |
//! | `rules` | nothing | how much a reply promises, by the prefix of its key |
//! | `live_rules` | `rules`, `sync` | the rules of now |
//! | `stored` | nothing | the record of a key below |
//! | `journal` | `disk`, `floors`, `index`, `key`, `rules`, `sync` | the logs of effects on the disk |
//! | `floors` | `disk`, `sync` | up to where records and barriers are void |
//! | `led` | `sync` | which slices a cell of a ring leads |
//! | `in_ring` | `floors`, `led`, `sync` | what the tier of a cell in a ring has besides |
//! | `layers` | `backend`, `held`, `in_ring`, `index`, `journal`, `key`, `stored`, `sync` | journal, index and backend, together |
//! | `held` | `index`, `journal`, `key` | groups of keys that cannot be written back for a while |
//! | `flusher` | `backend`, `held`, `index`, `journal`, `key`, `layers`, `stored`, `sync` | how what is dirty is written back |
//! | `salvage` | `backend`, `index`, `journal`, `key`, `stored` | what is left of a journal that is corrupt, brought below |
//! | `error` | `backend`, `journal` | why there is no tier |
//! | `claim` | `backend`, `error`, `journal` | which journal the backend belongs to |
//! | `member` | `backend`, `in_ring`, `index`, `journal`, `key`, `layers`, `live_rules`, `lookups`, `rules` | the tier of a cell in a ring, as the ring uses it |
//! | `check` | `backend`, `index`, `journal`, `key`, `layers`, `stored`, `sync` | whether all can be read, and is what was written |
//! | `discard` | `backend`, `index`, `journal`, `key`, `layers`, `sync` | changes that are given up |
//! | `tier` | * | the tier of a cell |
#![forbid(unsafe_code)]

mod backend;
mod check;
mod claim;
mod discard;
mod disk;
mod error;
mod floors;
mod flusher;
mod held;
mod in_ring;
mod index;
mod journal;
mod key;
mod layers;
mod led;
mod live_rules;
mod lookups;
mod member;
mod rules;
mod salvage;
mod stored;
mod sync;
mod tier;

pub use backend::{Backend, BackendError, Change, Failure, KEY_BYTES_MAX, Requests, See};
pub use check::{Checked, Stage};
pub use discard::{Discard, Discarded, GivenUp};
pub use disk::{Disk, File};
pub use error::TierError;
pub use flusher::Flushed;
pub use in_ring::WrittenBack;
pub use index::{Cursor, ENTRY_BYTES, Entry, Index, Kind, Place};
pub use journal::{
    COPIED_STATES, FIRST_MAX, FLUSH_AT, JournalId, RecoverError, SliceState, WRITTEN_BACK,
    encode_copied, encode_written_back, written_back,
};
pub use key::{KeyHash, KeyHasher};
pub use layers::Loaded;
pub use live_rules::LiveRules;
pub use lookups::{Begun, Finished, Lookups, MISSING_NS, Outcome, Ticket, Waiters};
pub use member::{Member, Voiding};
pub use rules::{ACK_NAMES, Ack, PREFIXES_MAX, Policy, PrefixRule, Rules, RulesError};
pub use stored::Stored;
pub use tier::{Job, Recovered, Summary, Tier, TierConfig, TierReport, Wanted};
