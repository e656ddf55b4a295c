//! The messages of a handshake as bytes.
//!
//! ```text
//! Hello    magic 8 | min 2 | max 2 | features 8 | ring 8 | cell 4 | incarnation 8 | nonce 32 |
//!          wanted cell 4 | purpose 1
//! Welcome  magic 8 | min 2 | max 2 | features 8 | ring 8 | cell 4 | incarnation 8 | nonce 32 |
//!          version 2 | proof 32
//! Proof    proof 32
//! Ready    nothing
//! Refusal  reason 1 | text, at most 200
//! ```
//!
//! Before the fields stand the length (4) and the kind (1), as in frames. The fields up to `max`
//! have these places in all versions: a cell that shares no version with the other one can still
//! say so.

use super::limits::{HANDSHAKE_BYTES_MAX, TEXT_BYTES_MAX};
use super::refusal::{HandshakeError, Refusal};
use crate::identity::{Identity, Local, Nonce, Purpose, Target, Versions};
use crate::secret::PROOF_BYTES;
use crate::wire::{self, Fields, LENGTH_BYTES, Short};

const _: () = assert!(LENGTH_BYTES + 2 + TEXT_BYTES_MAX <= HANDSHAKE_BYTES_MAX);

/// The first field of `Hello` and `Welcome`.
const MAGIC: [u8; 8] = *b"volvox\r\n";

/// A message that was received.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    fields: &'a [u8],
    /// All its bytes, as a transcript has them.
    pub(super) whole: &'a [u8],
}

/// The kinds of messages. Their numbers are not those of frames.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Kind {
    Hello = 0xf0,
    Welcome = 0xf1,
    Proof = 0xf2,
    Ready = 0xf3,
    Refusal = 0xf4,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Hello => "Hello",
            Self::Welcome => "Welcome",
            Self::Proof => "Proof",
            Self::Ready => "Ready",
            Self::Refusal => "Refusal",
        }
    }
}

impl<'a> Message<'a> {
    /// The message that `input` begins with, which must be of the kind that is due. `None` if it
    /// has not arrived as a whole.
    pub(super) fn take(input: &'a [u8], due: Kind) -> Result<Option<Self>, HandshakeError> {
        let Some(bytes) = wire::message_bytes(input) else { return Ok(None) };
        if bytes > HANDSHAKE_BYTES_MAX {
            return Err(HandshakeError::TooLong { bytes });
        }
        let Some(whole) = input.get(..bytes) else { return Ok(None) };
        let Some((kind, fields)) = whole[LENGTH_BYTES..].split_first() else {
            return Err(HandshakeError::Length { message: due.name(), bytes });
        };
        let message = Self { fields, whole };
        match *kind {
            kind if kind == due as u8 => Ok(Some(message)),
            kind if kind == Kind::Refusal as u8 => Err(message.refusal()),
            kind => Err(HandshakeError::Unexpected { kind, due: due.name() }),
        }
    }

    /// What the other side says in a refusal.
    fn refusal(&self) -> HandshakeError {
        let (number, text) = self.fields.split_first().unwrap_or((&0, &[]));
        let text = String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES_MAX)]);
        let text = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        HandshakeError::Refused { reason: Refusal::of(*number), text }
    }

    /// The fields of a `Hello`: the offer, the version that both speak, and whom it wants.
    pub(super) fn hello(&self, own: Versions) -> Result<(Offer, u16, Target), HandshakeError> {
        self.fields(Kind::Hello, |from| {
            let (offer, version) = Offer::take(from, Kind::Hello, own)?;
            let (cell, number) = (from.u32()?, from.u8()?);
            let purpose = Purpose::of(number).ok_or(Fault::field(
                Kind::Hello,
                "purpose",
                number,
                "1 to 3",
            ))?;
            Ok((offer, version, Target { cell, purpose }))
        })
    }

    /// The fields of a `Welcome`: the offer, the version that both speak, and the proof.
    pub(super) fn welcome(
        &self,
        own: Versions,
    ) -> Result<(Offer, u16, [u8; PROOF_BYTES]), HandshakeError> {
        self.fields(Kind::Welcome, |from| {
            let (offer, version) = Offer::take(from, Kind::Welcome, own)?;
            let (chosen, allowed) = (from.u16()?, "the highest that both sides speak");
            if chosen != version {
                return Err(Fault::field(Kind::Welcome, "version", chosen, allowed));
            }
            Ok((offer, version, from.array()?))
        })
    }

    /// The bytes of a `Welcome` that its proof covers: all before it.
    pub(super) fn before_proof(&self) -> &'a [u8] {
        &self.whole[..self.whole.len().saturating_sub(PROOF_BYTES)]
    }

    /// The field of a `Proof`.
    pub(super) fn proof(&self) -> Result<[u8; PROOF_BYTES], HandshakeError> {
        self.fields(Kind::Proof, |from| Ok(from.array()?))
    }

    /// Checks that a `Ready` has no fields.
    pub(super) fn ready(&self) -> Result<(), HandshakeError> {
        self.fields(Kind::Ready, |_| Ok(()))
    }

    /// What `take` takes, which must be all fields.
    fn fields<T>(
        &self,
        kind: Kind,
        take: impl FnOnce(&mut Fields<'_>) -> Result<T, Fault>,
    ) -> Result<T, HandshakeError> {
        let mut fields = Fields::new(self.fields);
        let length = HandshakeError::Length { message: kind.name(), bytes: self.whole.len() };
        match take(&mut fields) {
            Ok(taken) if fields.left() == 0 => Ok(taken),
            Ok(_) | Err(Fault::Short) => Err(length),
            Err(Fault::Other(error)) => Err(error),
        }
    }
}

