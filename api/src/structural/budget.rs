//! The limit on the work of validating one object with schemas: its expressions and their types,
//! its schemas, patterns and defaults. The total is proportional to the bytes of the object, so
//! that clients cannot multiply one kind of work by another.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::view::View;
use crate::abandoned::is_abandoned;

/// The steps that any object may take, a few milliseconds.
const FLOOR: usize = 100_000;

/// The steps that any list of expressions may take.
const EXPRESSIONS_FLOOR: usize = 10_000;

/// The bytes of the object for each further step. None of 338 definitions from real projects takes
/// more than a tenth of its budget.
const BYTES_FOR_STEP: usize = 2;

/// The steps that any custom resource may take, and those for each byte of it.
const INSTANCE_FLOOR: usize = 2_000_000;
const STEPS_FOR_INSTANCE_BYTE: usize = 16;

/// The steps for each byte of expressions that are checked on their own.
const STEPS_FOR_EXPRESSION_BYTE: usize = 2;

/// The remaining steps for the validation of one object. A step takes about as long as a look at
/// one schema, a tenth of a microsecond. All validation takes steps here before it works, and stops
/// if none remain.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    left: Cell<usize>,
    is_reported: Cell<bool>,
}

impl Budget {
    /// Returns the budget of an object, by the bytes of its JSON.
    pub fn of(object: &Value) -> Budget {
        Budget::with_steps(FLOOR + json_bytes(object) / BYTES_FOR_STEP)
    }

    /// Returns the budget of expressions of so many bytes that come without schemas and variables.
    pub fn of_expressions(bytes: usize) -> Budget {
        Budget::with_steps(EXPRESSIONS_FLOOR + bytes * STEPS_FOR_EXPRESSION_BYTE)
    }

    /// Returns the budget of a custom resource, by its bytes. It is far larger than that of a
    /// definition, because its schema may be many times larger than the object.
    pub fn of_instance(object: View<'_>) -> Budget {
        let bytes = match object {
            View::Object(members) => members_bytes(members),
            View::List(items) => items.iter().map(json_bytes).sum(),
            _ => 0,
        };
        Budget::with_steps(INSTANCE_FLOOR + bytes * STEPS_FOR_INSTANCE_BYTE)
    }

    fn with_steps(limit: usize) -> Budget {
        Budget {
            limit,
            left: Cell::new(limit),
            is_reported: Cell::new(false),
        }
    }

    /// Takes steps. If the result is false, the work must not be done.
    ///
    /// This is the only place where work on an object can stop early, so it also stops here if the
    /// client is gone.
    #[must_use]
    pub fn take(&self, steps: usize) -> bool {
        let left = self.left.get().checked_sub(steps);
        let left = left.filter(|_| !is_abandoned());
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Returns whether no steps remain.
    pub fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Returns the steps that were taken.
    pub fn taken(&self) -> usize {
        self.limit - self.left.get()
    }

    /// Returns the share of steps that were taken, in percent.
    pub fn percent(&self) -> usize {
        self.taken() * 100 / self.limit
    }

    /// Returns the error for an object that has spent its budget, once only.
    pub fn refusal(&self) -> Option<String> {
        (self.is_spent() && !self.is_reported.replace(true)).then(|| {
            format!(
                "takes too long to validate: an object of this size may take {} steps; use fewer \
                 or simpler expressions, patterns, alternatives and defaults",
                self.limit
            )
        })
    }
}

/// Returns the approximate length of a value's JSON.
pub(crate) fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + json_bytes(item)).sum::<usize>(),
        Value::Object(members) => 2 + members_bytes(members),
    }
}

fn members_bytes(members: &Map<String, Value>) -> usize {
    let bytes = members.iter();
    let bytes = bytes.map(|(name, value)| name.len() + 4 + json_bytes(value));
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::abandoned::{Abandonment, within};

    #[test]
    fn a_spent_budget_is_reported_once() {
        let budget = Budget::of_expressions(10);
        assert!(budget.take(10_000));
        assert_eq!((budget.taken(), budget.refusal()), (10_000, None));
        assert!(!budget.take(21));
        assert!(budget.is_spent() && budget.refusal().is_some());
        assert!(!budget.take(1));
        assert_eq!((budget.percent(), budget.refusal()), (100, None));
    }

    #[test]
    fn a_client_that_is_gone_has_no_steps() {
        let request = Arc::new(Abandonment::default());
        within(Some(&request), || {
            let budget = Budget::of_expressions(0);
            assert!(budget.take(1) && request.give_up());
            assert!(!budget.take(1) && budget.is_spent());
        });
    }

    #[test]
    fn bytes_are_those_of_json() {
        let value = json!({"a": [1234, "é"], "b": {"c": null}});
        let bytes = value.to_string().len();
        assert!(json_bytes(&value).abs_diff(bytes) < 6);
    }
}
