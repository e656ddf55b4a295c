//! Ctrl-C while an order is watched: the order stands, and `ctl` says so.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// Whether SIGINT has come.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes SIGINT from now on. A second one ends the process.
    pub(super) fn watch() -> io::Result<Self> {
        let has_come = Arc::new(AtomicBool::new(false));
        flag::register_conditional_shutdown(SIGINT, 130, has_come.clone())?;
        flag::register(SIGINT, has_come.clone())?;
        Ok(Self(has_come))
    }

    pub(super) fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
