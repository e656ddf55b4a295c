//! Output: bytes that were copied and parts that were lent, in one order.
//!
//! ```text
//! bytes  [ VALUE a 0 9\r\n | \r\nVALUE b 0 20000\r\n | \r\nEND\r\n ]
//! lent                                              ^ at: 20,000 bytes of the engine's memory
//! ```
//!
//! A driver collects the replies of many connections in one `Reply` and remembers the [`Span`] of
//! each. Positions are counted in `bytes`; a lent part stands before the byte at its position.
//! Sending consumes a span from its front; a lent part is given back as soon as it is sent.

use std::io::IoSlice;

/// Memory lent to the output until it is sent. It must not change while it is lent.
pub trait Lent: AsRef<[u8]> + Send {}

impl<T: AsRef<[u8]> + Send> Lent for T {}

struct Part {
    at: usize,
    sent: usize,
    /// `None` once sent or moved to another reply.
    memory: Option<Box<dyn Lent>>,
}

impl Part {
    fn rest(&self) -> &[u8] {
        self.memory.as_deref().map_or(&[], |memory| &memory.as_ref()[self.sent..])
    }
}

/// A place in a reply to return to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    bytes: usize,
    parts: usize,
}

/// A run of one reply: what one connection has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    at: usize,
    end: usize,
    part: usize,
    part_end: usize,
}

impl Span {
    /// Whether all of it was consumed.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.end && self.part == self.part_end
    }

    /// Whether it is plain bytes, sendable without a list of parts.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.part == self.part_end
    }
}

/// Append-only output.
#[derive(Default)]
pub struct Reply {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    lent_bytes: usize,
}

impl Reply {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Where to append. What is there already must stay.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends memory without copying it.
    pub fn lend(&mut self, memory: Box<dyn Lent>) {
        self.lent_bytes += (*memory).as_ref().len();
        self.parts.push(Part { at: self.bytes.len(), sent: 0, memory: Some(memory) });
    }

