//! What keeps keys below the journal of a tier.
//!
//! | room | may use | what it is |
//! |---|---|---|
#![forbid(unsafe_code)]
