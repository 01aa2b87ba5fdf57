//! Access to an object's fields for validation: values with their field paths.
//!
//! Objects are validated after they were decoded by their schema, so a value has the type that the
//! schema declares, or is absent. Reading a value as another type returns an empty text, an empty
//! list and so on.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use crate::cost;
use crate::error_list::Report;
use crate::field_error::{FieldError, FieldErrorKind, MAX_PATH_BYTES};
use crate::object::Object;
use crate::text::quoting::{MAX_SHOWN_BYTES, beginning, go_quote, shown};
use crate::text::truncation::truncated_display;

/// A value in an object, or its absence, with its field path. The path is formatted only when an
/// error is reported.
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
    /// Returns a top-level member of an object, such as `spec`.
    pub fn of(object: &'f Object, name: &'f str) -> Field<'f> {
        Field::named(name, object.0.get(name))
    }

    /// Returns a value whose path begins with this name.
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

    /// Returns a member of a struct, which may be absent.
    pub fn member(&'f self, name: &'f str) -> Field<'f> {
        let value = self.value.and_then(|value| value.get(name));
        self.below(Step::Member(name), value)
    }

    /// Returns the value of a map key, which may be absent. Its path ends in `[name]`.
    pub fn key(&'f self, name: &'f str) -> Field<'f> {
        let value = self.value.and_then(|value| value.get(name));
        self.below(Step::Key(name), value)
    }

    /// Returns a field with the same path and another value.
    pub fn with_value(&self, value: &'f Value) -> Field<'f> {
        Field {
            value: Some(value).filter(|value| !value.is_null()),
            ..*self
        }
    }

    /// Returns an item of a list, which may be absent.
    pub fn index(&'f self, index: usize) -> Field<'f> {
        let value = self.value.and_then(|value| value.get(index));
        self.below(Step::Item(index), value)
    }

    /// Returns the items of a list.
    pub fn items(&'f self) -> impl Iterator<Item = Field<'f>> {
        let items = self.list().iter().enumerate();
        items.map(|(index, item)| self.below(Step::Item(index), Some(item)))
    }

    /// Returns the keys and values of a map, in order of keys.
    pub fn entries(&'f self) -> impl Iterator<Item = (&'f str, Field<'f>)> {
        let members = self.value.and_then(Value::as_object).into_iter().flatten();
        members.map(|(key, value)| {
            let field = self.below(Step::Key(key), Some(value));
            (key.as_str(), field)
        })
    }

    /// Returns the value, if present.
    pub fn value(&self) -> Option<&'f Value> {
        self.value
    }

    /// Returns whether the value is present.
    pub fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Returns the items of a list, empty if the value is not a list.
    pub fn list(&self) -> &'f [Value] {
        let list = self.value.and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the number of items of a list, or of keys of a map.
    pub fn len(&self) -> usize {
        match self.value {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(members)) => members.len(),
            _ => 0,
        }
    }

    /// Returns whether a list or map is empty or absent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a text, empty if absent.
    pub fn text(&self) -> &'f str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the text of a member of a struct, empty if absent. The text outlives this field, so
    /// it can be a key of a set.
    pub fn text_of(&self, name: &str) -> &'f str {
        let value = self.value.and_then(|value| value.get(name));
        value.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a whole number, if present.
    pub fn int(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    /// Returns a boolean, if present.
    pub fn bool(&self) -> Option<bool> {
        self.value.and_then(Value::as_bool)
    }

    /// Returns whether a boolean is true.
    pub fn is_true(&self) -> bool {
        self.bool() == Some(true)
    }

    /// Returns the field path: `spec.containers[0].image`.
    pub fn path(&self) -> String {
        self.to_string()
    }

    /// Returns an error of this kind that shows the value.
    pub fn fault(&self, kind: FieldErrorKind, detail: impl Into<Detail<'f>>) -> LazyError<'f> {
        self.fault_value(kind, self.value.unwrap_or(&Value::Null), detail)
    }

    /// As [`Field::fault`], showing another value.
    pub fn fault_value(
        &self,
        kind: FieldErrorKind,
        value: impl Into<Shown<'f>>,
        detail: impl Into<Detail<'f>>,
    ) -> LazyError<'f> {
        LazyError {
            field: *self,
            kind,
            value: value.into(),
            detail: detail.into(),
        }
    }

    /// Returns the error for a value that breaks a rule. An absent text or list is shown as `null`;
    /// use [`Field::invalid_value`] to show another value.
    pub fn invalid(&self, detail: impl Into<Detail<'f>>) -> LazyError<'f> {
        self.fault(FieldErrorKind::Invalid, detail)
    }

    /// Returns the error for a value that breaks a rule, showing `value` instead.
    pub fn invalid_value(
        &self,
        value: impl Into<Shown<'f>>,
        detail: impl Into<Detail<'f>>,
    ) -> LazyError<'f> {
        self.fault_value(FieldErrorKind::Invalid, value, detail)
    }

    /// Returns the error for a missing value.
    pub fn required(&self, detail: impl Into<Detail<'f>>) -> LazyError<'f> {
        self.fault_value(FieldErrorKind::Required, Shown::Nothing, detail)
    }

    /// Returns the error for a value that must not be set.
    pub fn forbidden(&self, detail: impl Into<Detail<'f>>) -> LazyError<'f> {
        self.fault_value(FieldErrorKind::Forbidden, Shown::Nothing, detail)
    }

    /// Returns the error for a text that is not one of the supported ones. An absent text is shown
    /// as empty.
    pub fn not_supported(&self, supported: &'f [&'f str]) -> LazyError<'f> {
        let kind = FieldErrorKind::NotSupported;
        let supported = Detail::Supported(supported);
        match self.value {
            Some(value) => self.fault_value(kind, value, supported),
            None => self.fault_value(kind, "", supported),
        }
    }

    /// Returns the error for a value that the list already has.
    pub fn duplicate(&self) -> LazyError<'f> {
        self.fault(FieldErrorKind::Duplicate, "")
    }

    /// Returns the error for a reference to something that does not exist.
    pub fn not_found(&self) -> LazyError<'f> {
        self.fault(FieldErrorKind::NotFound, "")
    }

    /// Returns the error for a text of more than `limit` bytes.
    pub fn too_long(&self, limit: usize) -> LazyError<'f> {
        self.fault_value(
            FieldErrorKind::TooLong,
            Shown::Nothing,
            Detail::Limit(limit),
        )
    }
}

