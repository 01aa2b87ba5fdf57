//! Label selectors: validation, matching and formatting.

use std::borrow::Cow;

use api::field::{Field, LazyError};
use api::names;
use api::object::Object;
use serde_json::Value;

use crate::types::internal::invalid_struct;
use api::error_list::ErrorList;

/// Validates the key of a label (API-204).
pub fn validate_label_name(key: &str, field: &Field<'_>, errors: &mut ErrorList) {
    let wrong = names::qualified_name(key).into_iter();
    errors.extend(wrong.map(|message| field.invalid_value(key, message)));
}

/// Validates a map of labels. Errors have the path of the map.
pub fn validate_labels(labels: &Field<'_>, errors: &mut ErrorList) {
    for (key, value) in labels.entries() {
        validate_label_name(key, labels, errors);
        let wrong = names::label_value(value.text()).into_iter();
        errors.extend(wrong.map(|message| labels.invalid_value(value.text(), message)));
    }
}

/// Validates a label selector, if any. With `allows_invalid_values`, values need not be valid
/// labels, because the stored selector has such values.
pub fn validate_label_selector(
    selector: &Field<'_>,
    allows_invalid_values: bool,
    errors: &mut ErrorList,
) {
    validate_labels(&selector.member("matchLabels"), errors);
    for requirement in selector.member("matchExpressions").items() {
        validate_operator(&requirement, false, errors);
        validate_key(&requirement, errors);
        if !allows_invalid_values {
            validate_values(&requirement, errors);
        }
    }
}

/// Validates a requirement of an access review. Unknown operators are valid, since newer clients
/// may send them. Keys and values of field requirements are not validated.
pub fn validate_requirement_of_review(
    requirement: &Field<'_>,
    is_of_labels: bool,
    errors: &mut ErrorList,
) {
    validate_operator(requirement, true, errors);
    if is_of_labels {
        validate_key(requirement, errors);
        validate_values(requirement, errors);
    }
}

fn validate_operator(requirement: &Field<'_>, allows_unknown: bool, errors: &mut ErrorList) {
    let operator = requirement.member("operator");
    let values = requirement.member("values");
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"))
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        ),
        "Exists" | "DoesNotExist" => {}
        _ if allows_unknown => {}
        other => errors.push(operator.invalid_value(other, "not a valid selector operator")),
    }
}

fn validate_key(requirement: &Field<'_>, errors: &mut ErrorList) {
    let key = requirement.member("key");
    validate_label_name(key.text(), &key, errors);
}

fn validate_values(requirement: &Field<'_>, errors: &mut ErrorList) {
    for value in requirement.member("values").items() {
        let wrong = names::label_value(value.text()).into_iter();
        errors.extend(wrong.map(|message| value.invalid(message)));
    }
}

/// Reports whether a selector, if any, has an invalid label value.
pub fn has_invalid_values(selector: &Field<'_>) -> bool {
    let is_invalid = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        !names::label_value(text).is_empty()
    };
    selector
        .member("matchExpressions")
        .items()
        .any(|requirement| requirement.member("values").list().iter().any(is_invalid))
}

/// Reports whether a selector has neither labels nor expressions.
pub fn is_empty(selector: &Field<'_>) -> bool {
    selector.member("matchLabels").is_empty() && selector.member("matchExpressions").is_empty()
}

/// Reports whether a selector, if any, can be evaluated: its keys, operators and values are valid.
pub fn is_evaluable(selector: &Field<'_>) -> bool {
    let labels = selector.member("matchLabels");
    let are_labels = labels.entries().all(|(key, value)| {
        names::qualified_name(key).is_empty() && names::label_value(value.text()).is_empty()
    });
    are_labels
        && selector
            .member("matchExpressions")
            .items()
            .all(|requirement| {
                let values = requirement.member("values");
                let is_operator = match requirement.member("operator").text() {
                    "In" | "NotIn" => !values.is_empty(),
                    "Exists" | "DoesNotExist" => values.is_empty(),
                    _ => false,
                };
                is_operator
                    && names::qualified_name(requirement.member("key").text()).is_empty()
                    && values
                        .items()
                        .all(|value| names::label_value(value.text()).is_empty())
            })
}

