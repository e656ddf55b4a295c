//! The dialects of memcached's protocol, by the names that settings and reports use.

use std::str::FromStr;

/// A dialect.
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
