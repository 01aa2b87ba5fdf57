//! PodDisruptionBudgets of `policy/v1beta1`.

use api::object::Object;
use serde_json::{Value, json};

use crate::defaults::{Members, member};

/// A label that no pod has. Empty selectors select no pods in `policy/v1beta1` and all pods in
/// `policy/v1`; conversion adds or removes a requirement on this label to keep the meaning.
const NO_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

/// Converts a PodDisruptionBudget. An empty selector selects no pods.
pub(super) fn poddisruptionbudget(object: &mut Object) {
    let spec = member(&mut object.0, "spec");
    let Some(selector) = spec.and_then(|spec| member(spec, "selector")) else {
        return;
    };
    let is_empty = |selector: &Members, name: &str| match selector.get(name) {
        Some(Value::Object(labels)) => labels.is_empty(),
        Some(Value::Array(expressions)) => expressions.is_empty(),
        _ => true,
    };
    if is_empty(selector, "matchLabels") && is_empty(selector, "matchExpressions") {
        let exists = json!([{"key": NO_LABEL, "operator": "Exists"}]);
        selector.insert("matchExpressions".to_owned(), exists);
        return;
    }
    if let Some(Value::Array(expressions)) = selector.get_mut("matchExpressions") {
        expressions.retain(|expression| expression.get("key") != Some(&json!(NO_LABEL)));
    }
}
