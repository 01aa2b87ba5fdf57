//! JSON patches in answers of hooks. Kubernetes applies them by its library itself, so the errors
//! are those of the library (HK-25), and reads the result without strictness (HK-26).

use json_patch::PatchOperation;
use serde_json::{Map, Value};

use super::{MAX_OPERATIONS, Refusal, carry_out, finish, read_operation};
use crate::decode::{TYPE_OF_ANY, decode_part_of_answer};
use crate::field_validation::FieldValidation;
use crate::go_json::{Expected, document_error, json_bytes};
use crate::object::Object;
use crate::patch::limits::Limits;
use crate::patch::paths;
use crate::resource::ResourceDefinition;
use crate::text::json_type;

/// The limit on the bytes of a patched object, which is that of requests.
pub const MAX_PATCHED_BYTES: usize = 3 * 1024 * 1024;

/// A JSON patch of a hook.
#[derive(Clone, Debug, Default)]
pub struct HookPatch {
    operations: Vec<Operation>,
}

/// An operation as it was sent, without its value, and as it runs. `None` fails for every object.
#[derive(Clone, Debug)]
struct Operation {
    sent: Map<String, Value>,
    run: Option<PatchOperation>,
}

impl Operation {
    fn of(whole: Map<String, Value>) -> Operation {
        let named = ["op", "path", "from"].into_iter();
        let sent = named.filter_map(|name| Some((name.to_owned(), whole.get(name)?.clone())));
        Operation {
            sent: sent.collect(),
            run: read_operation(Value::Object(whole)).ok().flatten(),
        }
    }
}

/// The reason why a hook's patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookPatchError {
    /// An operation fails, or the result is not an object of the kind.
    #[error("{0}")]
    Failed(String),
    /// The result has more than [`MAX_PATCHED_BYTES`].
    #[error("the patched object has {0} bytes, the limit is {MAX_PATCHED_BYTES} bytes")]
    TooLarge(usize),
}

impl HookPatch {
    /// Reads a patch.
    ///
    /// # Errors
    /// The text of Go's decoder, or that the patch has too many operations.
    pub fn parse(body: &[u8]) -> Result<HookPatch, String> {
        if let Some(why) = document_error(body, Expected::List, "jsonpatch.Patch") {
            return Err(why);
        }
        let (value, _) = decode_part_of_answer(body)?;
        let Value::Array(items) = value else {
            return Ok(HookPatch::default());
        };
        HookPatch::of(items)
    }

    /// Makes a patch of these operations.
    ///
    /// # Errors
    /// As [`HookPatch::parse`].
    pub fn of(items: Vec<Value>) -> Result<HookPatch, String> {
        if items.len() > MAX_OPERATIONS {
            return Err(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                items.len()
            ));
        }
        let operations = items.into_iter().map(|item| match item {
            Value::Object(whole) => Ok(Operation::of(whole)),
            Value::Null => Ok(Operation {
                sent: Map::new(),
                run: None,
            }),
            other => Err(format!(
                "json: cannot unmarshal {} into Go value of type jsonpatch.Operation",
                json_type(&other)
            )),
        });
        let operations = operations.collect::<Result<_, String>>()?;
        Ok(HookPatch { operations })
    }

    /// Whether the patch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Applies the patch to an object of this kind. Unknown members of the result are dropped, a
    /// missing kind is filled in.
    ///
    /// # Errors
    /// [`HookPatchError`].
    pub fn apply(
        &self,
        object: Object,
        definition: &ResourceDefinition,
    ) -> Result<Object, HookPatchError> {
        let patched = self.applied(object)?;
        HookPatch::read(patched, definition, FieldValidation::Ignore)
    }

    /// Reads a patched document as an object of this kind. Strict validation refuses unknown
    /// members.
    ///
    /// # Errors
    /// [`HookPatchError`].
    pub fn read(
        patched: Value,
        definition: &ResourceDefinition,
        validation: FieldValidation,
    ) -> Result<Object, HookPatchError> {
        let bytes = json_bytes(&patched);
        if bytes > MAX_PATCHED_BYTES {
            return Err(HookPatchError::TooLarge(bytes));
        }
        let found = json_type(&patched);
        let read = finish(patched, Vec::new(), definition, validation);
        let read = read.map_err(|refusal| {
            HookPatchError::Failed(match refusal {
                Refusal::Invalid(why) => why,
                Refusal::OtherKind(error) => error.to_string(),
                Refusal::Failed => format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {found} \
                     into Go value of type {TYPE_OF_ANY}"
                ),
            })
        });
        read.map(|patched| patched.object)
    }

    /// Applies the operations alone.
    ///
    /// # Errors
    /// [`HookPatchError::Failed`] for the first operation that fails.
    pub fn applied(&self, object: Object) -> Result<Value, HookPatchError> {
        let mut document = Value::Object(object.into_document());
        let mut limits = Limits::default();
        for Operation { sent, run } in &self.operations {
            let is_done = run
                .as_ref()
                .is_some_and(|operation| carry_out(operation, &mut document, &mut limits));
            if !is_done {
                return Err(HookPatchError::Failed(why(&document, sent)));
            }
        }
        Ok(document)
    }
}

