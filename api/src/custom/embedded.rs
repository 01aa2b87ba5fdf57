//! Metadata of custom resources and of the objects embedded in them (CRD-130, CRD-131).

use serde_json::{Map, Value};

use crate::decode::type_value;
use crate::error_list::ErrorList;
use crate::field_error::FieldError;
use crate::field_validation::StrictDecodingError;
use crate::metadata::validate_embedded;
use crate::names;
use crate::object::Object;
use crate::schema::object_meta;
use crate::structural::{KeyedPath, Node};
use crate::text::go_time::{self, Decimals};
use crate::text::json_type;

type Members = Map<String, Value>;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// The most unknown members that are reported.
const MAX_UNKNOWN: usize = 100;

/// The treatment of members of metadata that have a wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongTypes {
    /// They are errors, as in requests.
    Refused,
    /// They are dropped one by one, as when a stored object is read.
    Dropped,
}

/// Checks the types of kind, apiVersion and metadata of embedded objects, and brings the metadata
/// into the canonical form. Returns the unknown members of metadata, which it drops, sorted by
/// path.
///
/// # Errors
/// A member has a wrong type.
pub fn coerce_embedded(
    members: &mut Members,
    schema: Node<'_>,
    wrong_types: WrongTypes,
) -> Result<Vec<StrictDecodingError>, FieldError> {
    if !schema.has_embedded() {
        return Ok(Vec::new());
    }
    let mut coercion = Coercion {
        wrong_types,
        unknown: Vec::new(),
    };
    coercion.members(members, schema, &KeyedPath::Top)?;
    let mut unknown = coercion.unknown;
    unknown.sort_by_cached_key(StrictDecodingError::to_string);
    Ok(unknown)
}

struct Coercion {
    wrong_types: WrongTypes,
    unknown: Vec<StrictDecodingError>,
}

