//! A note of the tier as an object.

use crate::bytes::{begin, close, open};

const MAGIC: &[u8; 8] = b"VXNOTE01";

/// The object of a note.
pub(crate) fn encode(note: &[u8]) -> Vec<u8> {
    let mut object = begin(MAGIC, note.len());
    object.extend_from_slice(note);
    close(object)
}

/// The note that an object is; `None` if it is not one.
pub(crate) fn decode(object: &[u8]) -> Option<Vec<u8>> {
    open(MAGIC, object).map(|note| note.0.to_vec())
}