impl HookPatchError {
    /// Returns whether a test of the patch does not hold. Such a patch of a policy has no effect
    /// (HK-68).
    pub fn is_failed_test(&self) -> bool {
        matches!(self, HookPatchError::Failed(why)
            if why.starts_with(TESTING) && why.ends_with(TEST_FAILED))
    }
}

/// The beginning and the end of errors about tests that do not hold.
const TESTING: &str = "testing value ";
const TEST_FAILED: &str = "failed: test failed";

/// The end of errors about absent places.
const MISSING: &str = "missing value";

/// A container in a document, and the key in it that a path names.
enum Place<'d> {
    Nowhere,
    Object(&'d Map<String, Value>, String),
    List(&'d [Value], String),
}

fn place<'d>(document: &'d Value, path: &str) -> Place<'d> {
    let Some((above, key)) = path.rsplit_once('/') else {
        return Place::Nowhere;
    };
    let pointer = paths::as_pointer(above).unwrap_or_default();
    let key = key.replace("~1", "/").replace("~0", "~");
    match document.pointer(&pointer) {
        Some(Value::Object(members)) => Place::Object(members, key),
        Some(Value::Array(items)) => Place::List(items, key),
        _ => Place::Nowhere,
    }
}

/// Returns why an operation fails, in the words of Kubernetes' library.
fn why(document: &Value, sent: &Map<String, Value>) -> String {
    let text = |name: &str| sent.get(name).and_then(Value::as_str);
    let kind = text("op").unwrap_or("unknown");
    if !["add", "remove", "replace", "move", "test", "copy"].contains(&kind) {
        return format!("Unexpected kind: {kind}");
    }
    if matches!(kind, "move" | "copy") {
        let Some(from) = text("from") else {
            return format!(
                "{kind} operation failed to decode from: operation, missing from field: {MISSING}"
            );
        };
        let key = from.rsplit('/').next().unwrap_or_default();
        match place(document, from) {
            Place::Nowhere => {
                return format!(
                    "{kind} operation does not apply: doc is missing from path: {from}: {MISSING}"
                );
            }
            Place::Object(members, of) if kind == "move" && !members.contains_key(&of) => {
                return format!(
                    "error in move for path: '{key}': Unable to remove nonexistent key: {of}: \
                     {MISSING}"
                );
            }
            Place::List(items, of) => {
                if let Err(why) = item(items.len(), &of) {
                    return match kind {
                        "move" => format!("error in move for path: '{key}': {why}"),
                        _ => format!("error in copy for from: '{from}': {why}"),
                    };
                }
            }
            Place::Object(..) => {}
        }
    }
    let Some(path) = text("path") else {
        let why = match kind {
            "replace" | "move" | "test" => format!("operation, missing path field: {MISSING}"),
            _ => MISSING.to_owned(),
        };
        return format!("{kind} operation failed to decode path: {why}");
    };
    match (kind, place(document, path)) {
        ("add" | "remove", Place::Nowhere) => {
            format!("{kind} operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        }
        ("move" | "copy", Place::Nowhere) => format!(
            "{kind} operation does not apply: doc is missing destination path: {path}: {MISSING}"
        ),
        ("test", Place::Nowhere) if !path.is_empty() => {
            format!("test operation does not apply: is missing path: {path}: {MISSING}")
        }
        ("replace", Place::Nowhere) => {
            format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
        }
        ("remove", Place::Object(_, key)) => format!(
            "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: {MISSING}"
        ),
        ("replace", _) => {
            format!("replace operation does not apply: doc is missing key: {path}: {MISSING}")
        }
        ("test", Place::List(items, key)) => match item(items.len(), &key) {
            Err(why) => format!("error in test for path: '{path}': {why}"),
            Ok(()) => format!("{TESTING}{path} {TEST_FAILED}"),
        },
        ("test", _) => format!("{TESTING}{path} {TEST_FAILED}"),
        (_, Place::List(items, key)) => match (kind, room(items.len(), &key, kind)) {
            ("copy", Err(why)) => format!("error while adding value during copy: {why}"),
            (_, Err(why)) => format!("error in {kind} for path: '{path}': {why}"),
            (_, Ok(())) => too_costly(),
        },
        _ => too_costly(),
    }
}

/// The text for an operation that exceeds the limits of patches.
fn too_costly() -> String {
    "Unable to complete the copy, the accumulated size increase of JSON patch copy operations \
     exceeds the limit"
        .to_owned()
}

/// Checks that a key names an item of a list of this length.
fn item(length: usize, key: &str) -> Result<(), String> {
    let index = number(key)?;
    let is_there = usize::try_from(index).is_ok_and(|index| index < length);
    let from_end = index < 0 && usize::try_from(index.unsigned_abs()).is_ok_and(|n| n <= length);
    match is_there || from_end {
        true => Ok(()),
        false => Err(format!(
            "Unable to access invalid index: {index}: invalid index referenced"
        )),
    }
}

/// Checks that a key names a place where an item can be added, or an item that can be removed.
fn room(length: usize, key: &str, kind: &str) -> Result<(), String> {
    match kind {
        "remove" => item(length, key),
        _ if key == "-" => Ok(()),
        _ if number(key).is_err() => {
            let why = number(key).err().unwrap_or_default();
            Err(format!(
                "value was not a proper array index: '{key}': {why}"
            ))
        }
        _ => item(length + 1, key),
    }
}

/// Reads an index as Go does.
fn number(key: &str) -> Result<i64, String> {
    let digits = key.strip_prefix('+').unwrap_or(key);
    digits.parse().map_err(|_| {
        let is_number = !digits.trim_start_matches('-').is_empty()
            && digits
                .trim_start_matches('-')
                .bytes()
                .all(|c| c.is_ascii_digit());
        let why = match is_number {
            true => "value out of range",
            false => "invalid syntax",
        };
        format!(
            "strconv.Atoi: parsing {}: {why}",
            crate::text::quoting::go_quote(key)
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(operation: Value) -> String {
        let object = json!({"data": {"k": "v"}, "list": [1, 2]});
        let object = Object::of(object.as_object().cloned().unwrap());
        let patch = HookPatch::of(vec![operation]).unwrap();
        patch.applied(object).unwrap_err().to_string()
    }

    #[test]
    fn the_errors_of_operations_are_those_of_the_library_hk_25() {
        for (operation, text) in [
            (
                json!({"op": "remove", "path": "/x"}),
                "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "test", "path": "/data/k", "value": "w"}),
                "testing value /data/k failed: test failed",
            ),
            (
                json!({"op": "spoil", "path": "/x"}),
                "Unexpected kind: spoil",
            ),
            (json!({"path": "/x"}), "Unexpected kind: unknown"),
            (
                json!({"op": "add", "path": "/a/b", "value": 1}),
                "add operation does not apply: doc is missing path: \"/a/b\": missing value",
            ),
            (
                json!({"op": "add", "value": 1}),
                "add operation failed to decode path: missing value",
            ),
            (
                json!({"op": "add", "path": "/list/7", "value": 1}),
                "error in add for path: '/list/7': Unable to access invalid index: 7: invalid \
                 index referenced",
            ),
            (
                json!({"op": "add", "path": "/list/x", "value": 1}),
                "error in add for path: '/list/x': value was not a proper array index: 'x': \
                 strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                json!({"op": "replace", "path": "/a/b", "value": 1}),
                "replace operation does not apply: doc is missing path: /a/b: missing value",
            ),
            (
                json!({"op": "replace", "path": "/list/2", "value": 1}),
                "replace operation does not apply: doc is missing key: /list/2: missing value",
            ),
            (
                json!({"op": "move", "from": "/data/x", "path": "/data/y"}),
                "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "copy", "from": "/a/x", "path": "/data/y"}),
                "copy operation does not apply: doc is missing from path: /a/x: missing value",
            ),
            (
                json!({"op": "remove", "path": "/list/5"}),
                "error in remove for path: '/list/5': Unable to access invalid index: 5: invalid \
                 index referenced",
            ),
        ] {
            assert_eq!(refused(operation.clone()), text, "{operation}");
        }
    }

    #[test]
    fn undecodable_patches_have_the_errors_of_go_hk_25() {
        for (body, text) in [
            (
                "{}",
                "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
            ),
            (
                "[1]",
                "json: cannot unmarshal number into Go value of type jsonpatch.Operation",
            ),
        ] {
            assert_eq!(HookPatch::parse(body.as_bytes()).unwrap_err(), text);
        }
        for nothing in ["null", "[]"] {
            assert!(HookPatch::parse(nothing.as_bytes()).unwrap().is_empty());
        }
        let many = format!("[{}]", vec!["{}"; MAX_OPERATIONS + 1].join(","));
        assert!(HookPatch::parse(many.as_bytes()).is_err());
    }
}
