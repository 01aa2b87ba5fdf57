//! The canonical form of objects (API-254, PF-3): the JSON that Kubernetes prints of an object
//! after decoding it.
//!
//! Kubernetes decodes objects into Go structs and prints those. So an absent member is printed if
//! its field has no `omitempty`, and an empty value is left out unless its field is a pointer. Two
//! bodies with the same meaning are equal in this form.
//!
//! Until an object is stored, it keeps the empty lists and maps that Go distinguishes from absent
//! ones. Clients see them in fields that are always printed, which the writer then owns, and in the
//! validation of some fields, which the notation marks as `empty`.

use serde_json::{Map, Value};

use super::model::{Field, Scalar, Schema, Shape, StructId, Type};

type Members = Map<String, Value>;

/// The empty lists and maps that the canonical form keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// None, as when an object is read from storage.
    Forgotten,
    /// Those of fields that are always printed, as Go prints an object right after decoding it.
    Printed,
    /// Those that validation must distinguish from absent ones.
    Distinguished,
}

impl Empty {
    fn stays(self, field: &Field) -> bool {
        match self {
            Empty::Forgotten => false,
            Empty::Printed => field.is_always_printed,
            Empty::Distinguished => field.keeps_empty(),
        }
    }
}

impl Field {
    /// Returns whether an empty list or map differs from an absent one until the object is stored.
    pub(crate) fn keeps_empty(&self) -> bool {
        let has_items = matches!(self.of.shape, Shape::List(_) | Shape::Map(_));
        has_items && (self.is_always_printed || self.distinguishes_empty)
    }
}

impl Schema {
    /// Brings the members of a struct into the canonical form. A second call changes nothing. The
    /// values must fit the types of the schema.
    pub fn canonicalize(&self, id: StructId, members: &mut Members) {
        self.canonicalize_with(id, members, Empty::Forgotten);
    }

    /// Brings the members of a struct into the canonical form that keeps the empty lists and maps
    /// selected by `empty`. Returns whether it kept any.
    pub fn canonicalize_with(&self, id: StructId, members: &mut Members, empty: Empty) -> bool {
        let Some(of) = self.get(id) else {
            return false;
        };
        let mut has_empty = false;
        members.retain(|name, value| {
            let Some(field) = of.field(name) else {
                return true;
            };
            if value.is_null() {
                // The field is added below if it is always printed.
                return false;
            }
            if is_nil(&field.of, value) && empty.stays(field) {
                has_empty = true;
                return true;
            }
            has_empty |= self.canonicalize_value(id, &field.of, value, empty);
            if field.of.is_pointer || !is_zero(&field.of, value) {
                return true;
            }
            if field.is_always_printed && is_nil(&field.of, value) {
                *value = Value::Null;
            }
            field.is_always_printed || prints_zero(field)
        });
        for field in of.printed_without_value() {
            if let (false, Some(value)) = (members.contains_key(&field.name), self.absent(field)) {
                members.insert(field.name.clone(), value);
            }
        }
        has_empty
    }

    /// Adds the structs that exist in Go even if they are absent in JSON, so that defaulting can
    /// set their fields.
    pub fn add_structs(&self, id: StructId, members: &mut Members) {
        let Some(of) = self.get(id) else {
            return;
        };
        for field in of.printed_without_value() {
            let is_struct = matches!(field.of.shape, Shape::Struct(_)) && !field.of.is_pointer;
            if is_struct && !matches!(members.get(&field.name), Some(Value::Object(_))) {
                members.insert(field.name.clone(), Value::Object(Map::new()));
            }
        }
        for (name, value) in members.iter_mut() {
            if let Some(field) = of.field(name) {
                self.add_structs_below(&field.of, value);
            }
        }
    }

    fn add_structs_below(&self, of: &Type, value: &mut Value) {
        match (&of.shape, value) {
            (Shape::Struct(id), Value::Object(members)) => self.add_structs(*id, members),
            (Shape::List(item), Value::Array(items)) if has_parts(item) => {
                for value in items {
                    self.add_structs_below(item, value);
                }
            }
            (Shape::Map(item), Value::Object(members)) if has_parts(item) => {
                for value in members.values_mut() {
                    self.add_structs_below(item, value);
                }
            }
            _ => {}
        }
    }

    /// Brings the value of a field of the struct `owner` into the canonical form.
    fn canonicalize_value(
        &self,
        owner: StructId,
        of: &Type,
        value: &mut Value,
        empty: Empty,
    ) -> bool {
        match (&of.shape, value) {
            // A JSON schema inside a schema, or several.
            (Shape::Any, Value::Object(members)) if of.schema_or.is_some() => {
                self.canonicalize_with(owner, members, empty)
            }
            (Shape::Any, Value::Array(items)) if of.schema_or.is_some() => {
                let mut has_empty = false;
                for value in items {
                    has_empty |= self.canonicalize_value(owner, of, value, empty);
                }
                has_empty
            }
            (Shape::Struct(id), Value::Object(members)) => {
                self.canonicalize_with(*id, members, empty)
            }
            (Shape::List(item), Value::Array(items)) if has_parts(item) => {
                let mut has_empty = false;
                for value in items {
                    has_empty |= self.canonicalize_value(owner, item, value, empty);
                }
                has_empty
            }
            (Shape::Map(item), Value::Object(members)) if has_parts(item) => {
                let mut has_empty = false;
                for value in members.values_mut() {
                    has_empty |= self.canonicalize_value(owner, item, value, empty);
                }
                has_empty
            }
            _ => false,
        }
    }

