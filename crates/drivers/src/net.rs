//! Calls on sockets, and nothing else.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use session::{Reply, Span};

use crate::counters::Counters;

/// Bytes that one `recv` takes at most.
pub(crate) const RECV_BYTES: usize = 64 << 10;

/// Slices that one `sendmsg` gathers at most.
const SLICES_MAX: usize = 64;

/// How far a span was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All of it.
    All,
    /// Part of it, or nothing: the client must take some first.
    Part,
    /// The connection is broken.
    Broken,
}

/// Sends `span` of `reply` as far as the socket takes it: one call, unless there are more slices
/// than one call gathers. The span says what is left only when not all was sent.
#[inline(always)]
pub(crate) fn send_span(
    fd: BorrowedFd<'_>,
    reply: &mut Reply,
    span: &mut Span,
    counters: &Counters,
) -> Sent {
    if !span.is_plain() {
        return send_parts(fd, reply, span, counters);
    }
    let bytes = reply.plain(*span);
    // Before the call, so that whoever has its bytes finds it counted.
    counters.send_calls.add(1);
    let result = send(fd, bytes, SendFlags::NOSIGNAL);
    match result {
        Ok(sent) if sent == bytes.len() => {
            counters.bytes_out.add(sent as u64);
            Sent::All
        }
        Err(Errno::INTR) => send_parts(fd, reply, span, counters),
        result => took(result, bytes.len(), reply, span, counters),
    }
}

/// Sends a span that holds lent parts, or that a signal has interrupted.
#[cold]
fn send_parts(fd: BorrowedFd<'_>, reply: &mut Reply, span: &mut Span, counters: &Counters) -> Sent {
    while !span.is_empty() {
        counters.send_calls.add(1);
        let (asked, result) = send_slices(fd, reply, *span);
        if result == Err(Errno::INTR) {
            continue;
        }
        let sent = took(result, asked, reply, span, counters);
        if sent != Sent::All {
            return sent;
        }
    }
    Sent::All
}

/// Consumes what one call has sent of the `asked` bytes.
#[cold]
pub(crate) fn took(
    result: Result<usize, Errno>,
    asked: usize,
    reply: &mut Reply,
    span: &mut Span,
    counters: &Counters,
) -> Sent {
    match result {
        Ok(sent) => {
            counters.bytes_out.add(sent as u64);
            reply.consume(span, sent);
            if sent < asked { Sent::Part } else { Sent::All }
        }
        Err(Errno::AGAIN) => Sent::Part,
        Err(_) => Sent::Broken,
    }
}

fn send_slices(fd: BorrowedFd<'_>, reply: &Reply, span: Span) -> (usize, Result<usize, Errno>) {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let count = reply.slices(span, &mut slices);
    let asked = slices[..count].iter().map(|slice| slice.len()).sum();
    let mut control = SendAncillaryBuffer::default();
    (asked, sendmsg(fd, &slices[..count], &mut control, SendFlags::NOSIGNAL))
}
