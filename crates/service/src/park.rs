//! A request that waits for its turn.

/// A request cannot be executed now. It has changed nothing, and is executed again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Park;

/// The end of a request whose reply is complete, if it was executed.
pub(crate) type Executed = Result<(), Park>;