/// Reports whether a selector selects these labels. An absent selector selects nothing, an empty
/// one everything. The selector must be evaluable.
pub fn selects(selector: &Field<'_>, labels: &Field<'_>) -> bool {
    let wanted = selector.member("matchLabels");
    let are_equal = wanted.entries().all(|(key, value)| {
        let label = labels.key(key);
        label.is_set() && label.text() == value.text()
    });
    selector.is_set()
        && are_equal
        && selector
            .member("matchExpressions")
            .items()
            .all(|requirement| {
                let label = labels.key(requirement.member("key").text());
                let values = requirement.member("values");
                let is_one = || {
                    values
                        .list()
                        .iter()
                        // linear: the values of one requirement are searched once.
                        .any(|value| value.as_str() == Some(label.text()))
                };
                match requirement.member("operator").text() {
                    "In" => label.is_set() && is_one(),
                    "NotIn" => !label.is_set() || !is_one(),
                    "Exists" => label.is_set(),
                    "DoesNotExist" => !label.is_set(),
                    _ => false,
                }
            })
}

/// Reports whether a map of labels, used as a selector, selects these labels. An empty map selects
/// everything.
pub fn labels_select(wanted: &Field<'_>, labels: &Field<'_>) -> bool {
    wanted.entries().all(|(key, value)| {
        let label = labels.key(key);
        label.is_set() && label.text() == value.text()
    })
}

/// Formats a selector as Tables and Scales show it: `a=b,c in (d,e),!f`, `<none>` without
/// requirements, `<error>` if it cannot be evaluated.
pub fn format_label_selector(selector: &Field<'_>) -> String {
    if !is_evaluable(selector) {
        return "<error>".to_owned();
    }
    match requirements_text(selector) {
        text if text.is_empty() => "<none>".to_owned(),
        text => text,
    }
}

/// Formats the requirements of the selector in an object's spec.
pub fn requirements_of_spec(object: &Object) -> String {
    requirements_text(&Field::of(object, "spec").member("selector"))
}

/// Formats the selector of an object's spec that is a map of labels: `a=b,c=d`, sorted.
pub fn labels_of_spec(object: &Object) -> String {
    let spec = Field::of(object, "spec");
    let selector = spec.member("selector");
    let labels: Vec<String> = selector
        .entries()
        .map(|(key, value)| format!("{key}={}", value.text()))
        .collect();
    labels.join(",")
}

