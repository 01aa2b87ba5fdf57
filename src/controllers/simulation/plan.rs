//! Pure. The writes that a decision leads to, and the parts of objects that several kinds share.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::objects::{Id, Kind};
use crate::api::field::Field;
use crate::api::object::{Object, put, whole_seconds};
use crate::api::selector::Selection;
use crate::kinds::validation::selectors;

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Creates an object.
    Create(Kind, Object),
    /// Merges this into an object, or into a subresource of it.
    Patch {
        id: Id,
        part: Option<&'static str>,
        patch: Value,
    },
    /// Deletes the object with this uid, with a grace period unless it is its own.
    Delete {
        id: Id,
        uid: String,
        grace: Option<i64>,
    },
    /// Binds the pod with this uid to a node.
    Bind { id: Id, uid: String, node: String },
}

impl Step {
    /// Merges a change into an object if it has not changed since.
    pub(super) fn patch(kind: Kind, object: &Object, mut patch: Value) -> Step {
        for name in ["uid", "resourceVersion"] {
            if let Some(members) = patch.as_object_mut() {
                let metadata = members.entry("metadata").or_insert_with(|| json!({}));
                if let Some(metadata) = metadata.as_object_mut() {
                    metadata.insert(name.to_owned(), object.meta(name).into());
                }
            }
        }
        Step::Patch {
            id: Id::of(kind, object),
            part: None,
            patch,
        }
    }

    /// Merges a status into that of an object, if it differs and the object has not changed since.
    pub(super) fn status(kind: Kind, object: &Object, status: Value) -> Option<Step> {
        let known = object.at(&["status"]).unwrap_or(&Value::Null);
        if is_merged(known, &status) {
            return None;
        }
        match Step::patch(kind, object, json!({"status": status})) {
            Step::Patch { id, patch, .. } => Some(Step::Patch {
                id,
                part: Some("status"),
                patch,
            }),
            other => Some(other),
        }
    }

    /// Deletes an object.
    pub(super) fn delete(kind: Kind, object: &Object) -> Step {
        Step::Delete {
            id: Id::of(kind, object),
            uid: object.uid().to_owned(),
            grace: None,
        }
    }

    /// Sets the replicas of an object.
    pub(super) fn scale(kind: Kind, object: &Object, replicas: i64) -> Step {
        Step::patch(kind, object, json!({"spec": {"replicas": replicas}}))
    }
}

/// Whether a merge patch changes nothing. Zeros are not stored.
fn is_merged(known: &Value, patch: &Value) -> bool {
    match (known, patch) {
        (_, Value::Object(members)) => members
            .iter()
            .all(|(name, value)| is_merged(known.get(name).unwrap_or(&Value::Null), value)),
        (Value::Null, Value::Number(number)) => number.as_i64() == Some(0),
        (Value::Null, Value::Array(items)) => items.is_empty(),
        _ => known == patch,
    }
}

/// The writes for one object, and when to look at it again without news.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) again: Option<Duration>,
}

impl Plan {
    pub(super) fn of(steps: impl IntoIterator<Item = Step>) -> Plan {
        Plan {
            steps: steps.into_iter().collect(),
            again: None,
        }
    }

    /// Looks again at a time, if nothing asks for it sooner.
    pub(super) fn again_at(&mut self, time: Timestamp, now: Timestamp) {
        let wait = Duration::try_from(time.duration_since(now)).unwrap_or_default();
        // Times of objects have whole seconds.
        let wait = wait.max(Duration::from_millis(10));
        self.again = Some(self.again.map_or(wait, |again| again.min(wait)));
    }
}

/// A condition to set.
pub(super) struct Condition {
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Condition {
    /// A condition that holds or not, without a message.
    pub(super) fn new(kind: &'static str, holds: bool, reason: &'static str) -> Condition {
        Condition {
            kind,
            status: if holds { "True" } else { "False" },
            reason,
            message: String::new(),
        }
    }

    pub(super) fn saying(self, message: impl Into<String>) -> Condition {
        Condition {
            message: message.into(),
            ..self
        }
    }
}

/// The conditions of an object with these set. The time of a transition stays while the status
/// does.
pub(super) fn with_conditions(object: &Object, set: &[Condition], now: Timestamp) -> Value {
    let mut all: Vec<Value> = object.items(&["status", "conditions"]).to_vec();
    for one in set {
        let is_it = |known: &Value| known.get("type").and_then(Value::as_str) == Some(one.kind);
        // linear: an object has a few conditions.
        let place = all.iter().position(is_it);
        let known = place.and_then(|place| all.get(place));
        let is_same = known.is_some_and(|known| known.get("status") == Some(&one.status.into()));
        let since = known.and_then(|known| known.get("lastTransitionTime"));
        let since = since.filter(|since| is_same && !since.is_null()).cloned();
        let mut condition = known
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        condition.insert("type".to_owned(), one.kind.into());
        condition.insert("status".to_owned(), one.status.into());
        let since = since.unwrap_or_else(|| whole_seconds(now).into());
        condition.insert("lastTransitionTime".to_owned(), since);
        for (name, text) in [("reason", one.reason), ("message", one.message.as_str())] {
            condition.remove(name);
            if !text.is_empty() {
                condition.insert(name.to_owned(), text.into());
            }
        }
        match place.and_then(|place| all.get_mut(place)) {
            Some(known) => *known = condition.into(),
            None => all.push(condition.into()),
        }
    }
    all.into()
}

/// The conditions without the one of this type.
pub(super) fn without_condition(mut conditions: Value, kind: &str) -> Value {
    if let Some(all) = conditions.as_array_mut() {
        all.retain(|one| one.get("type").and_then(Value::as_str) != Some(kind));
    }
    conditions
}

/// The condition of this type.
pub(super) fn condition<'o>(object: &'o Object, kind: &str) -> Option<&'o Value> {
    let mut conditions = object.items(&["status", "conditions"]).iter();
    // linear: an object has a few conditions.
    conditions.find(|one| one.get("type").and_then(Value::as_str) == Some(kind))
}

