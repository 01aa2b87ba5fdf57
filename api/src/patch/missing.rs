//! Operations of a JSON patch on a missing member.
//!
//! RFC 6902 requires them to fail. Kubernetes treats such a member as null, and clients rely on it
//! (API-161): they `replace` a label without checking that it exists.

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

/// The operation to run instead of another one.
#[derive(Debug, PartialEq)]
pub(super) enum Instead {
    /// The same operation.
    Itself,
    /// Another operation.
    Of(PatchOperation),
    /// No operation, because its result is already present.
    Nothing,
}

/// Returns the operation to run. For a missing member, `replace` sets it, `copy` copies null, and
/// `test` compares with null.
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
