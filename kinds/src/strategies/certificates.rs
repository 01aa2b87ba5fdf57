//! CertificateSigningRequests: the requesting user, and the conditions that each endpoint may
//! change (http.md 6.2).

use api::keyed::Keyed;
use api::object::{Object, put, remove, whole_seconds};
use api::user_info::UserInfo;
use jiff::Timestamp;
use serde_json::Value;

const CONDITIONS: &[&str] = &["status", "conditions"];

/// Sets the requester to the user who creates the request, whatever the body has.
pub fn set_requester(object: &mut Object, user: &UserInfo) {
    let members: [(&str, Value); 4] = [
        ("username", user.name.as_str().into()),
        ("uid", user.uid.as_str().into()),
        ("groups", user.groups.as_slice().into()),
        (
            "extra",
            user.extra
                .iter()
                .map(|(key, values)| (key.clone(), values.clone()))
                .collect(),
        ),
    ];
    for (name, value) in members {
        let is_empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        match is_empty {
            true => remove(object, &["spec", name]),
            false => put(object, &["spec", name], value),
        }
    }
}

/// Keeps the approvals and denials of the stored request in a status update. If the update has more
/// or fewer of them, it stays as sent and validation refuses it.
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

/// Adds missing times to conditions. A condition that keeps its type and status keeps its
/// `lastTransitionTime`.
pub fn stamp_conditions(object: &mut Object, stored: &Object, now: Timestamp) {
    const UPDATE: &str = "lastUpdateTime";
    const TRANSITION: &str = "lastTransitionTime";
    let mut conditions = conditions(object).to_vec();
    if conditions.is_empty() {
        return;
    }
    let now = Value::from(whole_seconds(now));
    let known = self::conditions(stored).iter();
    let known = known.filter(|known| time(known, TRANSITION).is_some());
    let known = Keyed::by(known, |known| state(known));
    for condition in &mut conditions {
        if time(condition, UPDATE).is_none() {
            set(condition, UPDATE, now.clone());
        }
        if time(condition, TRANSITION).is_none() {
            let known = known.first(&state(condition));
            let changed = known.and_then(|known| time(known, TRANSITION));
            let changed = changed.unwrap_or(&now).clone();
            set(condition, TRANSITION, changed);
        }
    }
    put(object, CONDITIONS, conditions.into());
}

/// Returns the members by which a condition counts as unchanged.
fn state(condition: &Value) -> [Option<&Value>; 2] {
    ["type", "status"].map(|member| condition.get(member))
}

fn time<'c>(condition: &'c Value, name: &str) -> Option<&'c Value> {
    condition.get(name).filter(|time| !time.is_null())
}

fn set(condition: &mut Value, name: &str, value: Value) {
    if let Some(members) = condition.as_object_mut() {
        members.insert(name.to_owned(), value);
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

    /// http.md 6.2: the requester is the user who creates the request.
    #[test]
    fn the_requester_is_the_creator() {
        let mut object = Object::default();
        let forged = json!({
            "signerName": "ex.com/s", "username": "root", "uid": "0", "groups": ["system:masters"],
            "extra": {"k": ["v"]},
        });
        put(&mut object, &["spec"], forged);
        let mut user = UserInfo::authenticated("u", vec!["g".to_owned()]);
        set_requester(&mut object, &user);
        let groups = json!(["g", "system:authenticated"]);
        let expected = json!({"signerName": "ex.com/s", "username": "u", "groups": groups});
        assert_eq!(object.at(&["spec"]), Some(&expected));
        user.uid = "7".to_owned();
        user.extra.insert("e".to_owned(), vec!["x".to_owned()]);
        set_requester(&mut object, &user);
        let expected = json!({
            "signerName": "ex.com/s", "username": "u", "uid": "7", "groups": groups,
            "extra": {"e": ["x"]},
        });
        assert_eq!(object.at(&["spec"]), Some(&expected));
    }

    #[test]
    fn conditions_get_the_times_that_they_lack() {
        let (old, now) = ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z");
        let stored = with(json!([
            {"type": "A", "status": "True", "lastUpdateTime": old, "lastTransitionTime": old},
        ]));
        let mut changed = with(json!([
            {"type": "A", "status": "True", "lastUpdateTime": null},
            {"type": "B", "status": "True", "lastUpdateTime": old},
        ]));
        stamp_conditions(&mut changed, &stored, now.parse().expect("a time"));
        let expected = with(json!([
            {"type": "A", "status": "True", "lastUpdateTime": now, "lastTransitionTime": old},
            {"type": "B", "status": "True", "lastUpdateTime": old, "lastTransitionTime": now},
        ]));
        assert_eq!(changed, expected);
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