    /// Returns the value that is printed for an absent field, if any.
    pub(super) fn absent(&self, field: &Field) -> Option<Value> {
        if field.of.is_pointer {
            return field.is_always_printed.then_some(Value::Null);
        }
        match &field.of.shape {
            Shape::Struct(id) if !field.omits_zero_struct => {
                let mut members = Map::new();
                self.canonicalize(*id, &mut members);
                Some(Value::Object(members))
            }
            Shape::Scalar(scalar) => absent_scalar(*scalar, field),
            Shape::Object if !field.omits_zero_struct => Some(Value::Null),
            _ => field.is_always_printed.then_some(Value::Null),
        }
    }
}

/// Returns whether a field may be printed without a value. That includes structs with `omitzero`,
/// because defaulting may add them.
pub(super) fn is_printed_without_value(field: &Field) -> bool {
    let is_struct = match &field.of.shape {
        Shape::Struct(_) | Shape::Object => true,
        Shape::Scalar(scalar) => matches!(
            scalar,
            Scalar::Time
                | Scalar::MicroTime
                | Scalar::Quantity
                | Scalar::IntOrString
                | Scalar::Duration
        ),
        Shape::List(_) | Shape::Map(_) | Shape::Any => false,
    };
    field.is_always_printed || is_struct && !field.of.is_pointer
}

fn absent_scalar(scalar: Scalar, field: &Field) -> Option<Value> {
    // In Go these are structs, which `omitempty` does not omit.
    let of_struct = match scalar {
        Scalar::Time | Scalar::MicroTime => Value::Null,
        Scalar::Quantity => "0".into(),
        Scalar::IntOrString => 0.into(),
        Scalar::Duration => "0s".into(),
        Scalar::String => return field.is_always_printed.then(|| "".into()),
        Scalar::Bool => return field.is_always_printed.then(|| false.into()),
        Scalar::Int32 | Scalar::Int64 | Scalar::Float64 => {
            return field.is_always_printed.then(|| 0.into());
        }
        Scalar::Bytes => return field.is_always_printed.then_some(Value::Null),
    };
    (!field.omits_zero_struct).then_some(of_struct)
}

fn has_parts(of: &Type) -> bool {
    match of.shape {
        Shape::Struct(_) | Shape::List(_) | Shape::Map(_) => true,
        Shape::Any => of.schema_or.is_some(),
        Shape::Scalar(_) | Shape::Object => false,
    }
}

/// Returns whether a value is Go's zero value. `of` must not be a pointer.
pub(crate) fn is_zero(of: &Type, value: &Value) -> bool {
    match (&of.shape, value) {
        (Shape::Scalar(Scalar::String | Scalar::Bytes), Value::String(text)) => text.is_empty(),
        (Shape::Scalar(Scalar::Bool), Value::Bool(value)) => !value,
        (Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float64), Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        // Any JSON counts as a value, even if it is empty.
        (Shape::Object | Shape::Any, _) => false,
        (_, Value::Array(items)) => items.is_empty(),
        (Shape::Struct(_) | Shape::Map(_), Value::Object(members)) => members.is_empty(),
        _ => false,
    }
}

/// Returns whether a value is an empty list or map, which Kubernetes stores like an absent one.
fn is_nil(of: &Type, value: &Value) -> bool {
    let is_empty = match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    is_empty && !matches!(of.shape, Shape::Struct(_))
}

/// Returns whether the field is a struct that is printed even without members.
fn prints_zero(field: &Field) -> bool {
    matches!(field.of.shape, Shape::Struct(_)) && !field.omits_zero_struct
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "package a.v1\n\n\
        type Thing kind\n  1 spec Spec\n  2 status Status omitzero\n\n\
        type Spec\n  1 replicas *int32\n  2 count int32\n  3 selector *Part always\n\
        \x20 4 parts []Part always\n  5 labels map[string]string\n  6 part Part\n\
        \x20 7 size quantity\n  8 at time\n  9 port intorstring omitzero\n  10 more []Part\n\
        \x20 11 terms Terms always\n\n\
        type Status\n  1 phase string\n\n\
        type Terms\n  1 labels map[string]string\n\n\
        type Part\n  1 name string always\n  2 note string\n  3 on *bool\n";

    fn canonical(value: Value) -> Value {
        let schema = Schema::read(&[TEXT]).unwrap();
        let Value::Object(mut members) = value else {
            panic!("an object");
        };
        let id = schema.find("a.v1.Thing").unwrap();
        schema.canonicalize(id, &mut members);
        let once = members.clone();
        schema.canonicalize(id, &mut members);
        assert_eq!(once, members);
        Value::Object(members)
    }

    /// API-254.
    #[test]
    fn fields_are_printed_as_go_prints_them() {
        let empty = json!({"spec": {
            "selector": null, "parts": null, "part": {"name": ""}, "size": "0", "at": null,
            "terms": {},
        }});
        for body in [
            json!({}),
            json!({"spec": null, "status": {}}),
            json!({"spec": {"count": 0, "parts": [], "labels": {}, "more": [], "part": {},
                    "terms": {}},
                   "status": {"phase": ""}}),
        ] {
            assert_eq!(canonical(body), empty);
        }
        let given = json!({"spec": {
            "replicas": 0, "count": 1, "selector": {"name": "", "on": false},
            "parts": [{"name": "a"}], "labels": {"a": ""}, "part": {"name": "", "note": "n"},
            "size": "1", "at": "2001-02-03T04:05:06Z", "port": "web", "more": [{"name": ""}],
            "terms": {"labels": {"a": "b"}},
        }, "status": {"phase": "On"}});
        let mut body = given.clone();
        body["spec"]["more"] = json!([{"note": ""}]);
        body["spec"]["selector"] = json!({"on": false});
        assert_eq!(canonical(body), given);
    }
}
