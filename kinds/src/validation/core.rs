//! Validation of ConfigMaps, Secrets, Namespaces and Bindings (http.md 6.2).

use api::field::Field;
use api::field_error::FieldError;
use api::names;
use api::object::Object;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::text_formats::config_key;
use api::error_list::ErrorList;
use api::go_json::object_error;

/// The limit of all data of a ConfigMap or a Secret, in bytes.
const MAX_DATA: usize = 1024 * 1024;
const UNCHANGEABLE: &str = "field is immutable when `immutable` is set";
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// Returns the length of the decoded bytes of a Base64 text.
fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=');
    (base64.len() / 4 * 3).saturating_sub(padding.count())
}

fn validate_key(entry: &Field<'_>, key: &str, errors: &mut ErrorList) {
    let wrong = config_key(key).into_iter();
    errors.extend(wrong.map(|message| entry.invalid_value(key, message)));
}

/// Validates a ConfigMap.
pub fn validate_configmap(object: &Object, errors: &mut ErrorList) {
    let mut size = 0;
    let binary = Field::of(object, "binaryData");
    for (key, entry) in Field::of(object, "data").entries() {
        validate_key(&entry, key, errors);
        if binary.key(key).is_set() {
            let why = "duplicate of key present in binaryData";
            errors.push(entry.invalid_value(key, why));
        }
        size += entry.text().len();
    }
    for (key, entry) in binary.entries() {
        validate_key(&entry, key, errors);
        size += decoded_len(entry.text());
    }
    if size > MAX_DATA {
        errors.push(FieldError::too_long("[]", MAX_DATA));
    }
}

/// Validates an update of a ConfigMap.
pub fn validate_configmap_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    changes_of_immutable(object, stored, &["data", "binaryData"], errors);
    validate_configmap(object, errors);
}

/// Validates the updates of an immutable object: neither the mark nor these members may change.
fn changes_of_immutable(
    object: &Object,
    stored: &Object,
    members: &[&str],
    errors: &mut ErrorList,
) {
    let is_marked = |object: &Object| object.at(&["immutable"]) == Some(&Value::Bool(true));
    if !is_marked(stored) {
        return;
    }
    let unmarked = (!is_marked(object)).then_some("immutable");
    let changed = members
        .iter()
        .copied()
        .filter(|name| object.0.get(*name) != stored.0.get(*name));
    let forbidden = unmarked.into_iter().chain(changed);
    errors.extend(forbidden.map(|name| FieldError::forbidden(name, UNCHANGEABLE)));
}

