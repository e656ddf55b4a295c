//! What has come of requests that other cells may ask again: kept by their ids, at the primary and
//! at its copies.
//!
//! To read it, begin with `tag`, the id of a request, then `tags`, what is kept. `tag_state` is how
//! it travels in the log.

pub(super) mod outcome;
mod tag;
pub(super) mod tag_state;
mod tags;

pub(super) use tag::{Asker, RequestTag};
pub(super) use tags::{AskedBy, Changes, Known, Tags};