/// The value that an error shows.
pub enum Shown<'f> {
    /// The error shows no value.
    Nothing,
    /// A value of the object.
    Value(&'f Value),
    /// Another value.
    Other(Value),
    /// A text.
    Text(Cow<'f, str>),
    /// JSON formatted by a function, for values whose form this crate does not know.
    Json(Box<dyn Fn() -> String + 'f>),
}

impl<'f> From<&'f Value> for Shown<'f> {
    fn from(value: &'f Value) -> Shown<'f> {
        Shown::Value(value)
    }
}

impl<'f> From<&'f str> for Shown<'f> {
    fn from(text: &'f str) -> Shown<'f> {
        Shown::Text(Cow::Borrowed(text))
    }
}

impl<'f> From<&'f String> for Shown<'f> {
    fn from(text: &'f String) -> Shown<'f> {
        Shown::Text(Cow::Borrowed(text))
    }
}

impl<'f> From<Cow<'f, str>> for Shown<'f> {
    fn from(text: Cow<'f, str>) -> Shown<'f> {
        Shown::Text(text)
    }
}

impl From<String> for Shown<'_> {
    fn from(text: String) -> Self {
        Shown::Text(Cow::Owned(text))
    }
}

/// Implements the conversion into [`Shown`] for values that are created for an error.
macro_rules! shown_as_value {
    ($($of:ty)*) => {$(
        impl From<$of> for Shown<'_> {
            fn from(value: $of) -> Self {
                Shown::Other(value.into())
            }
        }
    )*};
}

shown_as_value!(Value bool i32 i64 u64 usize Vec<Value> Map<String, Value>);

/// The words after the value of an error.
pub enum Detail<'f> {
    /// A text.
    Text(Cow<'f, str>),
    /// The supported values.
    Supported(&'f [&'f str]),
    /// The maximum length of a text, in bytes.
    Limit(usize),
    /// The smallest and the largest valid number.
    Range(i64, i64),
    /// A text that is costly to format.
    Made(Box<dyn Fn() -> String + 'f>),
}

impl<'f> Detail<'f> {
    /// Returns a detail that is formatted only if the error is kept.
    pub fn made(text: impl Fn() -> String + 'f) -> Detail<'f> {
        Detail::Made(Box::new(text))
    }
}

impl<'f> From<&'f str> for Detail<'f> {
    fn from(text: &'f str) -> Detail<'f> {
        Detail::Text(Cow::Borrowed(text))
    }
}

impl<'f> From<&'f String> for Detail<'f> {
    fn from(text: &'f String) -> Detail<'f> {
        Detail::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Detail<'_> {
    fn from(text: String) -> Self {
        Detail::Text(Cow::Owned(text))
    }
}

impl<'f> From<Cow<'f, str>> for Detail<'f> {
    fn from(text: Cow<'f, str>) -> Self {
        Detail::Text(text)
    }
}

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detail::Text(text) => f.write_str(text),
            Detail::Supported(supported) => {
                for (index, one) in supported.iter().enumerate() {
                    let before = if index == 0 {
                        "supported values: "
                    } else {
                        ", "
                    };
                    write!(f, "{before}{}", go_quote(one))?;
                }
                Ok(())
            }
            Detail::Made(text) => f.write_str(&text()),
            Detail::Limit(limit) => write!(f, "may not be more than {limit} bytes"),
            Detail::Range(least, most) => {
                write!(f, "must be between {least} and {most}, inclusive")
            }
        }
    }
}

/// A field error whose texts are formatted, and cut, only when a list keeps it.
pub struct LazyError<'f> {
    field: Field<'f>,
    kind: FieldErrorKind,
    value: Shown<'f>,
    detail: Detail<'f>,
}

impl<'f> LazyError<'f> {
    /// Returns the same error, showing this JSON.
    #[must_use]
    pub fn showing_json(mut self, json: impl Fn() -> String + 'f) -> LazyError<'f> {
        self.value = Shown::Json(Box::new(json));
        self
    }
}

impl Report for LazyError<'_> {
    fn written(self) -> FieldError {
        cost::error_made();
        FieldError {
            value: self.value(),
            ..self.without_value()
        }
    }

    fn without_value(&self) -> FieldError {
        FieldError {
            kind: self.kind,
            path: truncated_display(self.field, MAX_PATH_BYTES),
            value: String::new(),
            detail: truncated_display(&self.detail, MAX_SHOWN_BYTES),
        }
    }

    fn value(&self) -> String {
        match &self.value {
            Shown::Nothing => String::new(),
            Shown::Value(value) => shown(value),
            Shown::Other(value) => shown(value),
            Shown::Text(text) => go_quote(text),
            Shown::Json(json) => beginning(json()),
        }
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
        let error = cpu.invalid("too little").written();
        assert_eq!(
            error.to_string(),
            r#"spec.limits[cpu]: Invalid value: "1": too little"#
        );
        assert!(!spec.member("paused").is_set());
    }
}
