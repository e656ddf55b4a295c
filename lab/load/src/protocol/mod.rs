//! The client's side of the protocol: requests as bytes, replies as tokens.
//!
//! Pure: bytes in, bytes out. Written for the generator alone, so that an error of the server's
//! own parser cannot hide in a shared one.
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
mod reply;

pub use compose::{Manner, compose_delete, compose_end, compose_get, compose_set};
pub use reply::{LINE_BYTES_MAX, Parser, Token};

use std::str::FromStr;

/// The dialect spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Classic commands.
    Text,
    /// Meta commands.
    Meta,
    /// Binary frames.
    Binary,
}

impl Protocol {
    /// As written on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Meta => "meta",
            Self::Binary => "binary",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "meta" => Ok(Self::Meta),
            "binary" => Ok(Self::Binary),
            _ => Err(format!("{text:?} is none of text, meta, binary")),
        }
    }
}
