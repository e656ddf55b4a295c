//! The secret of the cluster, and what proves that a cell knows it.
//!
//! A proof is HMAC-SHA-256 of a label and of all messages before it. The label names the side that
//! proves, so that no side can send the other's proof back. Proofs are compared in constant time.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Bytes of a proof.
pub(crate) const PROOF_BYTES: usize = 32;

/// The shortest secret: as many bits as a guess must not reach.
pub const SECRET_BYTES_MIN: usize = 16;

/// What all cells of a cluster know and nobody else does. It is never shown.
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

impl Secret {
    /// `bytes` as a secret. `None` if they are fewer than [`SECRET_BYTES_MIN`].
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mac = Hmac::new_from_slice(bytes).expect("invariant: HMAC takes keys of any length");
        (bytes.len() >= SECRET_BYTES_MIN).then_some(Self(mac))
    }

    /// The proof of `side` after the messages in `transcript`.
    pub(crate) fn prove(&self, side: Side, transcript: &[u8]) -> [u8; PROOF_BYTES] {
        self.mac(side, transcript).finalize().into_bytes().into()
    }

    /// Whether `proof` is the proof of `side` after the messages in `transcript`.
    pub(crate) fn verifies(&self, side: Side, transcript: &[u8], proof: &[u8]) -> bool {
        self.mac(side, transcript).verify_slice(proof).is_ok()
    }

    fn mac(&self, side: Side, transcript: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(side.label()).chain_update(transcript)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Which side proves that it knows the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Accept,
    Connect,
}

impl Side {
    /// No label is the beginning of another one.
    fn label(self) -> &'static [u8] {
        match self {
            Self::Accept => b"accept\0",
            Self::Connect => b"connect\0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_secret_side_and_transcript_alone() {
        let secret = Secret::new(b"0123456789abcdef").expect("long enough");
        let other = Secret::new(b"0123456789abcdeg").expect("long enough");
        let proof = secret.prove(Side::Accept, b"messages");
        assert!(secret.verifies(Side::Accept, b"messages", &proof));
        assert!(!secret.verifies(Side::Connect, b"messages", &proof));
        assert!(!secret.verifies(Side::Accept, b"message", &proof));
        assert!(!secret.verifies(Side::Accept, b"messages", &proof[..31]));
        assert!(!other.verifies(Side::Accept, b"messages", &proof));
        assert!(Secret::new(b"0123456789abcde").is_none());
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