impl Coercion {
    fn members(
        &mut self,
        members: &mut Members,
        schema: Node<'_>,
        at: &KeyedPath<'_>,
    ) -> Result<(), FieldError> {
        if schema.is_embedded() {
            self.types(members, at)?;
            if let Some(metadata) = members.get_mut("metadata") {
                self.metadata(metadata, at)?;
            }
        }
        for (name, value) in members {
            match schema.property(name) {
                Some(of) => self.value(value, of, &KeyedPath::Member(at, name))?,
                None => {
                    if let Some(of) = schema.member(name) {
                        self.value(value, of, &KeyedPath::Key(at, name))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        value: &mut Value,
        schema: Node<'_>,
        at: &KeyedPath<'_>,
    ) -> Result<(), FieldError> {
        if !schema.has_embedded() {
            return Ok(());
        }
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match (value, schema.items()) {
            (Value::Object(members), _) => self.members(members, schema, at),
            (Value::Array(items), Some(of)) => {
                let mut items = items.iter_mut().enumerate();
                items
                    .try_for_each(|(place, item)| self.value(item, of, &KeyedPath::Item(at, place)))
            }
            _ => Ok(()),
        })
    }

    fn types(&self, members: &mut Members, at: &KeyedPath<'_>) -> Result<(), FieldError> {
        for name in ["apiVersion", "kind"] {
            match members.get(name) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.wrong_types == WrongTypes::Dropped => {
                    members.remove(name);
                }
                Some(other) => {
                    let path = KeyedPath::Member(at, name).to_string();
                    let detail = "must be a string";
                    return Err(FieldError::invalid(path, other.clone(), detail));
                }
            }
        }
        Ok(())
    }

    fn metadata(&mut self, metadata: &mut Value, at: &KeyedPath<'_>) -> Result<(), FieldError> {
        let path = KeyedPath::Member(at, "metadata");
        let unknown = coerce_metadata(metadata, self.wrong_types)
            .map_err(|why| FieldError::invalid(path.to_string(), metadata.clone(), why))?;
        let room = MAX_UNKNOWN.saturating_sub(self.unknown.len());
        let unknown = unknown.into_iter().take(room);
        self.unknown
            .extend(unknown.map(|below| StrictDecodingError::Unknown(format!("{path}.{below}"))));
        Ok(())
    }
}

/// Brings metadata into the canonical form. Null becomes the empty one. Returns the paths of
/// unknown members, which it drops.
///
/// # Errors
/// Go's error for a member of a wrong type, unless such members are dropped.
pub fn coerce_metadata(
    metadata: &mut Value,
    wrong_types: WrongTypes,
) -> Result<Vec<String>, String> {
    if metadata.as_object().is_some_and(is_canonical) {
        return Ok(Vec::new());
    }
    let of = object_meta();
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let read = match &*metadata {
        Value::Object(_) => type_value(metadata, &of).map_err(|error| error.to_string())?,
        other => {
            let found = json_type(other);
            return Err(format!(
                "json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"
            ));
        }
    };
    let unknown = read.faults.into_iter().filter_map(|error| match error {
        StrictDecodingError::Unknown(path) => Some(path),
        _ => None,
    });
    let unknown = unknown.collect();
    let mut members = match (read.refusal, read.value) {
        (None, Value::Object(members)) => members,
        (Some(why), _) if wrong_types == WrongTypes::Refused => return Err(why),
        _ => fitting(metadata),
    };
    if let Some((schema, id)) = of.found() {
        schema.canonicalize(id, &mut members);
    }
    *metadata = Value::Object(members);
    Ok(unknown)
}

/// Returns whether metadata is surely in the canonical form, as that of most stored objects is.
fn is_canonical(metadata: &Members) -> bool {
    metadata
        .iter()
        .all(|(name, value)| match (name.as_str(), value) {
            (
                "name" | "generateName" | "namespace" | "uid" | "resourceVersion",
                Value::String(text),
            ) => !text.is_empty(),
            ("creationTimestamp" | "deletionTimestamp", Value::String(text)) => {
                go_time::canonical(text, Decimals::Any).as_ref() == Ok(&Some(text.clone()))
            }
            ("generation", Value::Number(number)) => {
                number.as_i64().is_some_and(|number| number != 0)
            }
            ("labels" | "annotations", Value::Object(texts)) => {
                !texts.is_empty() && texts.values().all(Value::is_string)
            }
            ("finalizers", Value::Array(texts)) => {
                // linear: the items belong to this member alone.
                !texts.is_empty() && texts.iter().all(Value::is_string)
            }
            _ => false,
        })
}

/// Returns the members of metadata that have valid types.
fn fitting(metadata: &Value) -> Members {
    let of = object_meta();
    let members = metadata.as_object().into_iter().flatten();
    let fitting = members.filter_map(|(name, value)| {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        let read = type_value(&Value::Object(alone), &of).ok()?;
        match (read.refusal, read.value) {
            (None, Value::Object(members)) => Some(members),
            _ => None,
        }
    });
    fitting.flatten().collect()
}

/// Validates kind, apiVersion and metadata of embedded objects (CRD-130). An update validates
/// unchanged ones, too.
pub fn validate_embedded_objects(members: &Members, schema: Node<'_>, errors: &mut ErrorList) {
    if schema.has_embedded() {
        validate_members(members, schema, &KeyedPath::Top, errors);
    }
}

fn validate_members(
    members: &Members,
    schema: Node<'_>,
    at: &KeyedPath<'_>,
    errors: &mut ErrorList,
) {
    if schema.is_embedded() {
        let path = |name: &str| KeyedPath::Member(at, name).to_string();
        validate_embedded_object(members, &path, errors);
    }
    for (name, value) in members {
        match schema.property(name) {
            Some(of) => validate_below(value, of, &KeyedPath::Member(at, name), errors),
            None => {
                if let Some(of) = schema.member(name) {
                    validate_below(value, of, &KeyedPath::Key(at, name), errors);
                }
            }
        }
    }
}

fn validate_below(value: &Value, schema: Node<'_>, at: &KeyedPath<'_>, errors: &mut ErrorList) {
    if !schema.has_embedded() {
        return;
    }
    stacker::maybe_grow(RED_ZONE, MORE_STACK, || match (value, schema.items()) {
        (Value::Object(members), _) => validate_members(members, schema, at, errors),
        (Value::Array(items), Some(of)) => {
            for (place, item) in items.iter().enumerate() {
                validate_below(item, of, &KeyedPath::Item(at, place), errors);
            }
        }
        _ => {}
    });
}

/// Validates kind, apiVersion and metadata of an object whose paths `path` returns. Their types
/// have been checked.
pub fn validate_embedded_object(
    members: &Members,
    path: &dyn Fn(&str) -> String,
    errors: &mut ErrorList,
) {
    for name in ["apiVersion", "kind"] {
        if !members.contains_key(name) {
            errors.push(FieldError::required(path(name), ""));
        }
    }
    for name in ["apiVersion", "kind"] {
        let text = match members.get(name) {
            None => continue,
            Some(Value::String(text)) => text,
            Some(other) => {
                let detail = "must be a string";
                errors.push(FieldError::invalid(path(name), other.clone(), detail));
                continue;
            }
        };
        let wrong = match name {
            _ if text.is_empty() => Some("must not be empty".to_owned()),
            "apiVersion" => (text.matches('/').count() > 1)
                .then(|| format!("unexpected GroupVersion string: {text}")),
            _ => {
                let wrong = names::dns1035_label(&text.to_lowercase());
                let wrong = (!wrong.is_empty()).then(|| wrong.join(","));
                wrong.map(|wrong| {
                    format!("may have mixed case, but should otherwise match: {wrong}")
                })
            }
        };
        if let Some(detail) = wrong {
            errors.push(FieldError::invalid(path(name), text.as_str(), detail));
        }
    }
    if let Some(metadata) = members.get("metadata") {
        validate_metadata(metadata, &path("metadata"), errors);
    }
}

/// Validates the metadata of an embedded object at a path.
pub fn validate_metadata(metadata: &Value, path: &str, errors: &mut ErrorList) {
    let mut coerced = metadata.clone();
    if let Err(wrong) = coerce_metadata(&mut coerced, WrongTypes::Refused) {
        errors.push(FieldError::invalid(path, metadata.clone(), wrong));
        return;
    }
    let members = Map::from_iter([("metadata".to_owned(), coerced)]);
    for mut error in validate_embedded(&Object::of(members)) {
        if let Some(below) = error.path.strip_prefix("metadata") {
            error.path = format!("{path}{below}");
        }
        errors.push(error);
    }
}
