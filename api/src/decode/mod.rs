//! Decoding of request bodies.
//!
//! This folder owns the limits for JSON and YAML and the checks of kind and version (API-63, API-88
//! to API-90). Bytes and a resource definition enter. An object with the paths of its duplicate and
//! unknown members leaves, or a `Status` that refuses the body. This folder must not know HTTP or
//! storage.

pub(crate) mod go_duration;
mod go_text;
pub(crate) mod go_time;
mod scalar;
pub(crate) mod scalars;
mod tree;
mod unstructured;
mod yaml_text;

use std::fmt::Write as _;

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;

use crate::deep;
use crate::document_paths::json_type;
pub use crate::document_paths::{FieldFault, strict_decoding_error};
use crate::go_json::{may_be_too_deep, syntax_error};
use crate::object::Object;
use crate::options::FieldValidation;
use crate::resource::ResourceDefinition;
use crate::schema::{KindName, ObjectType, Schema, StructId};
use crate::status::Status;
use crate::warnings::Warnings;

pub use go_text::{go_json_text, go_text};
pub use tree::{MAX_TREE_BYTES, TypedDocument, is_deeper_than, tree_bytes};
use tree::{Numbers, TypedSeed};
pub use unstructured::from_unstructured;

/// The form of a body (http.md 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// An object that was read from a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object, with kind and apiVersion and without anything that its type does not have.
    pub object: Object,
    /// Unknown and duplicate members. Strict decoding reports at most 100 (API-90).
    pub faults: Vec<FieldFault>,
}

/// Warns about unknown and duplicate fields, or refuses them, as the client asked (API-90,
/// API-156).
///
/// # Errors
/// What `refuse` makes of the text of all faults.
pub fn judge(
    faults: &[FieldFault],
    validation: FieldValidation,
    warnings: &Warnings,
    refuse: impl FnOnce(&str) -> Status,
) -> Result<(), Box<Status>> {
    match validation {
        FieldValidation::Strict if !faults.is_empty() => {
            return Err(Box::new(refuse(&strict_decoding_error(faults))));
        }
        FieldValidation::Warn => faults
            .iter()
            .for_each(|fault| warnings.add(fault.to_string())),
        FieldValidation::Strict | FieldValidation::Ignore => {}
    }
    Ok(())
}

/// Reads an object of a resource. Missing kind and apiVersion are filled in.
///
/// # Errors
/// 400 for an unreadable body, for another kind or version (API-88, API-89), and for members of a
/// wrong type.
pub fn decode_object(
    body: &[u8],
    format: BodyFormat,
    definition: &ResourceDefinition,
) -> Result<Decoded, Box<Status>> {
    let unrecognized = |why: &str| unrecognized(body, why, definition);
    let no_type = |why: &str| {
        unrecognized(&format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    };
    let TypedDocument {
        value,
        faults,
        refusal,
        managed_fields,
    } = decode_typed(body, format, definition.object_type.found()).map_err(|why| match format {
        BodyFormat::Json => no_type(&why),
        BodyFormat::Yaml => unrecognized(&why),
    })?;
    let mut object = match value {
        Value::Object(members) => Object::of(members),
        // An empty document is an empty object.
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
    check_kind(&kind, &version, definition, |of| {
        let read = decode_typed(body, format, Some(of));
        read.map_or_else(Some, |read| read.refusal)
    })?;
    if let Some(why) = refusal.or_else(|| definition.why_unreadable(&object)) {
        let (kind, version) = (&definition.kind, &definition.version);
        return Err(Box::new(Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))));
    }
    object.set_type(&definition.kind, &own_version);
    if let Some(text) = managed_fields {
        object.set_managed_fields(Some(text.into()));
    }
    if format == BodyFormat::Json {
        object.keep_texts(body, definition.object_type);
    }
    Ok(Decoded { object, faults })
}

/// The refusal of a body that is no object for this reason (API-89).
pub fn unrecognized(body: &[u8], why: &str, definition: &ResourceDefinition) -> Box<Status> {
    let (kind, summary) = (&definition.kind, summary(body));
    Box::new(Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    )))
}

/// The type of Go that bodies are read into for their kind and version, as refusals name it.
pub(crate) const TYPE_OF_ANY: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
                           Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// What is wrong with a JSON document, in the words of Go where Go refuses it too.
fn json_fault(body: &[u8], error: &serde_json::Error) -> String {
    syntax_error(body).unwrap_or_else(|| error.to_string())
}

