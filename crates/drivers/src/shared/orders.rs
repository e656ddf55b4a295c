//! What all drivers agree on about the orders of a handler.

/// Orders that one batch carries out at most; the rest follows in the next one, before the worker
/// sleeps. To carry one out may add more, so this bounds how long the replies of a batch wait.
pub(crate) const ORDERS_MAX: usize = 1024;
