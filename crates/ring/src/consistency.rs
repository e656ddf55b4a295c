//! What a reply of the ring means: which copies a change waits for, and what a read rests on.
//!
//! The ring has a default, which its founder chooses. A meta request may choose another by its flag
//! `P`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What an answer to a change waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durability {
    /// Nothing: the copies follow. A change that was answered is lost if the primary ends first.
    D0,
    /// Every copy in sync. The last copy goes on alone.
    #[default]
    D1,
    /// The same, and at least one copy besides the primary: without one, changes are refused.
    D2,
}

/// What a read rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reads {
    /// The leases of all copies in sync, and so the speed of their clocks.
    #[default]
    Lease,
    /// Every copy in sync is asked after the read: no clock matters.
    Fence,
}

/// What a reply means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consistency {
    /// For changes.
    pub durability: Durability,
    /// For reads.
    pub reads: Reads,
}

/// A flag `P` that is meant for the ring, and names nothing that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownToken;

impl fmt::Display for UnknownToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flag P is d0, d1, d2 or fence in a ring")
    }
}

impl std::error::Error for UnknownToken {}

impl Consistency {
    /// The same with what `token`, the argument of a flag `P`, chooses. Tokens that are meant for
    /// somebody else, such as a proxy, choose nothing.
    ///
    /// # Errors
    /// If it is `d` and a number, and no level.
    pub fn with_token(self, token: &[u8]) -> Result<Self, UnknownToken> {
        let durability = |durability| Ok(Self { durability, ..self });
        match token {
            b"d0" => durability(Durability::D0),
            b"d1" => durability(Durability::D1),
            b"d2" => durability(Durability::D2),
            b"fence" => Ok(Self { reads: Reads::Fence, ..self }),
            [b'd', b'0'..=b'9', ..] => Err(UnknownToken),
            _ => Ok(self),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::D0 => "d0",
            Self::D1 => "d1",
            Self::D2 => "d2",
        })
    }
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lease => "lease",
            Self::Fence => "fence",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_chooses_a_level_or_is_meant_for_somebody_else() {
        let of = |durability, reads| Ok(Consistency { durability, reads });
        let lease = Consistency { durability: Durability::D2, reads: Reads::Lease };
        assert_eq!(lease.with_token(b"fence"), of(Durability::D2, Reads::Fence));
        let cases: [(&[u8], Result<Consistency, UnknownToken>); 8] = [
            (b"d0", of(Durability::D0, Reads::Fence)),
            (b"d1", of(Durability::D1, Reads::Fence)),
            (b"d2", of(Durability::D2, Reads::Fence)),
            (b"fence", of(Durability::D2, Reads::Fence)),
            (b"d3", Err(UnknownToken)),
            (b"d22", Err(UnknownToken)),
            (b"", of(Durability::D2, Reads::Fence)),
            (b"pool7", of(Durability::D2, Reads::Fence)),
        ];
        let default = Consistency { durability: Durability::D2, reads: Reads::Fence };
        for (token, chosen) in cases {
            assert_eq!(default.with_token(token), chosen, "{token:?}");
        }
    }
}
