//! One line that shows how far long work has come.
//!
//! On a terminal it is rewritten in place. Elsewhere each step is a line of its own, and what
//! happens within a step is not shown. It is written to standard error: standard output holds
//! results.

use indicatif::{ProgressBar, ProgressStyle};

/// A line that is rewritten; invisible where standard error is no terminal.
pub struct Line(ProgressBar);

/// Progress over a known number of steps.
pub struct Progress {
    bar: ProgressBar,
    begun: u64,
}

impl Line {
    /// An empty line.
    #[expect(clippy::new_without_default, reason = "it takes a place on the screen")]
    pub fn new() -> Self {
        Self(styled(ProgressBar::new_spinner(), "{msg}"))
    }

    /// Shows `text` in place of what was there.
    pub fn show(&self, text: &str) {
        self.0.reset();
        self.0.set_message(text.to_owned());
        self.0.tick();
    }

    /// Removes the line, before something else is printed.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress {
    /// Progress over `total` steps.
    pub fn new(total: usize) -> Self {
        let bar = ProgressBar::new(total as u64);
        Self { bar: styled(bar, "[{bar:20}] {prefix} {msg}"), begun: 0 }
    }

    /// Begins the next step.
    pub fn begin(&mut self, step: &str) {
        let total = self.bar.length().unwrap_or(0);
        self.begun += 1;
        self.bar.reset();
        self.bar.set_position(self.begun - 1);
        self.bar.set_prefix(format!("{}/{total} {step}", self.begun));
        self.detail("");
        if self.bar.is_hidden() {
            eprintln!("[{}/{total}] {step}", self.begun);
        }
    }

    /// Says what the step is at; shown on a terminal only.
    pub fn detail(&self, detail: &str) {
        self.bar.set_message(detail.to_owned());
        self.bar.tick();
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    bar.with_style(
        style.expect("invariant: the templates above are well formed").progress_chars("#."),
    )
}
