//! The progress of a command in bytes: a bar on a terminal, nothing elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that is removed when this is dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar for this many bytes; 0 if the number is not known.
    pub(super) fn new(what: &'static str, bytes: u64) -> Progress {
        let bar = match (std::io::stderr().is_terminal(), bytes) {
            (false, _) => ProgressBar::hidden(),
            (true, 0) => ProgressBar::no_length(),
            (true, bytes) => ProgressBar::new(bytes),
        };
        let template = match bytes {
            0 => "{msg} {bytes} ({bytes_per_sec})",
            _ => "{msg} [{bar:30}] {bytes} of {total_bytes} ({bytes_per_sec}, {eta} left)",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what);
        Progress(bar)
    }

    /// Sets the expected number of bytes.
    pub(super) fn expect(&mut self, what: &'static str, bytes: u64) {
        if bytes > 0 && !self.0.is_hidden() {
            *self = Progress::new(what, bytes);
        }
    }

    /// Counts further bytes as done.
    pub(super) fn add(&self, bytes: usize) {
        self.0.inc(bytes as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
