//! How far something is, in one line that is shown where somebody looks.

use std::io::{IsTerminal, stderr};

/// The line that is shown.
#[derive(Default)]
pub(super) struct Shown(String);

impl Shown {
    /// Shows `text` in the place of what was shown; nothing, where standard error is no terminal.
    pub(super) fn show(&mut self, text: &str) {
        if stderr().is_terminal() && self.0 != text {
            let blank = " ".repeat(self.0.chars().count());
            eprint!("\r{blank}\r{text}");
            text.clone_into(&mut self.0);
        }
    }
}
