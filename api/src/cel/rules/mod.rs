//! The rules in the schema of a custom resource, and their evaluation over its objects (crd.md
//! 9.2). Pure.
//!
//! [`Rules::of`] compiles the rules of a schema once. [`Rules::check`] evaluates them over an
//! object, with the object before an update: transition rules see the part that corresponds, and
//! an error at a part that the update does not change is only a warning. [`compiled`] checks single
//! rules when a definition is written.

mod compile;
mod correlation;
mod field_path;
mod messages;
mod run;
mod subject;

use serde_json::Value as Json;

use self::compile::Node;
use super::values::Work;
use crate::field_error::FieldError;
use crate::structural::Budget;

pub use self::compile::{CompiledRule, RuleFault, Scope, compiled};
pub use self::correlation::is_unchanged;
pub use self::subject::Subject;

/// The limit on the cost of one expression.
pub const CALL_LIMIT: u64 = 1_000_000;

/// The limit on the cost of all rules of an object.
pub const OBJECT_LIMIT: i64 = 10_000_000;

/// The rules of a schema.
#[derive(Debug)]
pub struct Rules(Node);

/// The result of the rules of an object.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The errors.
    pub errors: Vec<FieldError>,
    /// The errors at parts that the update does not change, which do not count.
    pub warnings: Vec<FieldError>,
    /// The cost that remains for further checks of the object. It is negative if it ran out and
    /// later rules were not evaluated.
    pub left: i64,
}

/// How an object is checked.
#[derive(Clone, Copy, Debug)]
pub struct Checking<'o> {
    /// The object before the update, which transition rules see.
    pub old: Option<Subject<'o>>,
    /// Whether errors at unchanged parts are only warnings.
    pub is_ratcheting: bool,
    /// The cost that may be spent.
    pub budget: i64,
}

impl<'o> Checking<'o> {
    /// A new object.
    pub fn create() -> Checking<'o> {
        Checking {
            old: None,
            is_ratcheting: false,
            budget: OBJECT_LIMIT,
        }
    }

    /// A changed object.
    pub fn update(old: impl Into<Subject<'o>>) -> Checking<'o> {
        Checking {
            old: Some(old.into()),
            is_ratcheting: true,
            budget: OBJECT_LIMIT,
        }
    }
}

impl Rules {
    /// Compiles the rules of a structural schema. `is_root` says whether it is that of a whole
    /// resource. Returns `None` if it has no rules. A rule that can't be compiled becomes an error
    /// of each object.
    pub fn of(schema: &Json, is_root: bool, budget: &Budget) -> Option<Rules> {
        Node::of(schema, is_root, budget).map(Rules)
    }

    /// Evaluates the rules over an object. Paths of errors begin at the object.
    pub fn check<'o>(&self, object: impl Into<Subject<'o>>, checking: Checking<'o>) -> Verdict {
        let work = Work::default();
        let object = object.into();
        if self.0.reads_members() {
            return run::check(&self.0, object, checking, &work);
        }
        // Without a description as an object it is read as a value.
        let (object, old) = (object.to_json(), checking.old.map(Subject::to_json));
        let checking = Checking {
            old: old.as_deref().map(Subject::Value),
            ..checking
        };
        run::check(&self.0, Subject::Value(&object), checking, &work)
    }
}

#[cfg(test)]
mod tests;
