//! Patches of requests that ignore unknown fields. kube-apiserver does not search for unknown
//! fields then, so it decodes JSON patches and merge patches by other types, with other errors.

use serde_json::Value;

use super::{Patch, PatchError, PatchKind, unreadable_as};
use crate::decode::{TYPE_OF_ANY, decode_part};
use crate::go_json::{Expected, document_error};
use crate::text::json_type;

impl Patch {
    /// As [`Patch::parse`], for a request that ignores unknown fields.
    ///
    /// # Errors
    /// Those of [`Patch::parse`] in other words, and 422 for a list as a merge patch.
    pub fn parse_unchecked(kind: PatchKind, body: &[u8]) -> Result<Patch, PatchError> {
        let parsed = Patch::parse(kind, body);
        match (kind, parsed) {
            (PatchKind::Json, Err(PatchError::Unreadable(_))) => operations(body),
            (PatchKind::Merge, Err(_)) => Err(merge_refusal(body)),
            (_, parsed) => parsed,
        }
    }
}

/// Returns the outcome of an unreadable JSON patch. An operation with a member of a wrong type is
/// one that fails.
fn operations(body: &[u8]) -> Result<Patch, PatchError> {
    if let Some(why) = document_error(body, Expected::List, "jsonpatch.Patch") {
        return Err(unreadable_as(why));
    }
    let (value, _) = decode_part(body).map_err(unreadable_as)?;
    let items = value.as_array().into_iter().flatten();
    let mut wrong = items.filter(|item| !item.is_object() && !item.is_null());
    match wrong.next() {
        Some(item) => Err(unreadable_as(format!(
            "json: cannot unmarshal {} into Go value of type jsonpatch.Operation",
            json_type(item)
        ))),
        None => Ok(Patch::Json(vec![None], Vec::new())),
    }
}

/// Returns the error for a merge patch that is not an object. A list replaces the object.
fn merge_refusal(body: &[u8]) -> PatchError {
    match decode_part(body) {
        Ok((Value::Array(items), _)) => {
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go \
                 value of type {TYPE_OF_ANY}"
            );
            PatchError::invalid_result(Value::Array(items), &why)
        }
        _ => unreadable_as("Invalid JSON Patch".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    /// API-160, API-162: the responses of kube-apiserver 1.36.
    #[test]
    fn unchecked_patches_are_refused_in_other_words() {
        let refusal = |kind, body: &str| {
            let error = Patch::parse_unchecked(kind, body.as_bytes()).err();
            error.map(Status::from)
        };
        let message = |kind, body| refusal(kind, body).map(|status| status.message);
        let eof = "unexpected end of JSON input";
        for (body, json, merge) in [
            ("{", eof, "Invalid JSON Patch"),
            ("", eof, "Invalid JSON Patch"),
            (
                "7",
                "json: cannot unmarshal number into Go value of type jsonpatch.Patch",
                "Invalid JSON Patch",
            ),
            (
                "\"x\"",
                "json: cannot unmarshal string into Go value of type jsonpatch.Patch",
                "Invalid JSON Patch",
            ),
        ] {
            assert_eq!(
                message(PatchKind::Json, body).as_deref(),
                Some(json),
                "{body}"
            );
            assert_eq!(
                message(PatchKind::Merge, body).as_deref(),
                Some(merge),
                "{body}"
            );
        }
        assert_eq!(
            message(PatchKind::Json, "[1]").as_deref(),
            Some("json: cannot unmarshal number into Go value of type jsonpatch.Operation")
        );
        let list = refusal(PatchKind::Merge, r#"[{"op":1}]"#).unwrap();
        assert_eq!(list.code, 422);
        let beginning = r#" "" is invalid: patch: Invalid value: "[{\"op\":1}]": couldn't get "#;
        assert!(list.message.starts_with(beginning), "{}", list.message);
        let fails = Patch::parse_unchecked(PatchKind::Json, br#"[{"op":1}]"#);
        assert!(matches!(fails, Ok(Patch::Json(operations, _)) if operations == [None]));
    }
}
