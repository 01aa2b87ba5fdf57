//! JSON paths to fields of custom resources: `.spec.replicas` (CRD-28, CRD-48).

use std::collections::HashSet;

use api::field::Field;
use api::field_error::{FieldError, FieldErrorKind};
use serde_json::Value;

use api::error_list::ErrorList;

/// The most selectable fields of a version.
pub const MAX_SELECTABLE: usize = 8;

/// Returns the schema of the field that a path names.
///
/// # Errors
/// Returns kube-apiserver's message if the path names no field.
pub fn find<'s>(path: &str, schema: &'s Value, allows_brackets: bool) -> Result<&'s Value, String> {
    const END: &str = "unexpected end of JSON path";
    const NO_FIELD: &str = "does not refer to a valid field";
    let mut found = schema;
    let mut rest = path;
    while let Some(token) = next_token(&mut rest) {
        let name = match token {
            "[" if !allows_brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = next_token(&mut rest).ok_or(END)?;
                let inside = quoted.strip_prefix('\'');
                let inside = inside.and_then(|inside| inside.strip_suffix('\''));
                let inside = inside
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                match next_token(&mut rest) {
                    Some("]") => {}
                    Some(other) => return Err(format!("expected ] but got {other}")),
                    None => return Err(END.to_owned()),
                }
                inside.replace("\\'", "'")
            }
            "." => next_token(&mut rest).ok_or(END)?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let properties = found.get("properties").filter(|known| known.is_object());
        let next = match properties {
            Some(properties) => properties.get(&name),
            None => found.get("additionalProperties"),
        };
        found = next.filter(|next| next.is_object()).ok_or(NO_FIELD)?;
    }
    Ok(found)
}

/// Returns the next token of a path: a delimiter, a quoted text, or the text up to the next
/// delimiter.
fn next_token<'p>(rest: &mut &'p str) -> Option<&'p str> {
    let text = *rest;
    let first = text.chars().next()?;
    let is_delimiter = |letter: char| matches!(letter, '.' | '[' | ']');
    let length = if is_delimiter(first) {
        1
    } else if first == '\'' {
        let mut before = first;
        let end = text.char_indices().skip(1).find(|(_, letter)| {
            let ends = *letter == '\'' && before != '\\';
            before = *letter;
            ends
        });
        end.map_or(text.len(), |(at, _)| at + 1)
    } else {
        text.find(is_delimiter).unwrap_or(text.len())
    };
    let (token, after) = text.split_at_checked(length)?;
    *rest = after;
    Some(token)
}

/// Validates the selectable fields.
pub fn validate_selectable(
    fields: &Field<'_>,
    schema: &Value,
    is_limited: bool,
    errors: &mut ErrorList,
) {
    let mut seen = HashSet::new();
    for (index, field) in fields.items().enumerate() {
        // The list is over the limit already, so the rest adds nothing.
        if index > 2 * MAX_SELECTABLE && is_limited {
            break;
        }
        let path = field.member("jsonPath");
        if path.text().is_empty() {
            errors.push(path.required(""));
            continue;
        }
        let found = match find(path.text(), schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(path.invalid(format!("is an invalid path: {why}")));
                continue;
            }
        };
        let is_metadata = path.text() == ".metadata" || path.text().starts_with(".metadata.");
        if is_metadata {
            errors.push(path.invalid("must not point to fields in metadata"));
        }
        let kind = found.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "boolean" | "integer")) {
            errors.push(path.invalid(
                "must point to a field of type string, boolean or integer. Enum string fields and \
                 strings with formats are allowed.",
            ));
        }
        if !seen.insert(path.text().to_owned()) {
            errors.push(path.duplicate());
        }
    }
    if is_limited && seen.len() > MAX_SELECTABLE {
        errors.push(FieldError::new(
            FieldErrorKind::TooMany,
            fields.path(),
            &Value::from(fields.len()),
            format!("must have at most {MAX_SELECTABLE} items"),
        ));
    }
}
