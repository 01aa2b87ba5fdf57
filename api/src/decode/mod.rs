//! Decoding of request bodies.
//!
//! Contains the limits for JSON and YAML, and the checks of kind and version (API-63, API-88 to
//! API-90). Input is bytes and a resource definition; the result is an object with its strict
//! decoding errors, or the error of a body that can't be decoded. Nothing here knows HTTP or
//! storage.

mod former;
mod raw_texts;
mod tree;
mod unstructured;
mod yaml_text;

use std::fmt::Write as _;

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;

use crate::deep;
use crate::field_validation::StrictDecodingError;
use crate::go_json::{may_be_too_deep, syntax_error};
use crate::object::Object;
use crate::resource::ResourceDefinition;
use crate::schema::{KindName, ObjectType, Schema, StructId};
use crate::text::{go_json_text, json_type};

pub use raw_texts::keep_texts;
pub use tree::{MAX_ANSWER_TREE_BYTES, MAX_TREE_BYTES, TypedDocument, is_deeper_than, tree_bytes};
use tree::{Numbers, TypedSeed};
pub use unstructured::from_unstructured;

/// The format of a body (http.md 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// An object that was decoded from a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object, with kind and apiVersion, and pruned to the fields of its type.
    pub object: Object,
    /// Strict decoding errors: unknown and duplicate members, at most 100 (API-90).
    pub faults: Vec<StrictDecodingError>,
}

/// The reason why a body is not an object of the requested kind, a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body is not an object (API-89).
    #[error("the object provided is unrecognized (must be of type {kind}): {why} ({summary})")]
    Unrecognized {
        /// The requested kind.
        kind: String,
        /// The fault in the body.
        why: String,
        /// The beginning of the body.
        summary: String,
    },
    /// The object has another version of the requested kind (API-88).
    #[error(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    )]
    OtherVersion {
        /// The apiVersion of the object.
        given: String,
        /// The requested one.
        expected: String,
    },
    /// The object has another kind than that of a custom resource, which is a 422 (CRD-153).
    #[error("{0}")]
    OtherKind(OtherKind),
    /// The object has another kind (API-88), or a member of a wrong type.
    #[error("{kind} in version \"{version}\" cannot be handled as a {wanted}: {why}")]
    Unhandled {
        /// The kind of the object.
        kind: String,
        /// Its version, without the group.
        version: String,
        /// The requested kind.
        wanted: String,
        /// The error.
        why: String,
    },
}

/// An object of another kind than that of its custom resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be {wanted}")]
pub struct OtherKind {
    /// The kind of the object.
    pub kind: String,
    /// The kind of the resource.
    pub wanted: String,
    /// The group of the resource.
    pub group: String,
    /// The name of the object.
    pub name: String,
}

impl OtherKind {
    /// Returns the error for an object of this kind and name.
    pub fn new(kind: &str, name: &str, definition: &ResourceDefinition) -> OtherKind {
        OtherKind {
            kind: kind.to_owned(),
            wanted: definition.kind.clone(),
            group: definition.group.clone(),
            name: name.to_owned(),
        }
    }
}

