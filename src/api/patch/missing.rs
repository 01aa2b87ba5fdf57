//! Operations of a JSON patch on a member that its object hasn't.
//!
//! RFC 6902 wants them to fail. Kubernetes takes such a member for null, and clients rely on it
//! (API-161): they `replace` a label without asking whether it is there.

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

/// What is to be carried out in place of an operation.
#[derive(Debug, PartialEq)]
pub(super) enum Instead {
    /// The operation as it is.
    Itself,
    /// Another one.
    Of(PatchOperation),
    /// Nothing: it is done already.
    Nothing,
}

/// `replace` sets a missing member, `copy` copies null, `test` finds that it equals null.
pub(super) fn instead(document: &Value, operation: &PatchOperation) -> Instead {
    let at = match operation {
        PatchOperation::Replace(_) | PatchOperation::Test(_) => operation.path(),
        PatchOperation::Copy(copy) => &copy.from,
        _ => return Instead::Itself,
    };
    let Some((parent, _)) = at.split_back() else {
        return Instead::Itself;
    };
    let parent = document.pointer(parent.as_str());
    let is_missing =
        parent.is_some_and(Value::is_object) && document.pointer(at.as_str()).is_none();
    let add = |value: Value| {
        Instead::Of(PatchOperation::Add(AddOperation {
            path: operation.path().to_owned(),
            value,
        }))
    };
    match operation {
        PatchOperation::Replace(replace) if is_missing => add(replace.value.clone()),
        PatchOperation::Copy(_) if is_missing => add(Value::Null),
        PatchOperation::Test(test) if is_missing && test.value.is_null() => Instead::Nothing,
        _ => Instead::Itself,
    }
}
