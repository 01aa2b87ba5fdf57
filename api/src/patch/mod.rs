//! JSON patches, JSON merge patches and strategic merge patches (http.md 4.2 to 4.4).
//!
//! Contains the parsing, limits and application of patches. Input is the body of a patch and an
//! object; the result is the patched object with its strict decoding errors, or the error of a
//! failed patch. Nothing here knows storage or retries.

mod error;
mod limits;
mod missing;
mod of_hooks;
mod patched_text;
mod paths;
mod strategic;
mod unchecked;

use std::cell::OnceCell;

use json_patch::{AddOperation, PatchOperation};
use serde_json::{Map, Value};

use crate::decode::{
    OtherKind, TypedDocument, decode_part, of_other_internal_kind, of_other_kind, type_patched,
};
use crate::field_validation::{
    FieldValidation, Place, StrictDecodingError, StrictDecodingErrors, strict_decoding_error,
};
use crate::go_json::{Expected, document_error, object_error};
use crate::object::Object;
use crate::resource::ResourceDefinition;
use crate::text::json_type;
use limits::Limits;
use missing::Instead;
use patched_text::{PatchedText, Reached};

pub use error::PatchError;
pub use of_hooks::{HookPatch, HookPatchError};
pub use strategic::StrategicPatch;

/// kube-apiserver's limit on the operations of a JSON patch (API-159).
const MAX_OPERATIONS: usize = 10_000;

/// The type of a patch, by its media type (http.md 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
}

/// A parsed patch. It can be applied again when a write is retried (API-151).
#[derive(Clone, Debug)]
pub enum Patch {
    /// Operations (RFC 6902), and their unknown and duplicate members. `None` stands for an
    /// operation that fails for every object.
    Json(Vec<Option<PatchOperation>>, Vec<StrictDecodingError>),
    /// A document to merge (RFC 7396), and its duplicate members.
    Merge(Value, Vec<StrictDecodingError>),
    /// A document to merge by the types of its members.
    Strategic(StrategicPatch),
}

/// The result of a patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Patched {
    /// The patched object.
    pub object: Object,
    /// Unknown and duplicate members of the patch, and unknown ones of its result, which were
    /// dropped (API-156).
    pub faults: Vec<StrictDecodingError>,
}

impl Patch {
    /// Parses a patch.
    ///
    /// # Errors
    /// 400 for an invalid patch (API-160, API-162), 413 for too many operations (API-159).
    pub fn parse(kind: PatchKind, body: &[u8]) -> Result<Patch, PatchError> {
        match kind {
            PatchKind::Json => parse_operations(body),
            PatchKind::Merge => parse_merge(body),
            PatchKind::Strategic => StrategicPatch::parse(body).map(Patch::Strategic),
        }
    }

    /// Returns whether the patch may read or write `resourceVersion`, so that its result depends on
    /// it.
    pub fn touches_version(&self) -> bool {
        self.touches("resourceVersion")
    }

    /// Returns whether the patch may read or write a member of the object's metadata.
    fn touches(&self, member: &str) -> bool {
        let place = format!("/metadata/{member}");
        let contains = |path: &str| place.starts_with(path) || path.starts_with(&place);
        match self {
            Patch::Json(operations, _) => operations.iter().flatten().any(|operation| {
                let from = match operation {
                    PatchOperation::Copy(copy) => Some(copy.from.as_str()),
                    PatchOperation::Move(moved) => Some(moved.from.as_str()),
                    _ => None,
                };
                contains(operation.path().as_str()) || from.is_some_and(contains)
            }),
            Patch::Merge(document, _) => match document.get("metadata") {
                Some(Value::Object(metadata)) => metadata.contains_key(member),
                other => other.is_some(),
            },
            Patch::Strategic(patch) => patch.touches(member),
        }
    }