/// Decodes an object of a resource. Sets kind and apiVersion if they are missing.
///
/// # Errors
/// An unreadable body, another kind or version (API-88, API-89), and members of a wrong type.
pub fn decode_object(
    body: &[u8],
    format: BodyFormat,
    definition: &ResourceDefinition,
) -> Result<Decoded, DecodeError> {
    let unrecognized = |why: &str| unrecognized(body, why, definition);
    let no_type = |why: &str| {
        unrecognized(&format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    };
    let TypedDocument {
        value,
        mut faults,
        refusal,
        managed_fields,
    } = decode_typed(body, format, definition.object_type().found()).map_err(
        |why| match format {
            BodyFormat::Json => no_type(&why),
            BodyFormat::Yaml => unrecognized(&why),
        },
    )?;
    let mut object = match value {
        Value::Object(members) => Object::of(members),
        // An empty document counts as an empty object.
        Value::Null => Object::default(),
        other => {
            let found = json_type(&other);
            return Err(no_type(&format!(
                "json: cannot unmarshal {found} into Go value of type {TYPE_OF_ANY}"
            )));
        }
    };
    let own_version = definition.api_version();
    let member = |name: &str| match object.0.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(no_type(&format!(
            "json: cannot unmarshal {} into Go struct field .{name} of type string",
            json_type(other)
        ))),
    };
    let (kind, version) = (member("kind")?, member("apiVersion")?);
    if version.matches('/').count() > 1 {
        return Err(unrecognized(&format!(
            "unexpected GroupVersion string: {version}"
        )));
    }
    match definition.rules().is_unstructured {
        true => check_unstructured_kind(&kind, &version, body, (definition, object.name()))?,
        false => check_kind(&kind, &version, definition, |of| {
            let read = decode_typed(body, format, Some(of));
            read.map_or_else(Some, |read| read.refusal)
        })?,
    }
    let is_unstructured = definition.rules().is_unstructured;
    // The converter of unstructured metadata does not know where in the object it is.
    let refusal = refusal.map(|why| match is_unstructured {
        true => why.replacen("ObjectMeta.metadata.", "ObjectMeta.", 1),
        false => why,
    });
    if let Some(why) = refusal.or_else(|| definition.behaviour.why_unreadable(&object)) {
        return Err(DecodeError::Unhandled {
            kind: definition.kind.clone(),
            version: definition.version.clone(),
            wanted: definition.kind.clone(),
            why,
        });
    }
    object.set_type(&definition.kind, &own_version);
    faults.extend(definition.behaviour.prune(&mut object));
    if is_unstructured {
        // Duplicates are found first (CRD-225).
        faults.sort_by_key(|fault| !matches!(fault, StrictDecodingError::Duplicate(_)));
    }
    if let Some(text) = managed_fields {
        object.set_managed_fields(Some(text.into()));
    }
    if format == BodyFormat::Json {
        keep_texts(&mut object, body, definition.object_type());
    }
    Ok(Decoded { object, faults })
}

/// Returns the error for a body that is not an object for this reason (API-89).
pub fn unrecognized(body: &[u8], why: &str, definition: &ResourceDefinition) -> DecodeError {
    DecodeError::Unrecognized {
        kind: definition.kind.clone(),
        why: why.to_owned(),
        summary: summary(body),
    }
}

/// The Go type into which kube-apiserver first decodes a body for kind and version, as its errors
/// name it.
pub const TYPE_OF_ANY: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
                           Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// Returns the error for invalid JSON, in Go's words if Go refuses it too.
fn json_fault(body: &[u8], error: &serde_json::Error) -> String {
    syntax_error(body).unwrap_or_else(|| error.to_string())
}

/// A type together with its schema.
type FoundType<'s> = (&'s Schema, StructId);

/// Decodes a body by the type of its object.
fn decode_typed(
    body: &[u8],
    format: BodyFormat,
    of: Option<FoundType<'_>>,
) -> Result<TypedDocument, String> {
    let fault = |error: serde_json::Error| json_fault(body, &error);
    match format {
        BodyFormat::Json => {
            // serde_json skips unknown members without checking their depth, but Go limits it
            // there, too.
            if may_be_too_deep(body)
                && let Some(why) = syntax_error(body)
            {
                return Err(why);
            }
            let text = go_json_text(body);
            let mut reader = deep::reader(text.as_bytes());
            let seed = TypedSeed {
                of,
                numbers: Numbers::AsWritten,
                keeps_managed_fields: true,
                most_tree_bytes: MAX_TREE_BYTES,
            };
            let read = deep::noted(body, seed.deserialize(&mut reader)).map_err(fault)?;
            reader.end().map_err(fault)?;
            Ok(read)
        }
        BodyFormat::Yaml => {
            let document = read_yaml::<MAX_TREE_BYTES>(body)?;
            let read = TypedSeed::of_tree(of, Numbers::ByValue).deserialize(&document.value);
            let mut read = read.map_err(|error| format!("yaml: {error}"))?;
            // Kubernetes converts YAML to JSON before it decodes it by type, so duplicates come
            // first.
            read.faults.splice(..0, document.duplicates);
            Ok(read)
        }
    }
}

/// Reads a JSON tree by the type of its object, after a patch or a YAML decoder.
///
/// # Errors
/// The tree is too deep.
pub fn type_value(value: &Value, of: &ObjectType) -> Result<TypedDocument, serde_json::Error> {
    TypedSeed::of_tree(of.found(), Numbers::ByValue).deserialize(value)
}

/// As [`type_value`], for a tree of [`decode_answer`].
///
/// # Errors
/// The tree is too deep.
pub fn type_answer(value: &Value, of: &ObjectType) -> Result<TypedDocument, serde_json::Error> {
    let seed = TypedSeed {
        most_tree_bytes: MAX_ANSWER_TREE_BYTES,
        ..TypedSeed::of_tree(of.found(), Numbers::ByValue)
    };
    seed.deserialize(value)
}

