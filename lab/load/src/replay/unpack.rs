//! Zstandard, the form of libCacheSim's traces: frames unpacked while they are read.
//!
//! ```text
//! | frame: header, blocks, checksum | frame | to be skipped: length, bytes | frame | ..
//! ```
//!
//! Several frames are read as one. A checksum is compared where a frame has one. Bound: the
//! window of a frame, at most [`WINDOW_BYTES_MAX`], which the decoder may hold twice while it
//! grows, and one block of 128 KiB.

use std::io::{self, BufRead, ErrorKind, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The largest window: that of `zstd --long`, which `zstd` unpacks by default.
pub const WINDOW_BYTES_MAX: u64 = 128 << 20;

/// How a frame begins.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How a frame to be skipped begins, its lowest four bits apart: little endian, 0x184D2A5_.
const MAGIC_SKIPPED: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

/// The contents of the frames of `packed`.
pub struct Unpack<R> {
    packed: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Unpack<R> {
    /// Whether bytes that begin with `head` are frames.
    #[must_use]
    pub fn knows(head: &[u8]) -> bool {
        let Some(&[first, ref rest @ ..]) = head.first_chunk::<4>() else { return false };
        let skipped = first & 0xf0 == MAGIC_SKIPPED[0] && rest[..] == MAGIC_SKIPPED[1..];
        head.starts_with(&MAGIC) || skipped
    }

    /// Unpacks the frames of `packed`.
    pub fn new(packed: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Self { packed, decoder }
    }

    /// Begins the next frame that is not to be skipped; `false` at the end.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.packed.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => self.skip(u64::from(length))?,
                Err(FrameDecoderError::WindowSizeTooBig { requested, max }) => {
                    return Err(wrong(format!(
                        "a window of {requested} bytes, above the limit of {max}; unpack it with \
                         zstd -d --long=31"
                    )));
                }
                Err(error) => return Err(wrong(error)),
            }
        }
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.packed).take(length), &mut io::sink())?;
        if skipped < length {
            return Err(wrong("the last frame is cut off"));
        }
        Ok(())
    }

    /// Unpacks the next block of a frame that is not over.
    fn block(&mut self) -> io::Result<()> {
        let one = BlockDecodingStrategy::UptoBlocks(1);
        self.decoder.decode_blocks(&mut self.packed, one).map(|_| ()).map_err(wrong)
    }

    /// Compares the checksum of a frame that was read whole with the stated one.
    fn check(&self) -> io::Result<()> {
        let stated = self.decoder.get_checksum_from_data();
        if stated.is_some() && stated != self.decoder.get_calculated_checksum() {
            return Err(wrong("the checksum of a frame is not that of its content"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Unpack<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            let bytes = self.decoder.read(out)?;
            if bytes > 0 {
                return Ok(bytes);
            }
            if !self.decoder.is_finished() {
                self.block()?;
                continue;
            }
            self.check()?;
            if !self.begin()? {
                return Ok(0);
            }
        }
    }
}

fn wrong(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("zstd: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a block is packed.
    const RAW: u32 = 0;
    const RUN: u32 = 1;

    /// A frame with this descriptor of its window, without a checksum.
    fn frame(window: u8, blocks: &[(u32, u32, &[u8])]) -> Vec<u8> {
        let mut frame = [&MAGIC[..], &[0, window]].concat();
        for (nth, (kind, length, content)) in blocks.iter().enumerate() {
            let last = u32::from(nth + 1 == blocks.len());
            frame.extend_from_slice(&(last | kind << 1 | length << 3).to_le_bytes()[..3]);
            frame.extend_from_slice(content);
        }
        frame
    }

    /// A frame to be skipped.
    fn skipped(content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_le_bytes();
        [&MAGIC_SKIPPED[..], &length[..], content].concat()
    }

    fn unpacked(packed: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let read = Unpack::new(packed).read_to_end(&mut out);
        read.map(|_| out).map_err(|error| error.to_string())
    }

    #[test]
    fn frames_are_read_as_one() {
        let first = frame(0, &[(RAW, 3, b"abc"), (RUN, 5, b"x")]);
        let second = frame(0x58, &[(RAW, 1, b"!")]);
        for (packed, content) in [
            (vec![], &b""[..]),
            (first.clone(), b"abcxxxxx"),
            ([&skipped(b"note")[..], &first, &skipped(b""), &second].concat(), b"abcxxxxx!"),
            ([&frame(0, &[(RAW, 0, b"")])[..], &second].concat(), b"!"),
        ] {
            assert_eq!(unpacked(&packed), Ok(content.to_vec()));
            assert!(packed.is_empty() || Unpack::<&[u8]>::knows(&packed));
        }
        for head in [&b""[..], b"\x28\xb5\x2f", b"1,2,3,4,5", b"\x1f\x8b\x08\x00"] {
            assert!(!Unpack::<&[u8]>::knows(head));
        }
    }

    #[test]
    fn what_is_no_frame_is_named() {
        let whole = frame(0, &[(RAW, 3, b"abc")]);
        // A content of one byte, whose checksum is not that of its content.
        let checked = [&MAGIC[..], &[4, 0, 0b1001, 0, 0, b'a', 1, 2, 3, 4]].concat();
        for (packed, word) in [
            (whole[..whole.len() - 1].to_vec(), "zstd: "),
            (whole[..5].to_vec(), "zstd: "),
            ([&whole[..], b"more"].concat(), "zstd: "),
            (skipped(b"note")[..9].to_vec(), "cut off"),
            (checked, "checksum of a frame"),
            // 2 to the 28th: exponent 18 above the least of 10.
            (frame(18 << 3, &[(RAW, 1, b"a")]), "zstd -d --long=31"),
        ] {
            let error = unpacked(&packed).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
