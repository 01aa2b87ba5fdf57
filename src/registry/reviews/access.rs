//! Reviews of whether a user may do something (API-292).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::{Map, Value};

use super::{Review, texts};
use crate::api::error_list::ErrorList;
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::auth::{Attributes, Authorizer, Decision};
use crate::kinds::validation::authorization::{
    validate_local_subject_access_review, validate_self_subject_access_review,
    validate_subject_access_review,
};
use crate::registry::rest::Answering;

/// The user whom a review is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The user in the body.
    Named,
    /// The user in the body, in the namespace of the path.
    NamedInNamespace,
    /// The requesting user.
    Asking,
}

/// Reviews whether a user may do something.
pub(super) struct AccessReview {
    pub(super) kind: Arc<ResourceDefinition>,
    pub(super) authorizer: Arc<dyn Authorizer>,
    pub(super) subject: Subject,
}

impl AccessReview {
    fn checked(&self, review: &Object) -> Result<(), Box<Status>> {
        let errors = ErrorList::of(|errors| match self.subject {
            Subject::Named => validate_subject_access_review(review, errors),
            Subject::NamedInNamespace => validate_local_subject_access_review(review, errors),
            Subject::Asking => validate_self_subject_access_review(review, errors),
        });
        if !errors.is_empty() {
            // Kubernetes names the group instead of the kind here.
            let refused = Status::invalid(&self.kind.group, "", "", errors.kept());
            return Err(Box::new(refused));
        }
        Ok(())
    }

    async fn answered(&self, review: &mut Object, asking: &UserInfo) -> Result<(), Box<Status>> {
        let none = Map::new();
        let spec = review.0.get("spec").and_then(Value::as_object);
        let spec = spec.unwrap_or(&none);
        let named;
        let user = match self.subject {
            Subject::Asking => asking,
            Subject::Named | Subject::NamedInNamespace => {
                named = named_user(spec);
                &named
            }
        };
        let selectors = ["fieldSelector", "labelSelector"].map(|name| selector_text(spec, name));
        let attributes = attributes(spec, user, &selectors);
        let answer = self.authorizer.authorize(&attributes).await;
        let mut status = Map::new();
        status.insert("allowed".to_owned(), answer.is_allowed().into());
        if answer.decision == Decision::Deny {
            status.insert("denied".to_owned(), true.into());
        }
        if !answer.reason.is_empty() {
            status.insert("reason".to_owned(), answer.reason.as_str().into());
        }
        let mut errors: Vec<String> = answer.error.into_iter().collect();
        errors.extend(ignored_selectors(spec));
        if !errors.is_empty() {
            status.insert("evaluationError".to_owned(), errors.join("; ").into());
        }
        review.0.insert("status".to_owned(), status.into());
        Ok(())
    }
}

impl Review for AccessReview {
    fn check(&self, review: &Object) -> Result<(), Box<Status>> {
        self.checked(review)
    }

    fn answer<'a>(&'a self, review: &'a mut Object, asking: &'a UserInfo) -> Answering<'a, ()> {
        self.answered(review, asking).boxed()
    }
}

fn text<'s>(of: Option<&'s Value>, name: &str) -> &'s str {
    let value = of.and_then(|of| of.get(name));
    value.and_then(Value::as_str).unwrap_or_default()
}

/// Returns the user whom a review names.
fn named_user(spec: &Map<String, Value>) -> UserInfo {
    let text = |name| {
        let value = spec.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let extra = spec.get("extra").and_then(Value::as_object);
    let extra = extra.into_iter().flatten();
    let extra: BTreeMap<String, Vec<String>> = extra
        .map(|(key, values)| (key.clone(), texts(Some(values))))
        .collect();
    UserInfo {
        name: text("user"),
        uid: text("uid"),
        groups: texts(spec.get("groups")),
        extra,
    }
}

/// Returns the selector of a review as a text. Requirements that can't be read are left out, which
/// only widens the question (AC-32).
fn selector_text(spec: &Map<String, Value>, name: &str) -> String {
    let selector = spec.get("resourceAttributes").and_then(|of| of.get(name));
    let raw = text(selector, "rawSelector");
    if !raw.is_empty() {
        return raw.to_owned();
    }
    let requirements = selector.and_then(|selector| selector.get("requirements"));
    let requirements = requirements.and_then(Value::as_array).into_iter().flatten();
    let texts = requirements.filter_map(|requirement| {
        let key = text(Some(requirement), "key");
        let values = texts(requirement.get("values"));
        match (name, text(Some(requirement), "operator"), values.as_slice()) {
            ("fieldSelector", "In", [value]) => Some(format!("{key}={}", escaped(value))),
            ("fieldSelector", "NotIn", [value]) => Some(format!("{key}!={}", escaped(value))),
            ("labelSelector", "In", values) => Some(format!("{key} in ({})", values.join(","))),
            ("labelSelector", "NotIn", values) => {
                Some(format!("{key} notin ({})", values.join(",")))
            }
            ("labelSelector", "Exists", _) => Some(key.to_owned()),
            ("labelSelector", "DoesNotExist", _) => Some(format!("!{key}")),
            _ => None,
        }
    });
    texts.collect::<Vec<String>>().join(",")
}

/// Escapes a value of a field selector.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace(',', "\\,");
    value.replace('=', "\\=")
}