    /// Applies the patch and checks the types of the result. A patch may remove kind and
    /// apiVersion, which are restored, and may set apiVersion to a former version of the kind
    /// (KV-29). Unknown members are dropped; strict validation refuses them and the faults of the
    /// patch itself.
    ///
    /// # Errors
    /// 422 for an operation that fails or costs too much, and for a result that is not an object of
    /// the kind (API-156, API-159 to API-162).
    pub fn apply(
        &self,
        object: &Object,
        definition: &ResourceDefinition,
        validation: FieldValidation,
    ) -> Result<Patched, PatchError> {
        // Only a patch of managedFields sees them. All others keep the stored ones.
        let whole;
        let texts = object;
        let object = if self.touches("managedFields") && object.managed_fields().is_some() {
            whole = Object::of(whole_of(object));
            &whole
        } else {
            object
        };
        let patched = match self {
            Patch::Strategic(patch) => return patch.apply(object, definition, validation),
            _ => self.patched(object.0.clone())?,
        };
        let mut patched = finish(patched, self.faults(), definition, validation)
            .map_err(|refusal| self.refused(refusal, whole_of(object), definition))?;
        // Values that the patch does not reach keep their texts.
        let reached = OnceCell::new();
        patched.object.take_texts(texts, |path| {
            let reached = reached.get_or_init(|| self.reached(&object.0));
            reached.is_within(path)
        });
        Ok(patched)
    }

    /// Returns the parts of a document that the patch reaches.
    fn reached(&self, document: &Map<String, Value>) -> Reached {
        match self {
            Patch::Json(operations, _) => Reached::by_operations(operations),
            Patch::Merge(Value::Object(patch), _) => Reached::by_merge(document, patch),
            Patch::Merge(..) | Patch::Strategic(_) => Reached::default(),
        }
    }

    /// Returns the result of a JSON patch or merge patch, without checks.
    fn patched(&self, members: Map<String, Value>) -> Result<Value, PatchError> {
        let mut document = Value::Object(members);
        match self {
            Patch::Json(operations, _) => return apply_operations(document, operations),
            Patch::Merge(patch, _) => merge(&mut document, patch),
            Patch::Strategic(_) => {}
        }
        Ok(document)
    }

    /// Returns the strict decoding errors of the patch itself.
    fn faults(&self) -> Vec<StrictDecodingError> {
        match self {
            Patch::Json(_, faults) | Patch::Merge(_, faults) => faults.clone(),
            Patch::Strategic(_) => Vec::new(),
        }
    }

    /// Returns the error for the result of a patch on a whole object with its managedFields.
    fn refused(
        &self,
        refusal: Refusal,
        whole: Map<String, Value>,
        definition: &ResourceDefinition,
    ) -> PatchError {
        let why = match refusal {
            Refusal::Invalid(why) => why,
            Refusal::OtherKind(error) => return PatchError::OtherKind(error),
            Refusal::Failed => return PatchError::Failed,
        };
        let reached = self.reached(&whole);
        match self.patched(whole) {
            Ok(document) => {
                let of = definition.object_type();
                let shown = PatchedText {
                    document: &document,
                    of,
                    reached: &reached,
                };
                PatchError::invalid_result(shown, &why)
            }
            Err(refusal) => refusal,
        }
    }
}

/// Returns the members of an object with its managedFields.
fn whole_of(object: &Object) -> Map<String, Value> {
    object.clone().into_document()
}

/// The reason why the result of a patch is refused.
enum Refusal {
    /// It is not an object.
    Failed,
    /// It is not an object of the kind, for this reason.
    Invalid(String),
    /// It has another kind than that of its custom resource.
    OtherKind(OtherKind),
}

/// Merges a merge patch (RFC 7396) into a document. Drops null members of objects in lists, like
/// kube-apiserver's library. The RFC keeps them.
fn merge(document: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *document = patch.clone();
        return;
    };
    let Value::Object(members) = document else {
        *document = patch.clone();
        drop_nulls(document);
        return;
    };
    for (name, change) in changes {
        match members.get_mut(name) {
            _ if change.is_null() => {
                members.remove(name);
            }
            Some(member) if member.is_object() => merge(member, change),
            _ => {
                let mut added = change.clone();
                drop_nulls(&mut added);
                members.insert(name.clone(), added);
            }
        }
    }
}

/// Drops null members at any depth.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Returns the error for a body that is not a patch.
fn unreadable(why: String) -> PatchError {
    unreadable_as(format!("error decoding patch: {why}"))
}

/// As [`unreadable`], with nothing but this text.
fn unreadable_as(why: String) -> PatchError {
    PatchError::Unreadable(why)
}

