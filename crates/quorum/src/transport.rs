//! How bytes come to another cell and its answer comes back. The caller owns the sockets.

use ring::CellId;
use std::future::Future;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The body certainly did not arrive and will not: there was no connection.
    NotSent,
    /// The body may have arrived, or may still arrive.
    NoAnswer,
}

/// A way to all other cells of the ring.
///
/// A body may arrive late, twice or never; it must not arrive changed. A call ends when its answer
/// has come or the connection is lost. The caller also stops waiting at a deadline of its own,
/// by dropping the future: what was sent may then still arrive.
pub trait Transport: Send + Sync + 'static {
    /// Sends `body` to [`Quorum::handle`](crate::Quorum::handle) of the cell `to`, and returns what
    /// that returned. A body has at most [`BODY_MAX`](crate::BODY_MAX) bytes.
    fn call(
        &self,
        to: CellId,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<Vec<u8>, Unreachable>> + Send;
}