/// A type that was found in its schema.
type FoundType = (&'static Schema, StructId);

/// Reads a body by the type of its object.
fn decode_typed(
    body: &[u8],
    format: BodyFormat,
    of: Option<FoundType>,
) -> Result<TypedDocument, String> {
    let fault = |error: serde_json::Error| json_fault(body, &error);
    match format {
        BodyFormat::Json => {
            // Members that are not kept are not looked into, however deep they are.
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
            };
            let read = deep::noted(body, seed.deserialize(&mut reader)).map_err(fault)?;
            reader.end().map_err(fault)?;
            Ok(read)
        }
        BodyFormat::Yaml => {
            let document = read_yaml::<MAX_TREE_BYTES>(body)?;
            let read = TypedSeed::of_tree(of, Numbers::ByValue).deserialize(&document.value);
            let mut read = read.map_err(|error| format!("yaml: {error}"))?;
            // YAML becomes JSON before anything knows its type.
            read.faults.splice(..0, document.duplicates);
            Ok(read)
        }
    }
}

/// Reads a tree by the type of its object, as a patch or YAML leaves it.
///
/// # Errors
/// The tree is too deep.
pub fn type_value(value: &Value, of: ObjectType) -> Result<TypedDocument, serde_json::Error> {
    TypedSeed::of_tree(of.found(), Numbers::ByValue).deserialize(value)
}

/// As [`type_value`], where numbers count as they are written.
///
/// # Errors
/// The tree is too deep.
pub fn type_patched(
    value: &Value,
    of: Option<FoundType>,
) -> Result<TypedDocument, serde_json::Error> {
    TypedSeed::of_tree(of, Numbers::AsWritten).deserialize(value)
}

/// Checks that the body has the kind and version of its path (API-88). `refusal` says what is wrong
/// with it as an object of another type.
fn check_kind(
    kind: &str,
    version: &str,
    definition: &ResourceDefinition,
    refusal: impl FnOnce(FoundType) -> Option<String>,
) -> Result<(), Box<Status>> {
    let (wanted, own_version) = (&definition.kind, definition.api_version());
    let kind = if kind.is_empty() { wanted } else { kind };
    let version = if version.is_empty() {
        &own_version
    } else {
        version
    };
    let (group, bare) = version.split_once('/').unwrap_or(("", version));
    let is_accepted = group == definition.group && definition.accepts.contains(&bare);
    if kind == wanted && (version == own_version || is_accepted) {
        return Ok(());
    }
    if kind == wanted && is_known(kind, version, definition) {
        return Err(Box::new(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version \
             ({own_version})"
        ))));
    }
    let why = of_other_kind(kind, version, definition, refusal);
    Err(Box::new(Status::bad_request(format!(
        "{kind} in version \"{bare}\" cannot be handled as a {wanted}: {why}"
    ))))
}