/// Validates a Secret, whose type decides which keys it must have.
pub fn validate_secret(object: &Object, errors: &mut ErrorList) {
    let data = Field::of(object, "data");
    let mut size = 0;
    for (key, entry) in data.entries() {
        validate_key(&entry, key, errors);
        size += decoded_len(entry.text());
    }
    if size > MAX_DATA {
        errors.push(data.too_long(MAX_DATA));
    }
    match object.text(&["type"]) {
        "kubernetes.io/service-account-token" => {
            let metadata = Field::of(object, "metadata");
            let annotations = metadata.member("annotations");
            let name = annotations.key(ACCOUNT_NAME);
            if name.text().is_empty() {
                errors.push(name.required(""));
            }
        }
        "kubernetes.io/dockercfg" => validate_document(&data.key(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => {
            validate_document(&data.key(".dockerconfigjson"), errors);
        }
        "kubernetes.io/basic-auth" => {
            let parts = [data.key("username"), data.key("password")];
            if !parts.iter().any(Field::is_set) {
                errors.extend(parts.iter().map(|part| part.required("")));
            }
        }
        "kubernetes.io/ssh-auth" => {
            let key = data.key("ssh-privatekey");
            if key.text().is_empty() {
                errors.push(key.required(""));
            }
        }
        "kubernetes.io/tls" => {
            let parts = [data.key("tls.crt"), data.key("tls.key")];
            let missing = parts.iter().filter(|part| !part.is_set());
            errors.extend(missing.map(|part| part.required("")));
        }
        _ => {}
    }
}

/// Validates that an entry is a JSON object.
fn validate_document(entry: &Field<'_>, errors: &mut ErrorList) {
    if !entry.is_set() {
        errors.push(entry.required(""));
        return;
    }
    let document = STANDARD.decode(entry.text()).unwrap_or_default();
    if let Some(wrong) = object_error(&document) {
        errors.push(entry.invalid_value("<secret contents redacted>", wrong));
    }
}

/// Validates an update of a Secret.
pub fn validate_secret_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let kind = Field::of(object, "type");
    if kind.text() != stored.text(&["type"]) {
        errors.push(kind.invalid_value(kind.text(), "field is immutable"));
    }
    changes_of_immutable(object, stored, &["data"], errors);
    validate_secret(object, errors);
}

/// Validates a new Namespace.
pub fn validate_namespace(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let finalizers = spec.member("finalizers");
    for finalizer in finalizers.items() {
        validate_finalizer(&finalizers, finalizer.text(), errors);
    }
}

/// Validates that the phase of a Namespace matches its deletion timestamp (http.md 6.2).
pub fn validate_namespace_status_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    let phase = object.text(&["status", "phase"]);
    let (expected, why) = match stored.is_being_deleted() {
        false => (
            "Active",
            "may only be 'Active' if `deletionTimestamp` is empty",
        ),
        true => (
            "Terminating",
            "may only be 'Terminating' if `deletionTimestamp` is not empty",
        ),
    };
    if phase != expected {
        errors.push(FieldError::invalid("status.Phase", phase, why));
    }
}

/// Validates an update of the finalizers of a Namespace.
pub fn validate_namespace_finalize_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    let spec = Field::of(object, "spec");
    for finalizer in spec.member("finalizers").items() {
        validate_finalizer(&finalizer, finalizer.text(), errors);
    }
}

fn validate_finalizer(field: &Field<'_>, name: &str, errors: &mut ErrorList) {
    let wrong = names::qualified_name(name).into_iter();
    errors.extend(wrong.map(|message| field.invalid_value(name, message)));
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(field.invalid_value(name, why));
    }
}

/// Validates the Binding of a pod.
pub fn validate_binding(object: &Object, errors: &mut ErrorList) {
    let target = Field::of(object, "target");
    let kind = target.member("kind");
    if !matches!(kind.text(), "" | "Node") {
        errors.push(kind.not_supported(&["Node", "<empty>"]));
    }
    let name = target.member("name");
    if name.text().is_empty() {
        errors.push(name.required(""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::core::secret;
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        check(
            include_str!("../../recorded/core.json"),
            |path| match path.rsplit('/').next() {
                Some("configmaps") => Functions {
                    defaults: None,
                    create: validate_configmap,
                    update: Some(validate_configmap_update),
                },
                Some("secrets") => Functions {
                    defaults: Some(secret),
                    create: validate_secret,
                    update: Some(validate_secret_update),
                },
                Some("namespaces") => Functions {
                    defaults: None,
                    create: validate_namespace,
                    update: None,
                },
                _ => Functions {
                    defaults: None,
                    create: |_, _| {},
                    update: None,
                },
            },
        );
    }

    #[test]
    fn data_has_a_limit() {
        assert_eq!(decoded_len(""), 0);
        assert_eq!(decoded_len("YQ=="), 1);
        assert_eq!(decoded_len("YWI="), 2);
        assert_eq!(decoded_len("YWJj"), 3);
        let mut object = Object::default();
        let large = "a".repeat(MAX_DATA);
        object
            .0
            .insert("data".to_owned(), serde_json::json!({"a": large, "b": "x"}));
        let errors = ErrorList::of(|errors| validate_configmap(&object, errors));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["[]: Too long: may not be more than 1048576 bytes"]);
    }
}