/// Returns the attributes that a review asks about, with its selectors of fields and of labels.
fn attributes<'s>(
    spec: &'s Map<String, Value>,
    user: &'s UserInfo,
    selectors: &'s [String; 2],
) -> Attributes<'s> {
    let resource = spec.get("resourceAttributes").filter(|of| !of.is_null());
    let other = spec.get("nonResourceAttributes");
    let [fields, labels] = selectors;
    Attributes {
        user,
        verb: text(resource.or(other), "verb"),
        is_resource_request: resource.is_some(),
        path: text(other, "path"),
        api_group: text(resource, "group"),
        api_version: text(resource, "version"),
        resource: text(resource, "resource"),
        subresource: text(resource, "subresource"),
        namespace: text(resource, "namespace"),
        name: text(resource, "name"),
        field_selector: fields,
        label_selector: labels,
    }
}

/// Returns a text for each selector that cannot be parsed, in the words of Kubernetes.
fn ignored_selectors(spec: &Map<String, Value>) -> Vec<String> {
    let mut ignored = Vec::new();
    for name in ["fieldSelector", "labelSelector"] {
        let selector = spec.get("resourceAttributes").and_then(|of| of.get(name));
        let extent = match selector {
            Some(selector) => unread_extent(name, selector),
            None => None,
        };
        let told = extent
            .map(|extent| format!("spec.resourceAttributes.{name} {extent} due to parse error"));
        ignored.extend(told);
    }
    ignored
}

/// Returns how much of a selector cannot be parsed, or `None` if all of it can.
fn unread_extent(name: &str, selector: &Value) -> Option<&'static str> {
    let raw = text(Some(selector), "rawSelector");
    if !raw.is_empty() {
        let is_read = match name {
            "fieldSelector" => Selection::reads_fields(raw),
            _ => Selection::reads_labels(raw),
        };
        return (!is_read).then_some("ignored");
    }
    let requirements = selector.get("requirements").and_then(Value::as_array);
    let requirements = requirements.map(Vec::as_slice).unwrap_or_default();
    let is_read = |requirement: &&Value| {
        let count = texts(requirement.get("values")).len();
        match (name, text(Some(requirement), "operator")) {
            ("fieldSelector", "In" | "NotIn") => count == 1,
            ("labelSelector", "In" | "NotIn" | "Exists" | "DoesNotExist") => true,
            _ => false,
        }
    };
    match requirements.iter().filter(is_read).count() {
        read if read == requirements.len() => None,
        0 => Some("ignored"),
        _ => Some("partially ignored"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_of_reviews_are_selectors_of_requests_ac_71() {
        let of = |name: &str, selector: Value| {
            let spec = json!({ "resourceAttributes": { name: selector } });
            selector_text(spec.as_object().unwrap(), name)
        };
        let requirement = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let fields = |list: Value| of("fieldSelector", json!({ "requirements": list }));
        let labels = |list: Value| of("labelSelector", json!({ "requirements": list }));
        assert_eq!(of("fieldSelector", json!({ "rawSelector": "a=b" })), "a=b");
        let node = requirement("spec.nodeName", "In", &["n"]);
        let other = requirement("metadata.name", "NotIn", &["a,b"]);
        let unread = requirement("x", "Exists", &[]);
        assert_eq!(
            fields(json!([node, other, unread])),
            "spec.nodeName=n,metadata.name!=a\\,b"
        );
        let several = requirement("a", "In", &["1", "2"]);
        let exists = requirement("b", "Exists", &[]);
        let absent = requirement("c", "DoesNotExist", &[]);
        assert_eq!(labels(json!([several, exists, absent])), "a in (1,2),b,!c");
    }
}
