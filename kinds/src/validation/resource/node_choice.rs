//! Validation of the nodes that can use devices: those of a slice, or of one device.

use api::error_list::ErrorList;
use api::field::Field;
use serde_json::Value;

use crate::types::internal::internal_list_json;
use crate::validation::pods::scheduling::validate_node_selector;
use crate::validation::report;

const UNSET_OR_TRUE: &str = "must be either unset or set to true";

/// Formats names in backquotes, in braces.
pub(super) fn names_text(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{{{}}}", quoted.join(", "))
}

/// Validates the nodes of devices. Returns the members that specify them.
pub(super) fn validate_node_choice<'n>(
    choice: &Field<'_>,
    names: &[&'n str],
    errors: &mut ErrorList,
) -> Vec<&'n str> {
    let mut found = Vec::new();
    for name in names {
        let field = choice.member(name);
        let Some(value) = field.value() else {
            continue;
        };
        match value {
            Value::Bool(false) => {
                errors.push(field.invalid(UNSET_OR_TRUE));
                continue;
            }
            Value::String(text) if text.is_empty() => {
                let detail = "must be either unset or set to a non-empty string";
                errors.push(field.invalid(detail));
                continue;
            }
            Value::String(text) => report(&field, api::names::dns_subdomain(text), errors),
            Value::Object(_) => validate_selector(&field, errors),
            _ => {}
        }
        found.push(*name);
    }
    found
}

/// Validates a node selector, which must have exactly one term.
fn validate_selector(selector: &Field<'_>, errors: &mut ErrorList) {
    validate_node_selector(selector, errors);
    let terms = selector.member("nodeSelectorTerms");
    if terms.len() != 1 {
        let error = terms.invalid("must have exactly one node selector term");
        errors.push(error.showing_json(|| match terms.is_set() {
            true => internal_list_json("core.v1.NodeSelectorTerm", terms.list()),
            false => "null".to_owned(),
        }));
    }
}
