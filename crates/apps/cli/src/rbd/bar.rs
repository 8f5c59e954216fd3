//! Progress of an operation on a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use super::args::Quiet;

/// A progress bar on a terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new(what: &'static str, quiet: &Quiet) -> Self {
        if quiet.no_progress {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{msg}: {percent}% complete...");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(0).with_style(style).with_message(what))
    }

    pub(super) fn at(&self, done: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(done);
    }
}