/// What is wrong with fields.
enum Fault {
    Short,
    Other(HandshakeError),
}

impl Fault {
    fn field(
        kind: Kind,
        field: &'static str,
        value: impl Into<u64>,
        allowed: &'static str,
    ) -> Self {
        let (message, value) = (kind.name(), value.into());
        Self::Other(HandshakeError::Field { message, field, value, allowed })
    }
}

impl From<Short> for Fault {
    fn from(_: Short) -> Self {
        Self::Short
    }
}

/// What both sides say of themselves.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub(super) local: Local,
    pub(super) nonce: Nonce,
}

impl Offer {
    /// The offer that `from` begins with, and the version that both speak. Where there is none, the
    /// rest may be anything.
    fn take(from: &mut Fields<'_>, kind: Kind, own: Versions) -> Result<(Self, u16), Fault> {
        if from.array()? != MAGIC {
            return Err(Fault::Other(HandshakeError::NoCell));
        }
        let versions = Versions { min: from.u16()?, max: from.u16()? };
        let unknown = HandshakeError::UnknownVersion { own, peer: versions };
        let version = own.common(versions).ok_or(Fault::Other(unknown))?;
        let features = from.u64()?;
        let identity = Identity { ring: from.u64()?, cell: from.u32()?, incarnation: from.u64()? };
        if identity.ring != 0 && identity.cell == 0 {
            return Err(Fault::field(kind, "cell", 0_u8, "1 and more in a ring"));
        }
        let nonce = from.array()?;
        Ok((Self { local: Local { identity, versions, features }, nonce }, version))
    }

    /// Begins a message of this kind with the offer.
    fn begin<'o>(&self, kind: Kind, out: &'o mut Vec<u8>) -> wire::Message<'o> {
        let Local { identity, versions, features } = self.local;
        let mut to = wire::Message::begin(kind as u8, out);
        to.bytes(&MAGIC).u16(versions.min).u16(versions.max).u64(features);
        to.u64(identity.ring).u32(identity.cell).u64(identity.incarnation).bytes(&self.nonce);
        to
    }

    /// Appends a `Hello`.
    pub(super) fn write_hello(&self, target: Target, out: &mut Vec<u8>) {
        let mut to = self.begin(Kind::Hello, out);
        to.u32(target.cell).u8(target.purpose.number());
        to.end(0);
    }

    /// Appends a `Welcome` but for its proof, which the caller appends.
    pub(super) fn write_welcome(&self, version: u16, out: &mut Vec<u8>) {
        let mut to = self.begin(Kind::Welcome, out);
        to.u16(version);
        to.end(PROOF_BYTES);
    }
}

/// Appends a `Proof`.
pub(super) fn write_proof(proof: &[u8; PROOF_BYTES], out: &mut Vec<u8>) {
    let mut to = wire::Message::begin(Kind::Proof as u8, out);
    to.bytes(proof);
    to.end(0);
}

/// Appends a `Ready`.
pub(super) fn write_ready(out: &mut Vec<u8>) {
    wire::Message::begin(Kind::Ready as u8, out).end(0);
}

/// Appends the refusal for the other side to `out` if `taken` is an error, unless that one knows.
pub(super) fn with_refusal<T>(
    taken: Result<T, HandshakeError>,
    out: &mut Vec<u8>,
) -> Result<T, HandshakeError> {
    taken.inspect_err(|error| {
        let Some(reason) = error.reason() else { return };
        let text = error.to_string();
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        let mut to = wire::Message::begin(Kind::Refusal as u8, out);
        to.u8(reason.number()).bytes(&text.as_bytes()[..end]);
        to.end(0);
    })
}
