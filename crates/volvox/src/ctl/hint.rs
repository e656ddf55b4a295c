//! How a command is called that a message advises: as the present one was, so that it asks the same
//! ring.

use std::sync::OnceLock;

static SERVERS: OnceLock<Vec<String>> = OnceLock::new();

/// The present command was given these servers; none: it asks the cell that is asked by default.
pub(super) fn set(servers: &[String]) {
    // A process asks one ring.
    let _ = SERVERS.set(servers.to_vec());
}

/// `volvox ctl`, with the servers of the present command.
pub(super) fn ctl() -> String {
    let servers = SERVERS.get().map_or(&[][..], Vec::as_slice);
    servers.iter().fold("volvox ctl".to_owned(), |text, at| format!("{text} --server {at}"))
}
