//! Calls on sockets, and nothing else.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use session::{Reply, Span};

use crate::counters::Counters;

/// Bytes that one `recv` takes at most.
pub(crate) const RECV_BYTES: usize = 64 << 10;

/// No send waits, nor kills the process where nobody listens any more.
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// Slices that one `sendmsg` gathers at most.
const SLICES_MAX: usize = 64;

/// How far a span was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All of it.
    All,
    /// Not this rest of it: the client must take some first.
    Part(Span),
    /// The connection is broken.
    Broken,
}

/// Sends `span` of `reply` as far as the socket takes it: one call, unless there are more slices
/// than one call gathers.
#[inline(always)]
pub(crate) fn send_span(
    fd: BorrowedFd<'_>,
    reply: &mut Reply,
    span: Span,
    counters: &Counters,
) -> Sent {
    let Some(bytes) = reply.plain(span) else { return send_parts(fd, reply, span, counters) };
    // Before the call, so that whoever has its bytes finds it counted.
    counters.send_calls.add(1);
    match send(fd, bytes, SEND_FLAGS) {
        Ok(sent) if sent == bytes.len() => {
            counters.bytes_out.add(sent as u64);
            Sent::All
        }
        Ok(sent) => took_part(sent, reply, span, counters),
        Err(Errno::INTR) => send_parts(fd, reply, span, counters),
        Err(error) => took_nothing(error, span),
    }
}

/// Sends a span that holds lent parts, or that a signal has interrupted.
#[cold]
fn send_parts(fd: BorrowedFd<'_>, reply: &mut Reply, span: Span, counters: &Counters) -> Sent {
    let mut rest = span;
    while !rest.is_empty() {
        counters.send_calls.add(1);
        let (asked, result) = send_slices(fd, reply, rest);
        if result == Err(Errno::INTR) {
            continue;
        }
        match took(result, reply, rest, counters) {
            // There were more slices than one call gathers.
            Sent::Part(behind) if result == Ok(asked) => rest = behind,
            sent => return sent,
        }
    }
    Sent::All
}

/// What it means that one call for `span` has returned `result`.
pub(crate) fn took(
    result: Result<usize, Errno>,
    reply: &mut Reply,
    span: Span,
    counters: &Counters,
) -> Sent {
    match result {
        Ok(sent) => took_part(sent, reply, span, counters),
        Err(error) => took_nothing(error, span),
    }
}

#[cold]
fn took_part(sent: usize, reply: &mut Reply, mut span: Span, counters: &Counters) -> Sent {
    counters.bytes_out.add(sent as u64);
    reply.consume(&mut span, sent);
    if span.is_empty() { Sent::All } else { Sent::Part(span) }
}

#[cold]
fn took_nothing(error: Errno, span: Span) -> Sent {
    if error == Errno::AGAIN { Sent::Part(span) } else { Sent::Broken }
}

fn send_slices(fd: BorrowedFd<'_>, reply: &Reply, span: Span) -> (usize, Result<usize, Errno>) {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let count = reply.slices(span, &mut slices);
    let asked = slices[..count].iter().map(|slice| slice.len()).sum();
    let mut control = SendAncillaryBuffer::default();
    (asked, sendmsg(fd, &slices[..count], &mut control, SEND_FLAGS))
}
