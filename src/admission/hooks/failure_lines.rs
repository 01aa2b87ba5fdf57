//! Lines in the log about hooks that fail. Clients decide how often a hook is asked, so a hook has
//! one line a minute for each sort of failure, and its texts are cut.

use std::hash::Hash;

use crate::auth::{Omitted, RefusalLines};

/// The most bytes of a text from a webhook in the log.
const TEXT_BYTES_MAX: usize = 2048;

/// Decides which failures of hooks are logged.
#[derive(Debug, Default)]
pub struct FailureLines(RefusalLines);

impl FailureLines {
    /// Returns `None` if this failure gets no line, else what to log: the reason, and the failures
    /// without a line before it.
    pub fn turn<'w>(&self, about: impl Hash, why: &'w str) -> Option<(&'w str, Omitted)> {
        let omitted = self.0.turn(about)?;
        Some((shown(why), omitted))
    }
}

fn shown(text: &str) -> &str {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_has_one_line_for_each_sort_of_failure_and_its_texts_are_cut() {
        let lines = FailureLines::default();
        let long = "é".repeat(TEXT_BYTES_MAX);
        let (shown, omitted) = lines.turn(("w", 1), &long).unwrap();
        assert_eq!((shown.len(), omitted.count), (TEXT_BYTES_MAX, 0));
        assert!(lines.turn(("w", 1), "again").is_none());
        assert!(lines.turn(("w", 2), "other").is_some());
        assert!(lines.turn(("x", 1), "other").is_some());
    }
}
