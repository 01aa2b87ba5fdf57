//! The compiled patterns of schemas. Each is compiled when its first text comes, and all schemas
//! together keep a bounded number of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use regex::Regex;

use super::Budget;
use super::pattern::Pattern;

/// The limit on the approximate memory of all patterns that are kept, in bytes.
const MAX_KEPT_BYTES: usize = 32 << 20;

/// The approximate memory of the smallest compiled pattern, and that of each of its parts.
const BYTES_OF_PATTERN: usize = 16 * 1024;
const BYTES_OF_PART: usize = 64;

/// The comparisons of a pattern's parts with bytes of a text that take one step.
const COMPARISONS_IN_STEP: usize = 64;

/// The approximate memory of the patterns that are kept.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A pattern of a schema, which equal patterns of the schema share.
#[derive(Clone, Debug)]
pub(super) struct SharedPattern(Arc<LazyPattern>);

#[derive(Debug)]
struct LazyPattern {
    text: Box<str>,
    kept: OnceLock<Compiled>,
}

#[derive(Debug)]
enum Compiled {
    /// The text is not a valid pattern: every text is accepted.
    Invalid,
    /// The pattern is too large to compile: no text matches it.
    TooLarge,
    /// The compiled pattern, its maximum cost for each byte of a text in comparisons, and its
    /// approximate memory.
    Regex(Box<Regex>, usize, usize),
}

impl Compiled {
    fn bytes(&self) -> usize {
        match self {
            Compiled::Invalid | Compiled::TooLarge => 0,
            Compiled::Regex(_, _, bytes) => *bytes,
        }
    }

    fn matches(&self, text: &str, budget: &Budget) -> Option<bool> {
        match self {
            Compiled::Invalid => Some(true),
            Compiled::TooLarge => Some(false),
            Compiled::Regex(regex, cost, _) => {
                let comparisons = text.len().saturating_mul(*cost);
                let steps = 1 + comparisons / COMPARISONS_IN_STEP;
                budget.take(steps).then(|| regex.is_match(text))
            }
        }
    }
}

impl SharedPattern {
    pub fn new(text: &str) -> SharedPattern {
        SharedPattern(Arc::new(LazyPattern {
            text: text.into(),
            kept: OnceLock::new(),
        }))
    }

    /// Returns the pattern as in the definition.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns whether any part of a text matches the pattern, or `None` if the budget is spent.
    pub fn matches(&self, text: &str, budget: &Budget) -> Option<bool> {
        if let Some(kept) = self.0.kept.get() {
            return kept.matches(text, budget);
        }
        let compiled = compiled(&self.0.text, budget)?;
        let found = compiled.matches(text, budget);
        let bytes = compiled.bytes();
        // Two threads may exceed the limit by a pattern each.
        if KEPT_BYTES.load(Ordering::Relaxed) + bytes <= MAX_KEPT_BYTES
            && self.0.kept.set(compiled).is_ok()
        {
            KEPT_BYTES.fetch_add(bytes, Ordering::Relaxed);
        }
        found
    }
}

impl Drop for LazyPattern {
    fn drop(&mut self) {
        let bytes = self.kept.get().map_or(0, Compiled::bytes);
        KEPT_BYTES.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn compiled(text: &str, budget: &Budget) -> Option<Compiled> {
    budget.take(Pattern::read_steps(text)).then_some(())?;
    let Ok(pattern) = Pattern::new(text) else {
        return Some(Compiled::Invalid);
    };
    budget.take(pattern.compile_steps()).then_some(())?;
    Some(match pattern.compiled() {
        Some(regex) => {
            let bytes = BYTES_OF_PATTERN + BYTES_OF_PART * pattern.cost();
            Compiled::Regex(Box::new(regex), pattern.cost(), bytes)
        }
        None => Compiled::TooLarge,
    })
}
