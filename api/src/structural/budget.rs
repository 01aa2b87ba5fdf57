//! How much work the checks of one object may take: its expressions, the types in them, its
//! schemas, patterns and defaults. All of it together is proportional to the bytes of the object,
//! so no part of it can be multiplied by another.

use std::cell::Cell;

use serde_json::Value;

use crate::abandoned::is_abandoned;

/// The steps that any object may take. They take some milliseconds.
const FLOOR: usize = 100_000;

/// The steps that any list of expressions may take.
const EXPRESSIONS_FLOOR: usize = 10_000;

/// The bytes of the object that are worth a step. Of 338 definitions of real projects none takes
/// a twentieth of what it may.
const BYTES_FOR_STEP: usize = 2;

/// The steps for a byte of expressions that stand for themselves.
const STEPS_FOR_EXPRESSION_BYTE: usize = 2;

/// The steps that are left for the checks of one object. A step takes about as long as a look at
/// one schema, a tenth of a microsecond. Everything that is checked takes its steps here before it
/// works, and gives up if there are none left.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    left: Cell<usize>,
    is_reported: Cell<bool>,
}

impl Budget {
    /// The budget of an object, by the bytes of its JSON.
    pub fn of(object: &Value) -> Budget {
        Budget::with_steps(FLOOR + json_bytes(object) / BYTES_FOR_STEP)
    }

    /// The budget of expressions of so many bytes that no schemas and no variables stand beside.
    pub fn of_expressions(bytes: usize) -> Budget {
        Budget::with_steps(EXPRESSIONS_FLOOR + bytes * STEPS_FOR_EXPRESSION_BYTE)
    }

    fn with_steps(limit: usize) -> Budget {
        Budget {
            limit,
            left: Cell::new(limit),
            is_reported: Cell::new(false),
        }
    }

    /// Takes steps. If the answer is false, the work must not be done.
    ///
    /// This is the one place where work on an object can stop early. It does if its client is gone.
    #[must_use]
    pub fn take(&self, steps: usize) -> bool {
        let left = self.left.get().checked_sub(steps);
        let left = left.filter(|_| !is_abandoned());
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// The steps that were taken.
    pub fn taken(&self) -> usize {
        self.limit - self.left.get()
    }

    /// The share of the steps that was taken, in percent.
    pub fn percent(&self) -> usize {
        self.taken() * 100 / self.limit
    }

    /// Why an object whose budget is spent is refused. Returns the text once.
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

/// About as many bytes as a value has as JSON.
fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + json_bytes(item)).sum::<usize>(),
        Value::Object(members) => {
            let members = members.iter();
            2 + members
                .map(|(name, value)| name.len() + 4 + json_bytes(value))
                .sum::<usize>()
        }
    }
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
    fn nothing_is_left_for_a_client_that_is_gone() {
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
