//! Compiled regular expressions in Go's syntax.

use std::sync::Arc;

use regex::Regex;

use crate::structural::pattern::Pattern;

/// A compiled regular expression, and its most comparisons for each byte of a text.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub(in super::super) regex: Arc<Regex>,
    pub(in super::super) cost: usize,
}

impl Compiled {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Go's error if the pattern is not valid or too large.
    pub(in super::super) fn new(text: &str) -> Result<Compiled, String> {
        let wrong = |why: String| format!("error parsing regexp: {why}");
        let pattern = Pattern::new(text).map_err(wrong)?;
        match pattern.compiled() {
            Some(regex) => Ok(Compiled {
                regex: Arc::new(regex),
                cost: pattern.cost(),
            }),
            None => Err(wrong("expression too large".to_owned())),
        }
    }
}
