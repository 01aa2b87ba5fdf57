//! CertificateSigningRequests: who may change which conditions (http.md 6.2).

use api::object::{Object, put};
use serde_json::Value;

const CONDITIONS: &[&str] = &["status", "conditions"];

/// The status endpoint leaves approvals and denials as they are. If there are more or less than
/// before, the update is refused.
pub fn prepare_status(object: &mut Object, stored: &Object) {
    let mut conditions = conditions(object).to_vec();
    for kind in ["Approved", "Denied"] {
        let is_this = |condition: &&Value| condition.get("type").is_some_and(|of| of == kind);
        let known: Vec<&Value> = self::conditions(stored).iter().filter(is_this).collect();
        let own = conditions
            .iter_mut()
            .filter(|condition| is_this(&&**condition));
        let own: Vec<&mut Value> = own.collect();
        if own.len() == known.len() {
            for (own, known) in own.into_iter().zip(known) {
                known.clone_into(own);
            }
        }
    }
    if !conditions.is_empty() {
        put(object, CONDITIONS, conditions.into());
    }
}

fn conditions(object: &Object) -> &[Value] {
    let conditions = object.at(CONDITIONS).and_then(Value::as_array);
    conditions.map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(conditions: Value) -> Object {
        let mut object = Object::default();
        put(&mut object, CONDITIONS, conditions);
        object
    }

    #[test]
    fn the_status_endpoint_keeps_approvals() {
        let stored = with(json!([{"type": "Approved", "reason": "a"}]));
        let failed = json!({"type": "Failed", "reason": "f"});
        let mut changed = with(json!([failed, {"type": "Approved", "reason": "b"}]));
        prepare_status(&mut changed, &stored);
        let expected = with(json!([failed, {"type": "Approved", "reason": "a"}]));
        assert_eq!(changed, expected);
        let mut added = with(json!([{"type": "Denied"}]));
        prepare_status(&mut added, &stored);
        assert_eq!(added, with(json!([{"type": "Denied"}])));
    }
}