/// Why an object of this kind and version can't be taken for one of the definition. Who knows the
/// kind reads it first: `refusal` says what is wrong with it as an object of its own type.
pub(crate) fn of_other_kind(
    kind: &str,
    version: &str,
    definition: &ResourceDefinition,
    refusal: impl FnOnce(FoundType) -> Option<String>,
) -> String {
    if !is_known(kind, version, definition) {
        let scheme = scheme_of(&definition.group);
        return format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{scheme}\""
        );
    }
    let found = definition.object_type.found().and_then(|(schema, _)| {
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

/// Why an object of this kind without a version, which kube-apiserver looks for among the types
/// that it has in memory, can't be taken for one of the definition.
pub(crate) fn of_other_internal_kind(kind: &str, definition: &ResourceDefinition) -> String {
    let found = definition.object_type.found();
    let mut kinds = found.into_iter().flat_map(|(schema, _)| schema.structs());
    let is_known = kinds.any(|of| {
        let name = of.kind.as_ref();
        name.is_some_and(|name| name.group == definition.group && name.kind == kind)
    });
    if is_known {
        return no_conversion(definition.internal_package(), kind, definition);
    }
    let (group, scheme) = (&definition.group, scheme_of(&definition.group));
    format!(
        "no kind \"{kind}\" is registered for the internal version of group \"{group}\" in \
         scheme \"{scheme}\""
    )
}

/// Whether Kubernetes has a kind in this version.
fn is_known(kind: &str, version: &str, definition: &ResourceDefinition) -> bool {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let is_in_scheme = scheme_of(group) == scheme_of(&definition.group)
        || group.is_empty() && KINDS_OF_ALL_VERSIONS.contains(&kind);
    is_in_scheme && is_registered(definition.object_type, kind, version)
}

/// The place in Kubernetes' sources of what knows the kinds of a group, as refusals name it. Two
/// groups are served by parts of their own.
fn scheme_of(group: &str) -> &'static str {
    match group {
        "apiregistration.k8s.io" => "pkg/apiserver/scheme/scheme.go:28",
        "apiextensions.k8s.io" => "pkg/apiserver/apiserver.go:55",
        _ => "pkg/api/legacyscheme/scheme.go:30",
    }
}

/// The kinds that each version of each group has.
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

/// Whether there is a kind of this name in this version, with or without a resource, served or not.
/// Types of which little is known know no other kinds, so each version of their own may exist.
fn is_registered(of: ObjectType, kind: &str, version: &str) -> bool {
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

/// The part of a body that a refusal shows: its first 30 bytes, as text when it looks like JSON
/// (API-89).
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

/// Reads any document, and its duplicate members. Whole numbers are exact as int64 and
/// uint64, other numbers are float64 (API-63).
///
/// # Errors
/// The fault in the text.
pub fn decode_value(body: &[u8], format: BodyFormat) -> Result<(Value, Vec<FieldFault>), String> {
    let document = match format {
        BodyFormat::Json => read_json::<tree::Document<MAX_TREE_BYTES>>(body)?,
        BodyFormat::Yaml => read_yaml(body)?,
    };
    Ok((document.value, document.duplicates))
}

/// As [`decode_value`], of JSON that is put into an object: numbers that are written as no whole
/// ones stay so.
///
/// # Errors
/// The fault in the text.
pub fn decode_part(body: &[u8]) -> Result<(Value, Vec<FieldFault>), String> {
    let document = read_json::<tree::Part<MAX_TREE_BYTES>>(body)?.0;
    Ok((document.value, document.duplicates))
}

fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let read = deep::from_json(go_json_text(body).as_bytes());
    read.map_err(|error| json_fault(body, &error))
}

/// Reads stored YAML. It has no limit on the size of the tree, because stored documents must stay
/// readable.
///
/// # Errors
/// The fault in the text.
pub fn decode_stored_yaml(text: &[u8]) -> Result<Value, String> {
    read_yaml::<{ usize::MAX }>(text).map(|document| document.value)
}

/// The first document of a YAML stream. It ends at the second start marker or at an end marker. A
/// line that begins with a marker counts even inside a block of text.
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

/// The limit on parser events that the aliases and merge keys of a document may repeat. A value is
/// one or two events.
const MAX_ALIASED_EVENTS: usize = 200_000;

/// Reads YAML. Without optimization the parser needs up to 20 KiB per level, so it has a stack of
/// its own even for documents that are shallow. Only the touched part of the stack uses memory.
fn read_yaml<const TREE_BYTES: usize>(body: &[u8]) -> Result<tree::Document<TREE_BYTES>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: not UTF-8 text".to_owned())?;
    let (text, stand_in) = yaml_text::without_marks(first_document(text));
    // The parser accepts a tab here, other YAML readers do not.
    if text
        .trim_start_matches([' ', '\r', '\n', '\u{feff}'])
        .starts_with('\t')
    {
        return Err("yaml: found a tab where a document begins".to_owned());
    }
    deep::with_room_for_yaml(|levels| {
        // A document that makes the parser panic is refused. Other requests are not affected.
        let read = std::panic::catch_unwind(|| parse_yaml(&text, levels))
            .unwrap_or_else(|_| Err("yaml: the parser failed".to_owned()));
        read.map(|mut document: tree::Document<TREE_BYTES>| {
            if let Some(letter) = stand_in {
                yaml_text::put_marks_back(&mut document.value, letter);
            }
            for fault in &mut document.duplicates {
                if let FieldFault::Repeated(text_of_fault) = fault {
                    tell_line_of_value(text_of_fault, &text);
                }
            }
            document
        })
    })
}

/// Says of a name that is given again the line of its value instead of its own place.
fn tell_line_of_value(fault: &mut String, text: &str) {
    let place = fault.split_once(' ').and_then(|(place, rest)| {
        let mut numbers = place.split(':').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(((next()?, next()?), next()? == 1, rest))
    });
    if let Some((at, is_null, rest)) = place {
        let line = yaml_text::line_of_value(text, at, is_null);
        *fault = format!("line {line}: {rest}");
    }
}

/// Reads YAML as Kubernetes clients write it: 1.1 booleans and octals, merge keys, and the last of
/// two equal keys.
fn parse_yaml<const TREE_BYTES: usize>(
    text: &str,
    levels: usize,
) -> Result<tree::Document<TREE_BYTES>, String> {
    let budget = serde_saphyr::budget! {
        // The tree refuses one level too many with a better message.
        max_depth: levels + 1,
        flow_nesting_limit: levels + 1,
        // More than any object has, but few enough to take less than a second.
        max_events: 3_000_000,
        max_nodes: 1_500_000,
        max_recorded_anchor_events: MAX_ALIASED_EVENTS,
        // The ratio of aliases to anchors says nothing. The limits below bound the expanded size.
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
        // Names may be such numbers. Values are refused where they are read.
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
        // The reader of Kubernetes tells no first line.
        let line = error.location().map_or(1, |location| location.line());
        match line {
            ..=1 => format!("yaml: exceeded max depth of {levels}"),
            line => format!("yaml: line {line}: exceeded max depth of {levels}"),
        }
    })
}

#[cfg(test)]
mod tests;
