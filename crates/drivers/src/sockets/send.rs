//! Sending part of a [`Reply`] on a socket.
//!
//! No call waits: what the socket does not take at once stays with the caller as a [`Span`].
//! Plain bytes are sent by `send`; a span with lent parts is gathered by `sendmsg`. One call sends
//! everything unless a span has more than [`SLICES_MAX`] slices or a signal interrupts the call.
//!
//! `send_calls` counts each call before it is made, so a client that has its bytes finds the call
//! counted. `bytes_out` counts what the socket took.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use session::{Reply, Span};

use crate::counters::Counters;

/// A send never waits, and never raises SIGPIPE when the client has closed its end.
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// Slices that one `sendmsg` gathers at most.
const SLICES_MAX: usize = 64;

/// How far a span was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All of it.
    All,
    /// All but this rest: the client must take some bytes first.
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
        match sent(result, reply, rest, counters) {
            // The span has more slices than one call gathers.
            Sent::Part(after) if result == Ok(asked) => rest = after,
            other => return other,
        }
    }
    Sent::All
}

/// How far `span` was sent by one call that returned `result`.
pub(crate) fn sent(
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
