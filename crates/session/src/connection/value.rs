//! What is known of a long value while the handler takes it piece by piece.

use memcache::{Request, Store};

/// The end of a value.
pub(super) const END: [u8; 2] = *b"\r\n";

/// A value of which the handler takes the pieces.
pub(super) struct Value {
    /// Length of the line of its request.
    pub(super) line_bytes: usize,
    /// Bytes that are still to be taken, the end of the value excluded.
    pub(super) missing: u64,
    /// What has arrived of its end.
    end: [u8; END.len()],
    end_bytes: usize,
    /// Whether the client wants no reply.
    pub(super) quiet: bool,
}

impl Value {
    /// A value of `bytes` bytes for `request`, whose line has `line_bytes`.
    pub(super) fn new(request: &Request<'_>, line_bytes: usize, bytes: u64) -> Self {
        let quiet = matches!(request, Request::Store(Store { noreply: true, .. }));
        Self { line_bytes, missing: bytes, end: [0; _], end_bytes: 0, quiet }
    }

    /// Takes what `input` has of the end. Returns how much that is.
    pub(super) fn take_end(&mut self, input: &[u8]) -> usize {
        let count = (END.len() - self.end_bytes).min(input.len());
        self.end[self.end_bytes..][..count].copy_from_slice(&input[..count]);
        self.end_bytes += count;
        count
    }

    /// Whether all of it has arrived.
    pub(super) fn has_ended(&self) -> bool {
        self.end_bytes == END.len()
    }

    /// Whether it ends as a value must.
    pub(super) fn is_well_formed(&self) -> bool {
        self.end == END
    }

    /// Bytes that have still to arrive.
    pub(super) fn left(&self) -> u64 {
        self.missing + (END.len() - self.end_bytes) as u64
    }
}
