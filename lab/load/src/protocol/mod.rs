//! The client's side of the protocol: requests as bytes, replies as tokens.
//!
//! Pure: bytes in, bytes out. The server has a parser of its own, so that an error in one of them
//! is found by the other. Lengths are bytes, lifetimes seconds.
//!
//! ```text
//!                     text                                   meta
//! one get      get K                                  mg K v
//! many gets    get K1 K2 ..                           mg K1 k v q / mg K2 k v q / .. / mn
//! set          set K 0 TTL LEN                        ms K LEN TTTL
//! delete       delete K                               md K
//! hit          VALUE K 0 LEN / data / END             VA LEN [kK] / data [/ MN]
//! miss         END                                    EN [or nothing / MN]
//! stored       STORED                                 HD
//! deleted      DELETED                                HD
//! not there    NOT_FOUND                              NF
//! ```
//!
//! Quiet sets and deletes, many to a request, are `ms K LEN q` and `md K q` closed by `mn`; the
//! frames of the binary dialect stand in `binary`.

mod binary;
mod compose;
mod dialect;
mod reply;
mod token;

pub use compose::{Manner, compose_delete, compose_end, compose_get, compose_set};
pub use dialect::Protocol;
pub use reply::Parser;
pub use token::{LINE_BYTES_MAX, Token};
