//! What keeps a request from being carried out now.

use base::Refused;

/// What keeps a request from being carried out now. The request has changed nothing, and may be
/// tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Memory: other threads must end their batches first, or much must be evicted.
    Memory,
    /// The sink of effects.
    Sink(Refused),
    /// The key has no item in memory, and the sink does not say that it has none elsewhere either.
    Elsewhere,
}
