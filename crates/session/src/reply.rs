//! Output: bytes that were copied and parts that were lent, in one order.
//!
//! ```text
//! bytes  [ VALUE a 0 9\r\n | \r\nVALUE b 0 20000\r\n | \r\nEND\r\n ]
//! lent                                              ^ at: 20,000 bytes of the engine's memory
//! ```
//!
//! A driver collects the replies of many connections in one `Reply` and remembers the [`Span`] of
//! each. Positions are counted in `bytes`. A lent part stands before the byte at its position and
//! belongs to the same reply as that byte, so a reply must end with bytes that were copied, as
//! every line does. Sending consumes a span from its front, and gives back each lent part as soon
//! as it is sent.
//!
//! Invariants: parts are in the order of their positions. A position stays valid until the output
//! is cleared, or cut before it. `lent_bytes` counts lent bytes from when they are appended;
//! sending does not lower it.

use std::io::IoSlice;
use std::ops::Range;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

/// A run of one reply: what one connection has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    at: usize,
    end: usize,
}

impl Span {
    /// Whether all of it was consumed.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    pub(crate) fn begin(&self) -> Mark {
        Mark(self.at)
    }

    pub(crate) fn finish(&self) -> Mark {
        Mark(self.end)
    }

    /// What of it stands before `mark`, and the rest.
    pub(crate) fn cut_at(&self, mark: Mark) -> (Self, Self) {
        let at = mark.0.clamp(self.at, self.end);
        (Self { end: at, ..*self }, Self { at, ..*self })
    }

    /// How many of its bytes are still to be sent, lent parts excluded.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.at
    }
}

