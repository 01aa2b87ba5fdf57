//! The conditions of CustomResourceDefinitions (crd.md 3).

use api::object::{Object, put, whole_seconds};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::validation::apiextensions::{Approval, approval, structural_violations};

const CONDITIONS: &[&str] = &["status", "conditions"];

/// A condition of a definition, without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `Established`.
    pub kind: &'static str,
    /// `True` or `False`.
    pub status: bool,
    /// The reason, one word.
    pub reason: String,
    /// The text.
    pub message: String,
}

impl Condition {
    /// Returns a condition.
    pub fn new(
        kind: &'static str,
        status: bool,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Condition {
        Condition {
            kind,
            status,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Returns whether a condition in JSON says the same, whenever it began.
    pub fn is_said_by(&self, condition: &Value) -> bool {
        let text = |name: &str| {
            condition
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        text("type") == self.kind
            && text("status") == self.status_text()
            && text("reason") == self.reason
            && text("message") == self.message
    }

    fn status_text(&self) -> &'static str {
        match self.status {
            true => "True",
            false => "False",
        }
    }
}

/// Adds a condition to those of a definition, or changes the one of its type. Its time changes with
/// its status only.
pub fn set_condition(definition: &mut Object, condition: &Condition, now: Timestamp) {
    let conditions = conditions_of(definition);
    let mut conditions = conditions.unwrap_or_default();
    let is_this = |known: &&mut Value| known.get("type") == Some(&json!(condition.kind));
    // linear: a definition has few conditions.
    let known = conditions.iter_mut().find(is_this);
    let mut changed = match &known {
        Some(Value::Object(members)) => members.clone(),
        _ => Map::from_iter([("type".to_owned(), condition.kind.into())]),
    };
    let has_time = changed
        .get("lastTransitionTime")
        .is_some_and(Value::is_string);
    if !has_time || changed.get("status") != Some(&json!(condition.status_text())) {
        changed.insert("lastTransitionTime".to_owned(), whole_seconds(now).into());
    }
    changed.insert("status".to_owned(), condition.status_text().into());
    changed.insert("reason".to_owned(), condition.reason.clone().into());
    changed.insert("message".to_owned(), condition.message.clone().into());
    match known {
        Some(known) => *known = changed.into(),
        None => conditions.push(changed.into()),
    }
    put(definition, CONDITIONS, conditions.into());
}

/// Removes the condition of a type.
pub fn remove_condition(definition: &mut Object, kind: &str) {
    if let Some(mut conditions) = conditions_of(definition) {
        conditions.retain(|condition| condition.get("type") != Some(&json!(kind)));
        put(definition, CONDITIONS, conditions.into());
    }
}

fn conditions_of(definition: &Object) -> Option<Vec<Value>> {
    definition.at(CONDITIONS)?.as_array().cloned()
}

/// Returns the condition about the approval of a definition in a group of Kubernetes (CRD-67), or
/// `None` for other groups.
pub fn approval_condition(definition: &Object) -> Option<Condition> {
    let (state, message) = approval(definition)?;
    let (status, reason) = match state {
        Approval::Missing => (false, "MissingAnnotation"),
        Approval::Invalid => (false, "InvalidAnnotation"),
        Approval::Given => (true, "ApprovedAnnotation"),
        Approval::Bypassed => (false, "UnapprovedAnnotation"),
    };
    let kind = "KubernetesAPIApprovalPolicyConformant";
    Some(Condition::new(kind, status, reason, message))
}

/// Returns the condition about schemas that are not structural (CRD-47), if any is not.
pub fn structural_condition(definition: &Object) -> Option<Condition> {
    let message = structural_violations(definition)?;
    Some(Condition::new(
        "NonStructuralSchema",
        true,
        "Violations",
        message,
    ))
}
