//! Reading an object's fields for validation: values with their paths.
//!
//! Objects have been decoded by their schema when they are validated, so a value has the type that
//! its schema says, or is absent. A text that is read of anything else is empty, and so on.

use std::fmt;

use serde_json::Value;

use crate::cost;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::object::Object;

/// A value in an object, or the absence of one, with its path. The path is written only when a
/// fault is reported.
#[derive(Clone, Copy)]
pub struct Field<'f> {
    above: Option<&'f Field<'f>>,
    step: Step<'f>,
    value: Option<&'f Value>,
}

/// The last part of a path.
#[derive(Clone, Copy)]
enum Step<'f> {
    /// A name that begins a path.
    Top(&'f str),
    /// A member of a struct: `.name`.
    Member(&'f str),
    /// An item of a list: `[3]`.
    Item(usize),
    /// A key of a map: `[name]`.
    Key(&'f str),
}

impl<'f> Field<'f> {
    /// A member of the whole object: `spec`.
    pub fn of(object: &'f Object, name: &'f str) -> Field<'f> {
        Field::named(name, object.0.get(name))
    }

    /// A value whose path begins with this name.
    pub fn named(path: &'f str, value: Option<&'f Value>) -> Field<'f> {
        Field {
            above: None,
            step: Step::Top(path),
            value: value.filter(|value| !value.is_null()),
        }
    }

    fn below(&'f self, step: Step<'f>, value: Option<&'f Value>) -> Field<'f> {
        cost::visited();
        Field {
            above: Some(self),
            step,
            value: value.filter(|value| !value.is_null()),
        }
    }

    /// A member of a struct, which may be absent.
    pub fn member(&'f self, name: &'f str) -> Field<'f> {
        let value = self.value.and_then(|value| value.get(name));
        self.below(Step::Member(name), value)
    }

    /// A key of a map, which may be absent. Its path ends in `[name]`.
    pub fn key(&'f self, name: &'f str) -> Field<'f> {
        let value = self.value.and_then(|value| value.get(name));
        self.below(Step::Key(name), value)
    }

    /// Another value that is reported at this path.
    pub fn with_value(&self, value: &'f Value) -> Field<'f> {
        Field {
            value: Some(value).filter(|value| !value.is_null()),
            ..*self
        }
    }

    /// An item of a list, which may be absent.
    pub fn index(&'f self, index: usize) -> Field<'f> {
        let value = self.value.and_then(|value| value.get(index));
        self.below(Step::Item(index), value)
    }

    /// The items of a list.
    pub fn items(&'f self) -> impl Iterator<Item = Field<'f>> {
        let items = self.list().iter().enumerate();
        items.map(|(index, item)| self.below(Step::Item(index), Some(item)))
    }

    /// The keys and values of a map, in order of keys.
    pub fn entries(&'f self) -> impl Iterator<Item = (&'f str, Field<'f>)> {
        let members = self.value.and_then(Value::as_object).into_iter().flatten();
        members.map(|(key, value)| {
            let field = self.below(Step::Key(key), Some(value));
            (key.as_str(), field)
        })
    }

    /// The value, if there is one.
    pub fn value(&self) -> Option<&'f Value> {
        self.value
    }

    /// Whether there is a value.
    pub fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// The items of a list; none if there is no list.
    pub fn list(&self) -> &'f [Value] {
        let list = self.value.and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// The number of items of a list, or of keys of a map.
    pub fn len(&self) -> usize {
        match self.value {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(members)) => members.len(),
            _ => 0,
        }
    }

    /// Whether a list or a map has nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A text; empty if there is none.
    pub fn text(&self) -> &'f str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    /// A whole number, if there is one.
    pub fn int(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    /// A boolean, if there is one.
    pub fn bool(&self) -> Option<bool> {
        self.value.and_then(Value::as_bool)
    }

    /// Whether a boolean is true.
    pub fn is_true(&self) -> bool {
        self.bool() == Some(true)
    }

    /// The path: `spec.containers[0].image`.
    pub fn path(&self) -> String {
        self.to_string()
    }

    /// The value, as a fault shows it.
    fn shown(&self) -> &'f Value {
        self.value.unwrap_or(&Value::Null)
    }

    /// A fault of this kind that shows the value.
    pub fn fault(&self, kind: FieldErrorKind, detail: impl Into<String>) -> FieldError {
        FieldError::new(kind, self.path(), self.shown(), detail)
    }

    /// The value breaks a rule. An absent text or list shows as `null`; see
    /// [`Field::invalid_value`].
    pub fn invalid(&self, detail: impl Into<String>) -> FieldError {
        self.fault(FieldErrorKind::Invalid, detail)
    }

    /// The value breaks a rule, and the fault shows this value for it.
    pub fn invalid_value(&self, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path(), value, detail)
    }

    /// The value must be set.
    pub fn required(&self, detail: impl Into<String>) -> FieldError {
        FieldError::required(self.path(), detail)
    }

    /// The value may not be set.
    pub fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(self.path(), detail)
    }

    /// The text is not one of these. An absent text shows as empty.
    pub fn not_supported(&self, supported: &[&str]) -> FieldError {
        let value = self.value.cloned().unwrap_or_else(|| "".into());
        FieldError::not_supported(self.path(), value, supported)
    }

    /// The value is in the list already.
    pub fn duplicate(&self) -> FieldError {
        self.fault(FieldErrorKind::Duplicate, "")
    }

    /// The value names what does not exist.
    pub fn not_found(&self) -> FieldError {
        self.fault(FieldErrorKind::NotFound, "")
    }

    /// The text has more than `limit` bytes.
    pub fn too_long(&self, limit: usize) -> FieldError {
        FieldError::too_long(self.path(), limit)
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Top(name) => f.write_str(name),
            Step::Member(name) => write!(f, ".{name}"),
            Step::Item(index) => write!(f, "[{index}]"),
            Step::Key(name) => write!(f, "[{name}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_with_their_paths() {
        let Value::Object(members) = json!({
            "spec": {"replicas": 2, "ports": [{"name": "a"}, {"name": "a"}], "limits": {"cpu": "1"}},
        }) else {
            panic!("an object");
        };
        let object = Object::of(members);
        let spec = Field::of(&object, "spec");
        assert_eq!(spec.member("replicas").int(), Some(2));
        let ports = spec.member("ports");
        let names: Vec<String> = ports
            .items()
            .map(|port| port.member("name").path())
            .collect();
        assert_eq!(names, ["spec.ports[0].name", "spec.ports[1].name"]);
        let limits = spec.member("limits");
        let (key, cpu) = limits.entries().next().unwrap();
        assert_eq!((key, cpu.text()), ("cpu", "1"));
        let fault = cpu.invalid("too little");
        assert_eq!(
            fault.to_string(),
            r#"spec.limits[cpu]: Invalid value: "1": too little"#
        );
        assert!(!spec.member("paused").is_set());
    }
}