/// As [`type_value`], with numbers as they are spelled: `1.0` is not an integer.
///
/// # Errors
/// The tree is too deep.
pub fn type_patched(
    value: &Value,
    of: Option<FoundType<'_>>,
) -> Result<TypedDocument, serde_json::Error> {
    TypedSeed::of_tree(of, Numbers::AsWritten).deserialize(value)
}

/// As [`check_kind`], for a kind that kube-apiserver decodes without a type of Go (CRD-153).
/// `object` is the definition, and the name in the body.
fn check_unstructured_kind(
    kind: &str,
    version: &str,
    body: &[u8],
    object: (&ResourceDefinition, &str),
) -> Result<(), DecodeError> {
    let (definition, name) = object;
    if kind.is_empty() {
        let shown = String::from_utf8_lossy(body);
        let why = format!("Object 'Kind' is missing in '{shown}'");
        return Err(unrecognized(body, &why, definition));
    }
    let expected = definition.api_version();
    if version != expected {
        return Err(DecodeError::OtherVersion {
            given: version.to_owned(),
            expected,
        });
    }
    match kind == definition.kind {
        true => Ok(()),
        false => Err(DecodeError::OtherKind(OtherKind::new(
            kind, name, definition,
        ))),
    }
}

/// Checks that the body has the kind and version of the request path (API-88). `refusal` returns
/// the decoding error, if any, for the body as an object of its own kind.
fn check_kind(
    kind: &str,
    version: &str,
    definition: &ResourceDefinition,
    refusal: impl FnOnce(FoundType<'_>) -> Option<String>,
) -> Result<(), DecodeError> {
    let (wanted, own_version) = (&definition.kind, definition.api_version());
    let kind = if kind.is_empty() { wanted } else { kind };
    let version = if version.is_empty() {
        &own_version
    } else {
        version
    };
    let (group, bare) = version.split_once('/').unwrap_or(("", version));
    let is_accepted = group == definition.group
        && definition
            .rules()
            .accepts
            .iter()
            .any(|accepted| accepted == bare);
    if kind == wanted && (version == own_version || is_accepted) {
        return Ok(());
    }
    if kind == wanted && is_known(kind, version, definition) {
        return Err(DecodeError::OtherVersion {
            given: version.to_owned(),
            expected: own_version,
        });
    }
    let why = of_other_kind(kind, version, definition, refusal);
    Err(DecodeError::Unhandled {
        kind: kind.to_owned(),
        version: bare.to_owned(),
        wanted: wanted.clone(),
        why,
    })
}

/// Returns the error for an object whose kind and version are not those of the definition.
/// kube-apiserver decodes a kind that it knows first: `refusal` returns the decoding error, if any,
/// for the body as an object of its own kind.
pub(crate) fn of_other_kind(
    kind: &str,
    version: &str,
    definition: &ResourceDefinition,
    refusal: impl FnOnce(FoundType<'_>) -> Option<String>,
) -> String {
    if !is_known(kind, version, definition) {
        let scheme = definition
            .object_type()
            .schema()
            .scheme_of(&definition.group);
        return format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{scheme}\""
        );
    }
    let found = definition.object_type().found().and_then(|(schema, _)| {
        let id = schema.object_kind(version, kind)?;
        refusal((schema, id))
    });
    found.unwrap_or_else(|| {
        let bare = version.split_once('/').map_or(version, |(_, bare)| bare);
        no_conversion(bare, kind, definition)
    })
}

fn no_conversion(from: &str, kind: &str, definition: &ResourceDefinition) -> String {
    let (package, wanted) = (definition.internal_package(), &definition.kind);
    format!("converting ({from}.{kind}) to ({package}.{wanted}): unknown conversion")
}

/// Returns the error for an object without apiVersion, for which kube-apiserver looks among its
/// internal types, and whose kind is not that of the definition.
pub(crate) fn of_other_internal_kind(kind: &str, definition: &ResourceDefinition) -> String {
    let found = definition.object_type().found();
    let mut kinds = found.into_iter().flat_map(|(schema, _)| schema.structs());
    let is_known = kinds.any(|of| {
        let name = of.kind.as_ref();
        name.is_some_and(|name| name.group == definition.group && name.kind == kind)
    });
    if is_known {
        return no_conversion(definition.internal_package(), kind, definition);
    }
    let group = &definition.group;
    let scheme = definition.object_type().schema().scheme_of(group);
    format!(
        "no kind \"{kind}\" is registered for the internal version of group \"{group}\" in \
         scheme \"{scheme}\""
    )
}

/// Returns whether Kubernetes has a kind in this version.
fn is_known(kind: &str, version: &str, definition: &ResourceDefinition) -> bool {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let schema = definition.object_type().schema();
    let is_in_scheme = schema.scheme_of(group) == schema.scheme_of(&definition.group)
        || group.is_empty() && KINDS_OF_ALL_VERSIONS.contains(&kind);
    is_in_scheme && is_registered(definition.object_type(), kind, version)
}

/// The kinds that every version of every group has.
const KINDS_OF_ALL_VERSIONS: [&str; 8] = [
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Status",
    "UpdateOptions",
    "WatchEvent",
];

/// Returns whether a kind exists in this version, with or without a resource, served or not. An
/// open type, of which only the metadata is known, lists no other kinds, so any of them may exist.
fn is_registered(of: &ObjectType, kind: &str, version: &str) -> bool {
    let Some((schema, own)) = of.found() else {
        return false;
    };
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let is_list_of = |found: &str| kind.strip_suffix("List") == Some(found);
    let is_this = |name: &KindName| {
        let is_named = name.kind == kind || is_list_of(&name.kind);
        let is_everywhere = KINDS_OF_ALL_VERSIONS.contains(&kind);
        name.group == group && name.version == version && (is_named || is_everywhere)
    };
    let mut kinds = schema.structs().filter_map(|of| of.kind.as_ref());
    schema.get(own).is_some_and(|own| own.is_open)
        || kinds.any(is_this)
        || schema.unserved().iter().any(is_this)
}

/// Returns the part of a body that the error shows: its first 30 bytes, as text if it looks like
/// JSON (API-89).
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let start = body.get(..SHOWN).unwrap_or(body);
    let mut text = if start.starts_with(b"{") {
        String::from_utf8_lossy(start).into_owned()
    } else {
        start.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    };
    if body.len() > SHOWN {
        text.push_str(" ...");
    }
    text
}

