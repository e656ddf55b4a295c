//! Takes frames off the front of received bytes.
//!
//! Nothing is copied, and nothing is kept between calls. What can be known to be wrong is refused
//! as soon as its bytes have arrived: a length before the frame, a kind before its fields.

use super::error::FrameError;
use super::frame::Frame;
use super::kind::FrameKind;
use super::limits::FRAME_BYTES_MAX;
use crate::wire::{self, LENGTH_BYTES};

/// Decodes frames up to a length.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    bytes_max: usize,
}

impl Decoder {
    /// A decoder of frames of up to `bytes_max` bytes, their length included: the longest value
    /// and what stands around it. More than [`FRAME_BYTES_MAX`] is never taken.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max: bytes_max.min(FRAME_BYTES_MAX) }
    }

    /// The longest frame that it takes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The length of the frame that `input` begins with, or `None` as long as it is not known. So
    /// a caller knows how much to wait for.
    ///
    /// # Errors
    /// When the frame is longer than the decoder takes, or has no known kind.
    pub fn frame_bytes(&self, input: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(bytes) = wire::message_bytes(input) else { return Ok(None) };
        let bytes_max = self.bytes_max;
        match bytes {
            LENGTH_BYTES => Err(FrameError::Empty),
            _ if bytes > bytes_max => Err(FrameError::TooLong { bytes, bytes_max }),
            _ => match input.get(LENGTH_BYTES) {
                Some(number) if FrameKind::of(*number).is_none() => {
                    Err(FrameError::UnknownKind(*number))
                }
                _ => Ok(Some(bytes)),
            },
        }
    }

    /// How many bytes are missing of the frame that `input` begins with: 0 if it is whole, or will
    /// be refused. While its length is not known, the bytes of the length.
    #[must_use]
    pub fn missing_bytes(&self, input: &[u8]) -> usize {
        match self.frame_bytes(input) {
            Ok(bytes) => bytes.unwrap_or(LENGTH_BYTES).saturating_sub(input.len()),
            Err(_) => 0,
        }
    }

    /// The frame that `input` begins with, and its length. `None` if it has not arrived as a whole.
    ///
    /// # Errors
    /// When the bytes are no frame, or a longer one than the decoder takes.
    pub fn decode<'a>(&self, input: &'a [u8]) -> Result<Option<(Frame<'a>, usize)>, FrameError> {
        let Some(bytes) = self.frame_bytes(input)? else { return Ok(None) };
        let Some(frame) = input.get(LENGTH_BYTES..bytes) else { return Ok(None) };
        Frame::of(frame).map(|frame| Some((frame, bytes)))
    }
}