/// Parses a merge patch. If Go refuses it too, the error is Go's.
fn parse_merge(body: &[u8]) -> Result<Patch, PatchError> {
    let decoded = decode_part(body);
    let (value, duplicates) =
        decoded.map_err(|why| unreadable(object_error(body).unwrap_or(why)))?;
    match value {
        Value::Object(_) => Ok(Patch::Merge(value, duplicates)),
        Value::Null => Err(unreadable_as("Invalid JSON Patch".to_owned())),
        _ => Err(unreadable(object_error(body).unwrap_or_default())),
    }
}

/// Parses a JSON patch. If Go refuses it too, the error is Go's.
fn parse_operations(body: &[u8]) -> Result<Patch, PatchError> {
    let in_go = || document_error(body, Expected::List, "[]handlers.jsonPatchOp");
    let decoded = decode_part(body);
    let (value, duplicates) = decoded.map_err(|why| unreadable(in_go().unwrap_or(why)))?;
    match value {
        Value::Null => Ok(Patch::Json(Vec::new(), Vec::new())),
        Value::Array(items) if items.len() > MAX_OPERATIONS => {
            Err(PatchError::TooManyOperations(items.len()))
        }
        Value::Array(items) => {
            let faults = unknown_members(&items).into_iter().chain(duplicates);
            let faults = faults.map(|fault| StrictDecodingError::OfJsonPatch(Box::new(fault)));
            let faults = faults.collect();
            let operations: Result<Vec<_>, String> =
                items.into_iter().map(read_operation).collect();
            match operations {
                Ok(operations) => Ok(Patch::Json(operations, faults)),
                Err(why) => Err(unreadable(why)),
            }
        }
        _ => Err(unreadable(in_go().unwrap_or_default())),
    }
}

/// Returns the unknown members of operations (API-156).
fn unknown_members(items: &[Value]) -> Vec<StrictDecodingError> {
    const KNOWN: [&str; 4] = ["op", "path", "from", "value"];
    let mut faults = StrictDecodingErrors::default();
    for (index, item) in items.iter().enumerate() {
        let item_at = Place::Item(&Place::Top, index);
        for name in item.as_object().into_iter().flat_map(Map::keys) {
            if !KNOWN.contains(&name.as_str()) {
                faults.note(StrictDecodingError::Unknown, Place::Member(&item_at, name));
            }
        }
    }
    faults.into_vec()
}

/// Reads one operation. An item that is not an object, or has members of a wrong type, makes the
/// whole patch unreadable. An unknown or incomplete operation fails only when it runs (API-160).
fn read_operation(item: Value) -> Result<Option<PatchOperation>, String> {
    let members = match &item {
        Value::Object(members) => members,
        Value::Null => return Ok(None),
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                json_type(other)
            ));
        }
    };
    for name in ["op", "path", "from"] {
        let value = members.get(name).unwrap_or(&Value::Null);
        if !value.is_string() && !value.is_null() {
            return Err(format!(
                "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                json_type(value)
            ));
        }
    }
    let mut item = item;
    if let Value::Object(members) = &mut item {
        // A missing value counts as null, as in Go.
        members.entry("value").or_insert(Value::Null);
        let replaces = members.get("op").and_then(Value::as_str) == Some("replace");
        for name in ["path", "from"] {
            let Some(Value::String(path)) = members.get_mut(name) else {
                continue;
            };
            match paths::as_pointer(path) {
                Some(pointer) if pointer == *path => {}
                Some(pointer) => *path = pointer.into_owned(),
                // An empty path is the whole object, which only `replace` may name.
                None if path.is_empty() && replaces => {}
                None => return Ok(None),
            }
        }
    }
    Ok(serde_json::from_value(item).ok())
}

fn apply_operations(
    mut document: Value,
    operations: &[Option<PatchOperation>],
) -> Result<Value, PatchError> {
    let mut limits = Limits::default();
    for operation in operations {
        let carried_out = operation
            .as_ref()
            .is_some_and(|operation| carry_out(operation, &mut document, &mut limits));
        if !carried_out {
            return Err(PatchError::Failed);
        }
    }
    Ok(document)
}