/// Decodes any document, with its duplicate members. Integers are exact in the ranges of int64 and
/// uint64; other numbers are float64 (API-63).
///
/// # Errors
/// The fault in the text.
pub fn decode_value(
    body: &[u8],
    format: BodyFormat,
) -> Result<(Value, Vec<StrictDecodingError>), String> {
    let document = match format {
        BodyFormat::Json => read_json::<tree::Document<MAX_TREE_BYTES>>(body)?,
        BodyFormat::Yaml => read_yaml(body)?,
    };
    Ok(document.parts())
}

/// As [`decode_value`], for answers of webhooks, which may have more bytes than bodies.
///
/// # Errors
/// The fault in the text.
pub fn decode_answer(
    body: &[u8],
    format: BodyFormat,
) -> Result<(Value, Vec<StrictDecodingError>), String> {
    match format {
        BodyFormat::Json => Ok(read_json::<tree::Document<MAX_ANSWER_TREE_BYTES>>(body)?.parts()),
        // Aliases of YAML may expand.
        BodyFormat::Yaml => decode_value(body, format),
    }
}

/// As [`decode_part`], for patches of webhooks, which may have more bytes than bodies.
///
/// # Errors
/// The fault in the text.
pub fn decode_part_of_answer(body: &[u8]) -> Result<(Value, Vec<StrictDecodingError>), String> {
    Ok(read_json::<tree::Part<MAX_ANSWER_TREE_BYTES>>(body)?
        .0
        .parts())
}

/// As [`decode_value`], for JSON that is put into an object: numbers keep their spelling as integer
/// or float.
///
/// # Errors
/// The fault in the text.
pub fn decode_part(body: &[u8]) -> Result<(Value, Vec<StrictDecodingError>), String> {
    Ok(read_json::<tree::Part<MAX_TREE_BYTES>>(body)?.0.parts())
}

fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let read = deep::from_json(go_json_text(body).as_bytes());
    read.map_err(|error| json_fault(body, &error))
}

/// Decodes stored YAML without a limit on the size of the tree, because stored documents must stay
/// readable.
///
/// # Errors
/// The fault in the text.
pub fn decode_stored_yaml(text: &[u8]) -> Result<Value, String> {
    read_yaml::<{ usize::MAX }>(text).map(|document| document.value)
}

/// As [`decode_value`], without a limit on the size of the tree, for manifests that a user reads
/// from files. Numbers keep their spelling in JSON.
///
/// # Errors
/// The fault in the text.
pub fn decode_manifest(
    text: &[u8],
    format: BodyFormat,
) -> Result<(Value, Vec<StrictDecodingError>), String> {
    match format {
        BodyFormat::Json => Ok(read_json::<tree::Part<{ usize::MAX }>>(text)?.0.parts()),
        BodyFormat::Yaml => Ok(read_yaml::<{ usize::MAX }>(text)?.parts()),
    }
}