/// Append-only output.
///
/// ```
/// use session::Reply;
///
/// let mut out = Reply::new();
/// let begin = out.mark();
/// out.bytes_mut().extend(b"VALUE a 0 5\r\n");
/// out.lend(Box::new(b"hello"), b"\r\nEND\r\n");
/// assert_eq!(out.len_since(begin), 25);
///
/// // The socket took the first line and one byte of the value.
/// let mut span = out.span_since(begin);
/// out.consume(&mut span, 14);
/// assert!(!span.is_empty());
/// ```
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

    /// Where to append. What is there already must not change.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends memory without copying it, and `after` after it, to which it belongs.
    ///
    /// # Panics
    /// When `after` is empty: the memory would belong to the reply of another client.
    pub fn lend(&mut self, memory: Box<dyn Lent>, after: &[u8]) {
        assert!(!after.is_empty(), "a reply ends with bytes that were copied");
        self.lent_bytes += (*memory).as_ref().len();
        self.parts.push(Part { at: self.bytes.len(), sent: 0, memory: Some(memory) });
        self.bytes.extend_from_slice(after);
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

    /// Whether it is plain bytes, sendable without a list of parts.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.parts.is_empty()
    }

    /// The bytes that were appended since `mark`, lent parts excluded, to be corrected.
    #[inline]
    pub fn since_mut(&mut self, mark: Mark) -> &mut [u8] {
        &mut self.bytes[mark.0..]
    }

    /// The present end.
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.bytes.len())
    }

    /// Forgets everything appended since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.lent_bytes -= self.lent_since(mark);
        self.parts.truncate(self.parts_before(mark.0));
        self.bytes.truncate(mark.0);
    }

    /// Forgets everything that stands after `span`.
    pub fn cut_after(&mut self, span: Span) {
        self.rewind(Mark(span.end));
    }

    /// Bytes appended since `mark`, lent parts included.
    #[inline]
    #[must_use]
    pub fn len_since(&self, mark: Mark) -> usize {
        self.bytes.len() - mark.0 + self.lent_since(mark)
    }

    #[inline]
    fn lent_since(&self, mark: Mark) -> usize {
        if self.is_plain() {
            return 0;
        }
        self.parts[self.parts_before(mark.0)..].iter().map(|part| part.rest().len()).sum()
    }

    /// How many parts stand before the byte at `at`, without those that stand right before it.
    fn parts_before(&self, at: usize) -> usize {
        self.parts.partition_point(|part| part.at < at)
    }

    fn parts_of(&self, span: Span) -> Range<usize> {
        self.parts_before(span.at)..self.parts_before(span.end)
    }

    /// What was appended since `mark`, to be sent.
    #[inline]
    #[must_use]
    pub fn span_since(&self, mark: Mark) -> Span {
        Span { at: mark.0, end: self.bytes.len() }
    }

    /// Moves what was appended since `mark` into a reply of its own.
    #[must_use]
    pub fn split_off(&mut self, mark: Mark) -> Self {
        let mut rest = Self::new();
        self.move_since(mark, &mut rest);
        rest
    }

    /// Moves what was appended since `mark` to the end of `target`.
    pub fn move_since(&mut self, mark: Mark, target: &mut Self) {
        if self.is_plain() {
            target.bytes.extend_from_slice(&self.bytes[mark.0..]);
            return self.bytes.truncate(mark.0);
        }
        let lent_bytes = self.lent_since(mark);
        self.lent_bytes -= lent_bytes;
        target.lent_bytes += lent_bytes;
        let shift = target.bytes.len();
        let parts = self.parts.drain(self.parts.partition_point(|part| part.at < mark.0)..);
        target.parts.extend(parts.map(|part| Part { at: part.at - mark.0 + shift, ..part }));
        target.bytes.extend_from_slice(&self.bytes[mark.0..]);
        self.bytes.truncate(mark.0);
    }

    /// Appends all of `other`, which is empty after that and keeps a buffer.
    pub fn append_from(&mut self, other: &mut Self) {
        if self.is_empty() && self.bytes.capacity() < other.bytes.capacity() {
            std::mem::swap(self, other);
        } else {
            other.move_since(Mark(0), self);
        }
    }

    /// Appends all of `other`.
    pub fn append(&mut self, mut other: Self) {
        self.append_from(&mut other);
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

    /// [`Reply::clear`], and frees a list of parts beyond `keep_bytes` as well.
    pub(crate) fn trim(&mut self, keep_bytes: usize) {
        self.clear(keep_bytes);
        if self.heap_bytes() > keep_bytes {
            *self = Self::new();
        }
    }

    /// The bytes of `span`; `None` when it may hold lent parts, which are sent by their slices.
    #[inline]
    #[must_use]
    pub fn plain(&self, span: Span) -> Option<&[u8]> {
        self.is_plain().then(|| &self.bytes[span.at..span.end])
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
        for part in &self.parts[self.parts_of(span)] {
            push(&self.bytes[at..part.at]);
            push(part.rest());
            at = part.at;
        }
        push(&self.bytes[at..span.end]);
        filled
    }

    /// Consumes the first `count` bytes of `span`: they were sent.
    pub fn consume(&mut self, span: &mut Span, mut count: usize) {
        let parts = self.parts_of(*span);
        for part in &mut self.parts[parts] {
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
        }
        span.at += count;
        debug_assert!(span.at <= span.end, "more was sent than the span held");
    }

    /// Moves `span` into a reply of its own. Its bytes stay here, unused.
    #[must_use]
    pub fn detach(&mut self, span: Span) -> Self {
        let mut detached = Self::new();
        self.move_span(span, &mut detached);
        detached
    }

    /// [`Reply::detach`], to the end of `target`.
    pub(crate) fn move_span(&mut self, span: Span, target: &mut Self) {
        let shift = target.bytes.len();
        target.bytes.extend_from_slice(&self.bytes[span.at..span.end]);
        let range = self.parts_of(span);
        for part in &mut self.parts[range] {
            target.lent_bytes += part.rest().len();
            let at = part.at - span.at + shift;
            target.parts.push(Part { at, sent: part.sent, memory: part.memory.take() });
        }
    }

    /// All of it, to be sent.
    #[must_use]
    pub fn whole(&self) -> Span {
        self.span_since(Mark(0))
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
        reply.lend(Box::new(b"CDE".to_vec()), b"f");
        reply.lend(Box::new(b"G".to_vec()), b"h");
        reply.bytes_mut().extend(b"i");
        reply.lend(Box::new(b"JK".to_vec()), b"l");
        reply
    }

    #[test]
    fn parts_keep_their_places_however_it_is_cut() {
        let whole = b"abCDEfGhiJKl";
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

    /// Replies in one output, each of which begins with what it was lent.
    #[test]
    fn a_lent_part_belongs_to_the_reply_that_it_was_lent_for() {
        let mut reply = Reply::new();
        let mut spans = Vec::new();
        for (lent, after) in [(b"A", b"a"), (b"B", b"b"), (b"C", b"c")] {
            let mark = reply.mark();
            reply.lend(Box::new(lent.to_vec()), after);
            spans.push(reply.span_since(mark));
        }
        assert!(
            spans.iter().zip([b"Aa", b"Bb", b"Cc"]).all(|(span, own)| flat(&reply, *span) == own)
        );
        let middle = reply.detach(spans[1]);
        assert_eq!(flat(&middle, middle.whole()), b"Bb");
        let mut rest = spans[2];
        reply.consume(&mut rest, 1);
        assert_eq!((flat(&reply, spans[0]), flat(&reply, rest)), (b"Aa".to_vec(), b"c".to_vec()));
    }

    #[test]
    #[should_panic(expected = "ends with bytes that were copied")]
    fn nothing_is_lent_without_an_end() {
        Reply::new().lend(Box::new(b"A".to_vec()), b"");
    }

    #[test]
    fn splitting_and_appending_are_inverse() {
        let mut reply = mixed();
        let mark = reply.mark();
        reply.append(mixed());
        assert_eq!((reply.len(), reply.len_since(mark)), (24, 12));
        assert_eq!(flat(&reply, reply.span_since(mark)), b"abCDEfGhiJKl");
        let tail = reply.split_off(mark);
        assert_eq!((reply.len(), tail.len()), (12, 12));
        assert_eq!(flat(&tail, tail.whole()), b"abCDEfGhiJKl");
    }

    #[test]
    fn rewinding_forgets_bytes_and_parts() {
        let mut reply = mixed();
        let mark = reply.mark();
        reply.append(mixed());
        reply.rewind(mark);
        assert_eq!(flat(&reply, reply.whole()), b"abCDEfGhiJKl");
        assert_eq!(reply.len(), 12);
    }

    #[test]
    fn sending_gives_lent_memory_back_at_once() {
        let memory = std::sync::Arc::<[u8]>::from(&b"lent"[..]);
        let mut reply = Reply::new();
        reply.lend(Box::new(memory.clone()), b".");
        let mut span = reply.whole();
        reply.consume(&mut span, 3);
        assert_eq!(std::sync::Arc::strong_count(&memory), 2);
        reply.consume(&mut span, 1);
        assert_eq!(std::sync::Arc::strong_count(&memory), 1);
        assert!(!span.is_empty());
        reply.consume(&mut span, 1);
        assert!(span.is_empty());
    }
}
