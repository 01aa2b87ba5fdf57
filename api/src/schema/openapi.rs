//! OpenAPI schemas of types (API-43, API-44).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::model::{Field, ListType, Scalar, Schema, SchemaName, Shape, Struct, StructId, Type};

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApiVersion {
    /// Swagger 2.0. Siblings of references are ignored, and defaults are left out.
    V2,
    /// OpenAPI 3.0. References with siblings are wrapped in `allOf`.
    V3,
}

/// How a document names types, refers to them, and describes them.
pub trait Names {
    /// Returns the format of the document.
    fn version(&self) -> OpenApiVersion;

    /// Returns the name of a type's schema, by package and name: `apps.v1`, `Deployment`.
    fn name(&self, package: &str, name: &str) -> String;

    /// Returns a reference to the schema with this name.
    fn reference(&self, name: &str) -> Value;

    /// Returns the descriptions of the type whose schema has this name.
    fn description(&self, schema: &str) -> Box<dyn Description + '_>;
}

/// The descriptions of a type and its fields.
pub trait Description {
    /// Returns the description of the type.
    fn of_type(&self) -> Option<Cow<'_, str>>;

    /// Returns the description of a field, by its name in JSON.
    fn of_field(&self, name: &str) -> Option<Cow<'_, str>>;
}

/// A type that has a schema of its own in documents.
#[derive(Clone, Copy, Debug)]
pub enum Part<'s> {
    /// A struct.
    Struct(&'s Struct),
    /// Another type.
    Plain(&'s Type),
}

impl Schema {
    /// Adds the results of a function for a struct and all types that it uses, by the names of
    /// their schemas. Keeps entries that exist already.
    pub fn add_parts<'s, T>(
        &'s self,
        id: StructId,
        names: &dyn Names,
        parts: &mut BTreeMap<String, T>,
        make: impl Fn(Part<'s>) -> T,
    ) {
        let mut todo = vec![id];
        while let Some(id) = todo.pop() {
            let Some(of) = self.get(id) else { continue };
            let name = names.name(&of.package, &of.name);
            if parts.contains_key(&name) {
                continue;
            }
            parts.insert(name, make(Part::Struct(of)));
            for field in of.fields() {
                match part(&field.of) {
                    Found::Struct(id) => todo.push(id),
                    Found::Plain(of, name) => {
                        parts.insert(names.name(&name.package, &name.name), make(Part::Plain(of)));
                    }
                    Found::Nothing => {}
                }
            }
        }
    }

    /// Returns the schema of a part with this name.
    pub fn openapi(&self, name: &str, part: Part<'_>, names: &dyn Names) -> Value {
        let description = names.description(name);
        let mut schema = match part {
            Part::Struct(of) => self.of_struct(of, &*description, names),
            Part::Plain(of) => of_its_own(of, names.version()),
        };
        if let Some(text) = description.of_type() {
            schema["description"] = text.into();
        }
        schema
    }

    fn of_struct(&self, of: &Struct, description: &dyn Description, names: &dyn Names) -> Value {
        let mut properties = Map::new();
        if of.kind.is_some() {
            for name in ["apiVersion", "kind"] {
                let mut schema = json!({"type": "string"});
                if let Some(text) = description.of_field(name) {
                    schema["description"] = text.into();
                }
                properties.insert(name.to_owned(), schema);
            }
        }
        for field in of.fields() {
            let text = description.of_field(&field.name);
            properties.insert(field.name.clone(), self.field(field, text, names));
        }
        let mut schema = json!({"type": "object"});
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        let required = of.fields().iter().filter(|field| field.is_required);
        let mut required: Vec<&Field> = required.collect();
        required.sort_by_key(|field| field.position);
        let required = required.into_iter();
        let required: Vec<&str> = required.map(|field| field.name.as_str()).collect();
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if of.is_atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        if of.is_union {
            schema["x-kubernetes-unions"] = json!([union(of)]);
        }
        if let Some(kind) = &of.kind {
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
        }
        schema
    }

    fn field(&self, field: &Field, text: Option<Cow<'_, str>>, names: &dyn Names) -> Value {
        let mut schema = self.of_type(&field.of, names);
        let mut more = Map::new();
        let mut say = |name: &str, value: Value| {
            more.insert(name.to_owned(), value);
        };
        if let Some(text) = text {
            say("description", with_values(text, &field.of).into());
        }
        if let Some(is_atomic) = field.is_atomic {
            let map_type = if is_atomic { "atomic" } else { "granular" };
            say("x-kubernetes-map-type", map_type.into());
        }
        match &field.list {
            None => {}
            Some(ListType::Atomic) => say("x-kubernetes-list-type", "atomic".into()),
            Some(ListType::Set) => say("x-kubernetes-list-type", "set".into()),
            Some(ListType::Map(keys)) => {
                say("x-kubernetes-list-type", "map".into());
                say("x-kubernetes-list-map-keys", json!(keys));
            }
        }
        if let Some(patch) = &field.patch {
            let strategies: Vec<&str> = patch.strategies.iter().map(|one| one.name()).collect();
            say("x-kubernetes-patch-strategy", strategies.join(",").into());
            if let Some(key) = &patch.key {
                say("x-kubernetes-patch-merge-key", key.as_str().into());
            }
        }
        if names.version() == OpenApiVersion::V3
            && let Some(default) = field.value_if_absent()
        {
            say("default", default);
        }
        let is_wrapped = names.version() == OpenApiVersion::V3 && !more.is_empty();
        if is_wrapped && schema.get("$ref").is_some() {
            schema = json!({"allOf": [schema]});
        }
        if let Value::Object(members) = &mut schema {
            members.append(&mut more);
        }
        schema
    }

    fn of_type(&self, of: &Type, names: &dyn Names) -> Value {
        if let Some(SchemaName { package, name }) = of.schema_name.as_deref() {
            return names.reference(&names.name(package, name));
        }
        let mut schema = match &of.shape {
            Shape::Struct(id) => match self.get(*id) {
                Some(part) => return names.reference(&names.name(&part.package, &part.name)),
                None => json!({"type": "object"}),
            },
            Shape::List(item) => json!({"type": "array", "items": self.of_type(item, names)}),
            Shape::Map(value) => {
                json!({"type": "object", "additionalProperties": self.of_type(value, names)})
            }
            Shape::Scalar(scalar) => of_scalar(*scalar),
            Shape::Object => json!({"type": "object"}),
            Shape::Any => json!({}),
        };
        if !of.values.is_empty() {
            schema["enum"] = json!(of.values);
        }
        schema
    }
}

/// A type with a schema of its own that another type uses.
enum Found<'s> {
    Struct(StructId),
    /// Another type, with the name of its schema.
    Plain(&'s Type, &'s SchemaName),
    Nothing,
}