/// Returns the first document of a YAML stream. It ends at the second start marker or at an end
/// marker. As in Kubernetes' reader, a marker at the start of a line counts even inside a block of
/// text.
fn first_document(text: &str) -> &str {
    let is_marker = |line: &str, marker: &str| {
        line.strip_prefix(marker)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let (mut at, mut begun) = (0, false);
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches('\u{feff}');
        if begun && (is_marker(line, "---") || is_marker(line, "...")) {
            return text.get(..at).unwrap_or(text);
        }
        begun |= !content.trim().is_empty() && !content.starts_with(['#', '%']);
        at += line.len();
    }
    text
}

/// The limit on parser events that the aliases and merge keys of a document may repeat. A value
/// takes one or two events.
const MAX_ALIASED_EVENTS: usize = 200_000;

/// Decodes YAML. In a build without optimization the parser needs up to 20 KiB per level, so it
/// runs on a separate stack even for shallow documents. Only the touched part of that stack uses
/// memory.
fn read_yaml<const TREE_BYTES: usize>(body: &[u8]) -> Result<tree::Document<TREE_BYTES>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: not UTF-8 text".to_owned())?;
    let (text, stand_in) = yaml_text::without_marks(first_document(text));
    // The parser accepts a tab here, but other YAML readers do not.
    if text
        .trim_start_matches([' ', '\r', '\n', '\u{feff}'])
        .starts_with('\t')
    {
        return Err("yaml: found a tab where a document begins".to_owned());
    }
    deep::with_room_for_yaml(|levels| {
        // If a document makes the parser panic, only its request fails.
        let read = std::panic::catch_unwind(|| parse_yaml(&text, levels))
            .unwrap_or_else(|_| Err("yaml: the parser failed".to_owned()));
        read.map(|mut document: tree::Document<TREE_BYTES>| {
            if let Some(letter) = stand_in {
                yaml_text::put_marks_back(&mut document.value, letter);
            }
            for fault in &mut document.duplicates {
                if let StrictDecodingError::Repeated(text_of_fault) = fault {
                    yaml_text::report_line_of_value(text_of_fault, &text);
                }
            }
            document
        })
    })
}

/// Decodes YAML in the dialect of Kubernetes' clients: 1.1 booleans and octals, merge keys, and the
/// last of duplicate members.
fn parse_yaml<const TREE_BYTES: usize>(
    text: &str,
    levels: usize,
) -> Result<tree::Document<TREE_BYTES>, String> {
    let budget = serde_saphyr::budget! {
        // The tree refuses one level too many with a better message.
        max_depth: levels + 1,
        flow_nesting_limit: levels + 1,
        // More than any real object has, but few enough to take less than a second.
        max_events: 3_000_000,
        max_nodes: 1_500_000,
        max_recorded_anchor_events: MAX_ALIASED_EVENTS,
        // A ratio of aliases to anchors does not bound the expanded size; the limits below do.
        enforce_alias_anchor_ratio: false,
        max_documents: 1,
    };
    let alias_limits = serde_saphyr::alias_limits! {
        max_total_replayed_events: MAX_ALIASED_EVENTS,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        alias_limits: alias_limits,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        strict_booleans: false,
        // Names may be such numbers. Values are refused by the tree.
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
        emit_comments: false,
    };
    let read: Result<tree::YamlDocument<TREE_BYTES>, _> =
        serde_saphyr::from_str_with_options(text, options);
    read.map(|document| document.0).map_err(|error| {
        let text = error.to_string();
        let refusals = ["recursion limit exceeded", "exceeded max depth of"];
        let is_deep = matches!(&error, serde_saphyr::Error::Budget { breach, .. }
            if matches!(breach, serde_saphyr::budget::BudgetBreach::Depth { .. }))
            || refusals.iter().any(|refusal| text.starts_with(refusal));
        if !is_deep {
            return format!("yaml: {text}");
        }
        deep::note();
        // Kubernetes' reader reports no line if it is the first.
        let line = error.location().map_or(1, |location| location.line());
        match line {
            ..=1 => format!("yaml: exceeded max depth of {levels}"),
            line => format!("yaml: line {line}: exceeded max depth of {levels}"),
        }
    })
}

#[cfg(test)]
mod tests;