/// Formats the requirements of a selector, sorted by key: `a=b,c in (d,e),!f`.
pub fn requirements_text(selector: &Field<'_>) -> String {
    let labels = selector.member("matchLabels");
    let expressions = selector.member("matchExpressions");
    let mut texts: Vec<(&str, Cow<'_, str>)> = labels
        .entries()
        .map(|(key, value)| (key, format!("{key}={}", value.text()).into()))
        .collect();
    texts.extend(expressions.list().iter().map(requirement_text));
    texts.sort_by_key(|(key, _)| *key);
    let texts: Vec<&str> = texts.iter().map(|(_, text)| text.as_ref()).collect();
    texts.join(",")
}

fn requirement_text(requirement: &Value) -> (&str, Cow<'_, str>) {
    let text = |name| {
        requirement
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let key = text("key");
    let set = || {
        let values = requirement.get("values").and_then(Value::as_array);
        let mut values: Vec<&str> = values
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        values.dedup();
        values.join(",")
    };
    let shown = match text("operator") {
        "In" => format!("{key} in ({})", set()).into(),
        "NotIn" => format!("{key} notin ({})", set()).into(),
        "DoesNotExist" => format!("!{key}").into(),
        _ => key.into(),
    };
    (key, shown)
}

/// Returns an error that shows the whole selector.
pub fn invalid_selector<'f>(selector: &Field<'f>, detail: &'f str) -> LazyError<'f> {
    invalid_struct(selector, "meta.v1.LabelSelector", detail)
}

#[cfg(test)]
mod tests {
    use api::error_list::Report;
    use serde_json::json;

    use super::*;

    /// The errors of kube-apiserver 1.36 for a selector that violates every rule.
    #[test]
    fn faults_of_selectors_are_those_of_kubernetes() {
        let selector = json!({
            "matchLabels": {"ok": "c d"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "x", "operator": "Exists", "values": ["a"]},
                {"key": "-", "operator": "Foo", "values": ["a b"]},
                {"key": "x", "operator": ""},
            ],
        });
        let selector = Field::named("s", Some(&selector));
        let mut errors = ErrorList::new();
        validate_label_selector(&selector, false, &mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let begins = [
            "s.matchLabels: Invalid value: \"c d\": a valid label must",
            "s.matchExpressions[0].values: Required value: must be specified when `operator` is \
             'In' or 'NotIn'",
            "s.matchExpressions[1].values: Forbidden: may not be specified when `operator` is \
             'Exists' or 'DoesNotExist'",
            "s.matchExpressions[2].operator: Invalid value: \"Foo\": not a valid selector operator",
            "s.matchExpressions[2].key: Invalid value: \"-\": name part must consist",
            "s.matchExpressions[2].values[0]: Invalid value: \"a b\": a valid label must",
            "s.matchExpressions[3].operator: Invalid value: \"\": not a valid selector operator",
        ];
        assert_eq!(texts.len(), begins.len(), "{texts:#?}");
        for (text, begin) in texts.iter().zip(begins) {
            assert!(text.starts_with(begin), "{text}");
        }
        assert!(has_invalid_values(&selector));
        let before = errors.reported();
        validate_label_selector(&selector, true, &mut errors);
        assert_eq!(errors.reported() - before, before - 1);
        assert_eq!(format_label_selector(&selector), "<error>");
        let error = invalid_selector(&selector, "wrong").written().to_string();
        assert_eq!(
            error,
            "s: Invalid value: {\"matchLabels\":{\"ok\":\"c d\"},\"matchExpressions\":[\
             {\"key\":\"a\",\"operator\":\"In\"},\
             {\"key\":\"x\",\"operator\":\"Exists\",\"values\":[\"a\"]},\
             {\"key\":\"-\",\"operator\":\"Foo\",\"values\":[\"a b\"]},\
             {\"key\":\"x\",\"operator\":\"\"}]}: wrong"
        );
    }

    #[test]
    fn selectors_select_and_are_printed_as_in_go() {
        let labels = json!({"app": "web", "tier": "front"});
        let labels = Field::named("labels", Some(&labels));
        let cases = [
            (json!(null), false, "<none>"),
            (json!({}), true, "<none>"),
            (
                json!({"matchLabels": {"tier": "front", "app": "web"}}),
                true,
                "app=web,tier=front",
            ),
            (json!({"matchLabels": {"app": ""}}), false, "app="),
            (
                json!({
                    "matchLabels": {"tier": "front"},
                    "matchExpressions": [
                        {"key": "x", "operator": "DoesNotExist"},
                        {"key": "app", "operator": "In", "values": ["web", "db"]},
                    ],
                }),
                true,
                "app in (db,web),tier=front,!x",
            ),
            (
                json!({"matchExpressions": [
                    {"key": "app", "operator": "NotIn", "values": ["web"]},
                    {"key": "app", "operator": "Exists"},
                ]}),
                false,
                "app notin (web),app",
            ),
        ];
        for (selector, is_selected, text) in &cases {
            let selector = Field::named("s", Some(selector));
            assert_eq!(selects(&selector, &labels), *is_selected, "{text}");
            assert_eq!(format_label_selector(&selector), *text);
        }
    }
}