fn part(of: &Type) -> Found<'_> {
    match (&of.shape, of.schema_name.as_deref()) {
        (Shape::List(inner) | Shape::Map(inner), _) => part(inner),
        (Shape::Struct(id), _) => Found::Struct(*id),
        (_, Some(name)) => Found::Plain(of, name),
        (_, None) => Found::Nothing,
    }
}

/// Appends the valid values of a field to its description.
fn with_values<'t>(text: Cow<'t, str>, of: &Type) -> Cow<'t, str> {
    if of.values.is_empty() {
        return text;
    }
    let mut text = text.into_owned();
    text.push_str("\n\nPossible enum values:");
    for value in &of.values {
        // Writing to memory can't fail.
        let _ = write!(text, "\n - `\"{value}\"`");
    }
    text.into()
}

/// Returns the fields of a union, by their names in JSON and in Go.
fn union(of: &Struct) -> Value {
    let mut union = json!({});
    let mut members = Map::new();
    for field in of.fields() {
        if field.is_discriminator {
            union["discriminator"] = field.name.as_str().into();
            continue;
        }
        let mut letters = field.name.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        let go_name: String = first.into_iter().chain(letters).collect();
        members.insert(field.name.clone(), go_name.into());
    }
    union["fields-to-discriminateBy"] = members.into();
    union
}

fn of_scalar(scalar: Scalar) -> Value {
    match scalar {
        Scalar::String | Scalar::Duration => json!({"type": "string"}),
        Scalar::Bool => json!({"type": "boolean"}),
        Scalar::Int32 => json!({"type": "integer", "format": "int32"}),
        Scalar::Int64 => json!({"type": "integer", "format": "int64"}),
        Scalar::Float64 => json!({"type": "number", "format": "double"}),
        Scalar::Bytes => json!({"type": "string", "format": "byte"}),
        Scalar::Time | Scalar::MicroTime => json!({"type": "string", "format": "date-time"}),
        Scalar::Quantity => json!({"type": "string"}),
        Scalar::IntOrString => json!({"type": "string", "format": "int-or-string"}),
    }
}

/// Returns the schema of a type that has one without being a struct.
fn of_its_own(of: &Type, version: OpenApiVersion) -> Value {
    match (&of.shape, version) {
        (Shape::Scalar(Scalar::Quantity), OpenApiVersion::V3) => {
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
        }
        (Shape::Scalar(Scalar::IntOrString), OpenApiVersion::V3) => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        (Shape::Scalar(scalar), _) => of_scalar(*scalar),
        (Shape::Any, _) => json!({}),
        _ => json!({"type": "object"}),
    }
}

impl Field {
    /// Returns the default of the field: the one that the API declares, or the zero value of a
    /// field that is always present.
    pub fn value_if_absent(&self) -> Option<Value> {
        if let Some(text) = &self.default {
            let value = serde_json::from_str(text);
            return Some(value.unwrap_or_else(|_| text.as_str().into()));
        }
        if self.of.is_pointer {
            return None;
        }
        match &self.of.shape {
            Shape::Struct(_) => Some(json!({})),
            Shape::Scalar(
                Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString,
            ) => None,
            Shape::Scalar(_) if !self.is_always_printed => None,
            Shape::Scalar(Scalar::String | Scalar::Duration) => Some("".into()),
            Shape::Scalar(Scalar::Bool) => Some(false.into()),
            Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float64) => Some(0.into()),
            Shape::Scalar(Scalar::Bytes)
            | Shape::List(_)
            | Shape::Map(_)
            | Shape::Object
            | Shape::Any => None,
        }
    }
}