/// Runs an operation and returns whether it succeeded. A failed operation needs no undo, because
/// the document is a copy that is discarded.
fn carry_out(operation: &PatchOperation, document: &mut Value, limits: &mut Limits) -> bool {
    if let PatchOperation::Move(moved) = operation {
        // Indexes in the target path count without the moved item.
        let removal = paths::removal(document, &moved.from);
        let Some(value) = document.pointer(removal.path().as_str()).cloned() else {
            return false;
        };
        if !limits.admit_moved(&value) || !carry_out(&removal, document, limits) {
            return false;
        }
        let path = moved.path.clone();
        let addition = PatchOperation::Add(AddOperation { path, value });
        return carry_out(&addition, document, limits);
    }
    let operation = paths::resolved(document, operation);
    let missing = missing::instead(document, &operation);
    let operation = match &missing {
        Instead::Nothing => return true,
        Instead::Of(other) => other,
        Instead::Itself => &operation,
    };
    limits.admit(document, operation)
        && json_patch::patch_unsafe(document, std::slice::from_ref(operation)).is_ok()
}

/// Returns an object of which all members are unknown.
fn nothing_known(members: &Map<String, Value>) -> TypedDocument {
    let mut faults = StrictDecodingErrors::default();
    for name in members.keys() {
        if !["apiVersion", "kind"].contains(&name.as_str()) {
            faults.note(StrictDecodingError::Unknown, name);
        }
    }
    TypedDocument {
        value: Map::new().into(),
        faults: faults.into_vec(),
        refusal: None,
        managed_fields: None,
    }
}

/// Checks the types of a patch's result. `faults` are those of the patch.
fn finish(
    patched: Value,
    mut faults: Vec<StrictDecodingError>,
    definition: &ResourceDefinition,
    validation: FieldValidation,
) -> Result<Patched, Refusal> {
    let members = match &patched {
        Value::Object(members) => members,
        _ => return Err(Refusal::Failed),
    };
    let own_version = definition.api_version();
    let text = |name| match members.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(Refusal::Invalid(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct \
             field .{name} of type string",
            json_type(other)
        ))),
    };
    let of = definition.object_type().found();
    let (kind, version) = (text("kind")?, text("apiVersion")?);
    let kind = if kind.is_empty() {
        &definition.kind
    } else {
        kind
    };
    let has_struct = of.is_some_and(|(schema, id)| schema.get(id).is_some_and(|of| !of.is_open));
    let is_internal = version.is_empty() && has_struct;
    let version = if version.is_empty() {
        &own_version
    } else {
        version
    };
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        return Err(Refusal::Invalid(why));
    }
    let rules = definition.rules();
    if rules.is_unstructured && kind != definition.kind && version == own_version {
        let name = members
            .get("metadata")
            .and_then(|metadata| metadata.get("name"));
        let name = name.and_then(Value::as_str).unwrap_or_default();
        return Err(Refusal::OtherKind(OtherKind::new(kind, name, definition)));
    }
    let former = definition.former_version(kind, version);
    // Former versions of custom resources are only read from the store.
    let former = former.filter(|_| !rules.is_unstructured);
    if (kind != definition.kind || version != own_version) && former.is_none() {
        return Err(Refusal::Invalid(if is_internal {
            of_other_internal_kind(kind, definition)
        } else {
            of_other_kind(kind, version, definition, |of| {
                type_patched(&patched, Some(of)).ok()?.refusal
            })
        }));
    }
    let read = if is_internal {
        // kube-apiserver's internal type has no JSON names, so all members are unknown.
        Ok(nothing_known(members))
    } else {
        let of = former.map_or(of, |former| former.object_type.found());
        type_patched(&patched, of)
    };
    let read = read.map_err(|_| Refusal::Invalid("exceeded max depth".to_owned()))?;
    let TypedDocument {
        value: Value::Object(members),
        faults: unknown,
        refusal: None,
        ..
    } = read
    else {
        return Err(Refusal::Invalid(read.refusal.unwrap_or_default()));
    };
    faults.extend(unknown);
    let mut object = Object::of(members);
    if former.is_none() {
        object.set_type(&definition.kind, &own_version);
        faults.extend(definition.behaviour.prune(&mut object));
    }
    if validation == FieldValidation::Strict && !faults.is_empty() {
        return Err(Refusal::Invalid(strict_decoding_error(&faults)));
    }
    if let Some(former) = former {
        former.apply(&mut object, definition);
    }
    if let Some(why) = definition.behaviour.why_unreadable(&object) {
        return Err(Refusal::Invalid(why));
    }
    Ok(Patched { object, faults })
}

#[cfg(test)]
mod tests;
