//! A bound on work that no cost bounds: cel-go takes the comparison of two deep lists for cheap.

use std::cell::{Cell, RefCell};

use super::patterns::Compiled;
use super::{Failure, Outcome};
use crate::abandoned::is_abandoned;

/// The steps of the rules of one object, a few seconds.
const STEPS: u64 = 100_000_000;

/// The bytes that are compared in one step.
const BYTES_IN_STEP: usize = 64;

/// The steps between two looks at whether the client waits.
const STEPS_BETWEEN_LOOKS: u64 = 4096;

/// The most bytes of a text that an expression computes.
const MAX_BYTES: usize = 32 << 20;

/// The remaining work for the evaluation of expressions over one object.
#[derive(Debug)]
pub struct Work {
    left: Cell<u64>,
    until_look: Cell<u64>,
    /// The patterns that were computed last, the latest one last.
    patterns: RefCell<Vec<(Box<str>, Compiled)>>,
}

/// The number of computed patterns that are kept.
const MAX_PATTERNS: usize = 8;

/// The steps for compiling a pattern.
const COMPILE_STEPS: usize = 2_000;

impl Default for Work {
    fn default() -> Work {
        Work {
            left: Cell::new(STEPS),
            until_look: Cell::new(STEPS_BETWEEN_LOOKS),
            patterns: RefCell::default(),
        }
    }
}

impl Work {
    /// Takes steps, each about as long as a look at one value.
    #[inline]
    pub(in super::super) fn take(&self, steps: usize) -> Outcome<()> {
        let steps = steps as u64;
        let left = self
            .left
            .get()
            .checked_sub(steps)
            .ok_or(Failure::OverBudget)?;
        self.left.set(left);
        match self.until_look.get().checked_sub(steps) {
            Some(until) => self.until_look.set(until),
            None => {
                self.until_look.set(STEPS_BETWEEN_LOOKS);
                if is_abandoned() {
                    return Err(Failure::Abandoned);
                }
            }
        }
        Ok(())
    }

    /// Takes the steps for reading bytes.
    pub(in super::super) fn take_bytes(&self, bytes: usize) -> Outcome<()> {
        self.take(bytes / BYTES_IN_STEP)
    }

    /// Takes the steps for a computed text.
    pub(in super::super) fn make_bytes(&self, bytes: usize) -> Outcome<()> {
        if bytes > MAX_BYTES {
            return Err(Failure::OverBudget);
        }
        self.take(1 + bytes / BYTES_IN_STEP)
    }

    /// Returns a pattern that an expression computes, compiled. Keeps a few of them.
    ///
    /// # Errors
    /// Go's error if it is not valid.
    pub(in super::super) fn compiled(&self, pattern: &str) -> Result<Compiled, String> {
        let mut kept = self.patterns.borrow_mut();
        // linear: few patterns are kept.
        if let Some((_, compiled)) = kept.iter().find(|(known, _)| **known == *pattern) {
            return Ok(compiled.clone());
        }
        self.take(COMPILE_STEPS + pattern.len())
            .map_err(|fault| fault.to_string())?;
        let compiled = Compiled::new(pattern)?;
        if kept.len() >= MAX_PATTERNS {
            kept.remove(0);
        }
        kept.push((pattern.into(), compiled.clone()));
        Ok(compiled)
    }
}