    /// Everything appended so far, lent parts included, in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.lent_bytes
    }

    /// Whether nothing was appended.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.parts.is_empty()
    }

    /// Memory that it owns, which excludes what is lent to it.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.parts.capacity() * size_of::<Part>()
    }

    /// The present end.
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), parts: self.parts.len() }
    }

    /// Forgets everything appended since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.lent_bytes -= self.lent_since(mark);
        self.bytes.truncate(mark.bytes);
        self.parts.truncate(mark.parts);
    }

    /// Bytes appended since `mark`, lent parts included.
    #[inline]
    #[must_use]
    pub fn len_since(&self, mark: Mark) -> usize {
        self.bytes.len() - mark.bytes + self.lent_since(mark)
    }

    #[inline]
    fn lent_since(&self, mark: Mark) -> usize {
        self.parts[mark.parts..].iter().map(|part| part.rest().len()).sum()
    }

    /// What was appended since `mark`, to be sent.
    #[inline]
    #[must_use]
    pub fn span_since(&self, mark: Mark) -> Span {
        Span { at: mark.bytes, end: self.bytes.len(), part: mark.parts, part_end: self.parts.len() }
    }

    /// Moves what was appended since `mark` into a reply of its own.
    #[must_use]
    pub fn split_off(&mut self, mark: Mark) -> Self {
        let lent_bytes = self.lent_since(mark);
        self.lent_bytes -= lent_bytes;
        let mut parts = self.parts.split_off(mark.parts);
        for part in &mut parts {
            part.at -= mark.bytes;
        }
        let bytes = self.bytes[mark.bytes..].to_vec();
        self.bytes.truncate(mark.bytes);
        Self { bytes, parts, lent_bytes }
    }

    /// Appends all of `other`.
    pub fn append(&mut self, other: Self) {
        let shift = self.bytes.len();
        self.lent_bytes += other.lent_bytes;
        if self.bytes.is_empty() && self.bytes.capacity() < other.bytes.capacity() {
            self.bytes = other.bytes;
        } else {
            self.bytes.extend_from_slice(&other.bytes);
        }
        self.parts.extend(other.parts.into_iter().map(|part| Part { at: part.at + shift, ..part }));
    }

    /// Empties it, and frees its memory when that is more than `keep_bytes`.
    #[inline]
    pub fn clear(&mut self, keep_bytes: usize) {
        self.bytes.clear();
        self.parts.clear();
        self.lent_bytes = 0;
        if self.bytes.capacity() > keep_bytes {
            self.bytes = Vec::new();
        }
    }

    /// The bytes of a plain `span`.
    ///
    /// # Panics
    /// When the span holds lent parts.
    #[inline]
    #[must_use]
    pub fn plain(&self, span: Span) -> &[u8] {
        assert!(span.is_plain(), "lent parts are sent by their slices");
        &self.bytes[span.at..span.end]
    }

    /// The slices of `span` in order, for one gathering send; at most as many as `slices` holds.
    /// Returns how many it filled.
    pub fn slices<'a>(&'a self, span: Span, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        let mut push = |slice: &'a [u8]| {
            if !slice.is_empty() && filled < slices.len() {
                slices[filled] = IoSlice::new(slice);
                filled += 1;
            }
        };
        let mut at = span.at;
        for part in &self.parts[span.part..span.part_end] {
            push(&self.bytes[at..part.at]);
            push(part.rest());
            at = part.at;
        }
        push(&self.bytes[at..span.end]);
        filled
    }

    /// Consumes the first `count` bytes of `span`: they were sent.
    pub fn consume(&mut self, span: &mut Span, mut count: usize) {
        while let Some(part) = self.parts[..span.part_end].get_mut(span.part) {
            let before = count.min(part.at - span.at);
            span.at += before;
            count -= before;
            if span.at < part.at {
                return;
            }
            let rest = part.rest().len();
            if count < rest {
                part.sent += count;
                return;
            }
            count -= rest;
            part.memory = None;
            span.part += 1;
        }
        span.at += count;
        debug_assert!(span.at <= span.end, "more was sent than the span held");
    }

    /// Moves `span` into a reply of its own, leaving its bytes behind as garbage.
    #[must_use]
    pub fn detach(&mut self, span: Span) -> Self {
        let bytes = self.bytes[span.at..span.end].to_vec();
        let mut lent_bytes = 0;
        let mut parts = Vec::with_capacity(span.part_end - span.part);
        for part in &mut self.parts[span.part..span.part_end] {
            lent_bytes += part.rest().len();
            parts.push(Part { at: part.at - span.at, sent: part.sent, memory: part.memory.take() });
        }
        Self { bytes, parts, lent_bytes }
    }

    /// All of it, to be sent.
    #[must_use]
    pub fn whole(&self) -> Span {
        Span { at: 0, end: self.bytes.len(), part: 0, part_end: self.parts.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(reply: &Reply, span: Span) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 16];
        let count = reply.slices(span, &mut slices);
        slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    fn mixed() -> Reply {
        let mut reply = Reply::new();
        reply.bytes_mut().extend(b"ab");
        reply.lend(Box::new(b"CDE".to_vec()));
        reply.lend(Box::new(b"F".to_vec()));
        reply.bytes_mut().extend(b"gh");
        reply.lend(Box::new(b"IJ".to_vec()));
        reply
    }

    #[test]
    fn parts_keep_their_places_however_it_is_cut() {
        let whole = b"abCDEFghIJ";
        for sent in 0..=whole.len() {
            let mut reply = mixed();
            let mut span = reply.whole();
            assert_eq!(flat(&reply, span), whole);
            reply.consume(&mut span, sent);
            assert_eq!(flat(&reply, span), whole[sent..], "after {sent}");
            assert_eq!(span.is_empty(), sent == whole.len());
            for more in 0..=whole.len() - sent {
                let mut reply = mixed();
                let mut span = reply.whole();
                reply.consume(&mut span, sent);
                let mut rest = reply.detach(span);
                let mut span = rest.whole();
                rest.consume(&mut span, more);
                assert_eq!(flat(&rest, span), whole[sent + more..], "after {sent} and {more}");
            }
        }
    }

    #[test]
    fn splitting_and_appending_are_inverse() {
        let mut reply = mixed();
        let mark = reply.mark();
        reply.append(mixed());
        assert_eq!((reply.len(), reply.len_since(mark)), (20, 10));
        assert_eq!(flat(&reply, reply.span_since(mark)), b"abCDEFghIJ");
        let tail = reply.split_off(mark);
        assert_eq!((reply.len(), tail.len()), (10, 10));
        assert_eq!(flat(&tail, tail.whole()), b"abCDEFghIJ");
    }

    #[test]
    fn rewinding_forgets_bytes_and_parts() {
        let mut reply = mixed();
        let mark = reply.mark();
        reply.append(mixed());
        reply.rewind(mark);
        assert_eq!(flat(&reply, reply.whole()), b"abCDEFghIJ");
        assert_eq!(reply.len(), 10);
    }

    #[test]
    fn sending_gives_lent_memory_back_at_once() {
        let memory = std::sync::Arc::<[u8]>::from(&b"lent"[..]);
        let mut reply = Reply::new();
        reply.lend(Box::new(memory.clone()));
        let mut span = reply.whole();
        reply.consume(&mut span, 3);
        assert_eq!(std::sync::Arc::strong_count(&memory), 2);
        reply.consume(&mut span, 1);
        assert_eq!(std::sync::Arc::strong_count(&memory), 1);
        assert!(span.is_empty());
    }
}