/// Whether the condition of this type is True.
pub(super) fn holds(object: &Object, kind: &str) -> bool {
    condition(object, kind).and_then(|one| one.get("status")) == Some(&"True".into())
}

/// The number at a path, 0 if it is absent.
pub(super) fn number(object: &Object, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or_default()
}

/// A time of an object.
pub(super) fn time(value: Option<&Value>) -> Option<Timestamp> {
    value?.as_str()?.parse().ok()
}

/// Whether a pod has ended.
pub(super) fn is_finished(pod: &Object) -> bool {
    matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")
}

/// Whether a selector of labels selects an object. An absent one selects nothing.
pub(super) fn selects(selector: Option<&Value>, object: &Object) -> bool {
    let Some(selector) = selector else {
        return false;
    };
    let text = selectors::requirements_text(&Field::named("selector", Some(selector)));
    let selection = Selection::of_labels(&text);
    selection.is_ok_and(|selection| selection.selects_labels(object.at(&["metadata", "labels"])))
}

/// The reference to an owner that controls an object.
pub(super) fn owner(kind: Kind, owner: &Object) -> Value {
    let (kind, version) = kind.names();
    json!([{
        "apiVersion": version, "kind": kind, "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// A pod of a template, controlled by an owner, without a name.
pub(super) fn pod_of(kind: Kind, controller: &Object) -> Object {
    let template = controller.at(&["spec", "template"]);
    let part = |name: &str| template.and_then(|template| template.get(name)).cloned();
    let mut pod = Object::default();
    pod.set_type("Pod", "v1");
    for name in ["labels", "annotations", "finalizers"] {
        if let Some(value) = part("metadata").and_then(|metadata| metadata.get(name).cloned()) {
            put(&mut pod, &["metadata", name], value);
        }
    }
    pod.set_meta("namespace", controller.namespace());
    put(
        &mut pod,
        &["metadata", "ownerReferences"],
        owner(kind, controller),
    );
    let spec = part("spec").unwrap_or_else(|| Map::new().into());
    put(&mut pod, &["spec"], spec);
    pod
}

/// A short text of the content of a template, of characters without vowels.
pub(super) fn template_hash(template: Option<&Value>, collisions: i64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = format!("{}{collisions}", template.unwrap_or(&Value::Null));
    // FNV-1a.
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let letters = (0..10).map(|_| {
        let letter = LETTERS.get((hash % LETTERS.len() as u64) as usize);
        hash /= LETTERS.len() as u64;
        char::from(letter.copied().unwrap_or(b'x'))
    });
    letters.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An object of JSON.
    pub(crate) fn object(value: &Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    #[test]
    fn a_status_that_is_there_is_not_written() {
        let known = object(&json!({"metadata": {"name": "a"}, "status": {"replicas": 2}}));
        let step = |status: Value| Step::status(Kind::Job, &known, status);
        assert_eq!(step(json!({"replicas": 2, "ready": 0, "items": []})), None);
        assert!(step(json!({"replicas": 3})).is_some());
    }

    #[test]
    fn the_time_of_a_condition_stays_while_its_status_does() {
        let known = object(&json!({"status": {"conditions": [
            {"type": "A", "status": "True", "lastTransitionTime": "t"},
            {"type": "B", "status": "True", "lastTransitionTime": "t"},
        ]}}));
        let set = [
            Condition::new("A", true, "Why"),
            Condition::new("B", false, ""),
        ];
        let all = with_conditions(&known, &set, Timestamp::UNIX_EPOCH);
        assert_eq!(all[0]["lastTransitionTime"], "t");
        assert_eq!(all[0]["reason"], "Why");
        assert_eq!(all[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn equal_templates_have_equal_hashes() {
        let (one, two) = (json!({"a": 1}), json!({"a": 2}));
        assert_eq!(template_hash(Some(&one), 0), template_hash(Some(&one), 0));
        assert_ne!(template_hash(Some(&one), 0), template_hash(Some(&two), 0));
        assert_ne!(template_hash(Some(&one), 0), template_hash(Some(&one), 1));
    }

    #[test]
    fn selectors_select_by_labels() {
        let pod = object(&json!({"metadata": {"labels": {"app": "a"}}}));
        assert!(selects(Some(&json!({"matchLabels": {"app": "a"}})), &pod));
        assert!(!selects(Some(&json!({"matchLabels": {"app": "b"}})), &pod));
        assert!(!selects(None, &pod));
    }
}
