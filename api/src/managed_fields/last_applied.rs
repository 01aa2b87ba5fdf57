//! The annotation of client-side apply, which server-side apply by kubectl keeps up to date
//! (API-177).

use serde_json::Value;

use crate::deep;
use crate::field_set::FieldSet;
use crate::object::{MAX_ANNOTATION_BYTES, Object};
use crate::resource::ResourceDefinition;

/// The manager of kubectl's server-side apply, which takes over from client-side apply.
pub(super) const LAST_APPLIER: &str = "kubectl";

/// The annotation with the object of the last client-side apply.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the fields that the last client-side apply set and whose values have not changed since.
/// `None` if it used another version or did not happen.
pub(super) fn owned(live: &Object, definition: &ResourceDefinition) -> Option<FieldSet> {
    let text = annotation(live)?;
    let Ok(Value::Object(members)) = deep::from_json(text.as_bytes()) else {
        return None;
    };
    let applied = Object::of(members);
    if applied.api_version() != definition.api_version() {
        return None;
    }
    let of = definition.value_type();
    of.validate(&applied, false).ok()?;
    let compared = of.compare(&applied, live);
    let mut changed = compared.added;
    changed.add(&compared.modified);
    changed.add(&compared.removed);
    Some(of.field_set(&applied).difference(&changed))
}

/// Updates the annotation, if present, to the applied object. Removes it if it would be too large.
pub(super) fn write(object: &mut Object, applied: &Object) {
    if annotation(object).is_none() {
        return;
    }
    let text = text_of(applied);
    let metadata = object.metadata_mut();
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let bytes = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if bytes.sum::<usize>() > MAX_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Object) -> Option<&str> {
    let text = object.text(&["metadata", "annotations", ANNOTATION]);
    (!text.is_empty()).then_some(text)
}

/// Returns the applied object without the annotation, as Go prints it: with HTML characters escaped
/// and a newline at the end.
fn text_of(applied: &Object) -> String {
    let mut applied = applied.clone();
    if let Some(Value::Object(annotations)) = applied.metadata_mut().get_mut("annotations") {
        annotations.remove(ANNOTATION);
    }
    let text = Value::Object(applied.0).to_string();
    let mut escaped = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            c => escaped.push(c),
        }
    }
    escaped.push('\n');
    escaped
}
