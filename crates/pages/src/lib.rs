//! Keys in pages of a bucket, where no name is written twice.
//!
//! A bucket creates objects, and keeps them as they are. A page has the records of some hundred
//! keys that follow each other. A change of a key makes a new page, and a new map of the run of
//! slices that it is in; the map that was created last says what counts. So one object is written
//! for many keys, what a bucket carries out late changes nothing that counts, and a cell that was
//! taken over cannot make anything count.
//!
//! Each run of slices has a writer. A cell alone writes all of them. Of cells that share a bucket
//! each leads some, and another can take over one of them alone.
//!
//! The core: it owns no thread and no socket. What objects lie in is a trait, [`Objects`].
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `objects` | nothing | what keeps objects under names |
//! | `memory` | `objects` | objects in memory, with faults |
//! | `counted` | `objects` | objects whose requests are counted |
//! | `bytes` | nothing | numbers and checksums of an object |
//! | `name` | nothing | the names of objects |
//! | `note` | `bytes` | a note as an object |
//! | `page` | `bytes`, `name` | the records of keys that follow each other |
//! | `map` | `bytes`, `name`, `page` | which pages a run of slices has |
//! | `cache` | `name` | the pages that were read last |
//! | `runs` | nothing | which slices are a run |
//! | `store` | `name`, `objects`, `runs` | the objects of one writer of a run, and whether another has come |
//! | `opening` | `map`, `name`, `note`, `objects`, `runs`, `store` | how a writer begins |
//! | `own_notes` | `name`, `note`, `objects`, `opening`, `rewrite`, `store` | notes that one cell writes, or several claim |
//! | `rewrite` | `map`, `name`, `objects`, `opening`, `page`, `store` | changes of keys as new pages |
//! | `led` | `name`, `opening`, `rewrite`, `store` | a run that this cell leads |
//! | `leading` | `cache`, `led`, `name`, `objects`, `opening`, `page`, `rewrite`, `runs`, `store` | all of them: looking keys up, and changing them |
//! | `showing` | `leading`, `led`, `name`, `page`, `rewrite`, `runs` | all keys of the runs that are led |
//! | `pages` | `counted`, `leading`, `objects`, `opening`, `own_notes`, `rewrite`, `runs`, `showing`, `store` | what lies below a tier |
#![forbid(unsafe_code)]

mod bytes;
mod cache;
mod counted;
mod leading;
mod led;
mod map;
mod memory;
mod name;
mod note;
mod objects;
mod opening;
mod own_notes;
mod page;
mod pages;
mod rewrite;
mod runs;
mod showing;
mod store;

pub use memory::{Call, Calls, Fault, MemoryObjects};
pub use objects::{Created, Object, Objects};
pub use pages::{Pages, PagesConfig};
