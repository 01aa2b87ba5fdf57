//! The evaluators of CEL that give a second opinion: the crates `cel` and `kube-cel`.

#[path = "../../../api/tests/answers/mod.rs"]
mod answers;
#[macro_use]
mod evaluator;
pub mod reason;

use serde_json::Value as Json;

use reason::Answer;

evaluator!(plain, ::cel, Context::default());
evaluator!(kube, ::kube_cel::cel, {
    use kube_cel::KubeCelExt as _;
    Context::default().with_all()
});

/// Evaluates an expression over an object of a schema as `self`.
pub type Evaluate = fn(&str, &Json, &Json) -> Answer;

/// The crates by name.
pub const CRATES: [(&str, Evaluate); 2] = [("cel", plain::answer), ("kube-cel", kube::answer)];
