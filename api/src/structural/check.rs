//! The errors that a validation collects.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

use super::Budget;
use super::faults::{Shown, ValueFault, ValueFaultKind};
use super::view::Path;
use crate::text::quoting::beginning;

/// The limit on the errors of a value. Validation stops there.
pub(super) const MAX_FAULTS: usize = 100;

/// The bytes of a written error for one step.
const WRITTEN_IN_STEP: usize = 16;

/// The errors found so far, and the number of successful checks. Of several alternatives that fail,
/// the errors of the one with the most successful checks are reported.
pub(super) struct Check<'c, 'v> {
    pub faults: Vec<ValueFault<'v>>,
    pub matches: usize,
    /// The number of errors, and whether they are only counted: the errors of an alternative matter
    /// only if no other one holds.
    pub failures: usize,
    pub is_silent: bool,
    pub budget: &'c Budget,
    /// Whether the value is a default.
    pub is_default: bool,
    /// Whether values are equal to their old ones, by the addresses of the former.
    pub is_same: HashMap<usize, bool>,
}

impl<'c, 'v> Check<'c, 'v> {
    pub fn new(budget: &'c Budget) -> Check<'c, 'v> {
        Check {
            faults: Vec::new(),
            matches: 0,
            failures: 0,
            is_silent: false,
            budget,
            is_default: false,
            is_same: HashMap::new(),
        }
    }

    /// Returns the formatted path if there is room for another error.
    pub fn keeps(&mut self, path: &Path<'_>) -> Option<String> {
        self.failures += 1;
        if self.is_silent || self.faults.len() >= MAX_FAULTS {
            return None;
        }
        let path = beginning(path);
        let is_left = self.budget.take(1 + path.len() / WRITTEN_IN_STEP);
        is_left.then_some(path)
    }

    /// Adds an error, unless there is one with the same text.
    pub fn add(&mut self, fault: ValueFault<'v>) {
        // linear: the list is bounded by [`MAX_FAULTS`].
        if self.faults.len() < MAX_FAULTS && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    pub fn fault(&mut self, path: &Path<'_>, kind: ValueFaultKind<'v>) {
        if let Some(path) = self.keeps(path) {
            self.add(ValueFault { path, kind });
        }
    }

    /// Returns the part of a detail that is shown. The steps for formatting it are taken from the
    /// budget.
    fn written(&mut self, detail: fmt::Arguments<'_>) -> String {
        let detail = beginning(detail);
        // If no steps remain, the next check stops.
        let _ = self.budget.take(detail.len() / WRITTEN_IN_STEP);
        detail
    }

    pub fn invalid(&mut self, path: &Path<'_>, value: Shown<'v>, detail: fmt::Arguments<'_>) {
        if let Some(path) = self.keeps(path) {
            let detail = self.written(detail);
            let kind = ValueFaultKind::Invalid { value, detail };
            self.add(ValueFault { path, kind });
        }
    }

    /// As [`Check::invalid`], showing another value.
    pub fn invalid_as(
        &mut self,
        path: &Path<'_>,
        value: impl Into<Value>,
        detail: fmt::Arguments<'_>,
    ) {
        self.invalid(path, Shown::Other(value.into()), detail);
    }

    /// Reports an error of the object as a whole.
    pub fn general(&mut self, path: &Path<'_>, detail: fmt::Arguments<'_>) {
        if self.keeps(path).is_some() {
            let detail = self.written(detail);
            self.add(ValueFault {
                path: String::new(),
                kind: ValueFaultKind::General { detail },
            });
        }
    }

    pub fn wrong_type(&mut self, path: &Path<'_>, expected: &str, found: &str) {
        if let Some(shown) = self.keeps(path) {
            let detail = self.written(format_args!(
                "{path} in body must be of type {expected}: {found:?}"
            ));
            let value = beginning(found);
            let kind = ValueFaultKind::Type { value, detail };
            self.add(ValueFault { path: shown, kind });
        }
    }
}
