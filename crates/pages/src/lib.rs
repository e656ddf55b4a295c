//! Keys in pages of a bucket, where no name is written twice.
//!
//! A bucket creates objects, and keeps them as they are. A page has the records of some hundred
//! keys that follow each other. A change of a key makes a new page, and a new map of the run of
//! slices that it is in; the map that was created last says what counts. So one object is written
//! for many keys, what a bucket carries out late changes nothing that counts, and a cell that was
//! taken over cannot make anything count.
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
//! | `store` | `name`, `objects` | the objects of one writer, and whether another has come |
//! | `opening` | `map`, `name`, `note`, `objects`, `store` | how a writer begins |
//! | `rewrite` | `map`, `name`, `objects`, `opening`, `page`, `store` | changes of keys as new pages |
//! | `taken` | `cache`, `name`, `note`, `objects`, `opening`, `page`, `rewrite`, `store` | a bucket that this writer has taken over |
//! | `pages` | `counted`, `objects`, `opening`, `rewrite`, `store`, `taken` | what lies below a tier |
#![forbid(unsafe_code)]

mod bytes;
mod cache;
mod counted;
mod map;
mod memory;
mod name;
mod note;
mod objects;
mod opening;
mod page;
mod pages;
mod rewrite;
mod store;
mod taken;

pub use memory::{Call, Calls, Fault, MemoryObjects};
pub use objects::{Created, Object, Objects};
pub use pages::{Pages, PagesConfig};
