//! Reading an object's fields for validation: values with their paths.
//!
//! Objects have been decoded by their schema when they are validated, so a value has the type that
//! its schema says, or is absent. A text that is read of anything else is empty, and so on.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use crate::cost;
use crate::error_list::Report;
use crate::field_error::{
    FieldError, FieldErrorKind, MAX_PATH_BYTES, MAX_SHOWN_BYTES, beginning, go_quote, shown,
};
use crate::object::Object;
use crate::truncated::truncated_display;

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

    /// The text of a member of a struct; empty if there is none. It outlives this field, as keys of
    /// sets do.
    pub fn text_of(&self, name: &str) -> &'f str {
        let value = self.value.and_then(|value| value.get(name));
        value.and_then(Value::as_str).unwrap_or_default()
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

    /// An error of this kind that shows the value.
    pub fn fault(&self, kind: FieldErrorKind, detail: impl Into<Detail<'f>>) -> LazyError<'f> {
        self.fault_value(kind, self.value.unwrap_or(&Value::Null), detail)
    }

    /// As [`Field::fault`], showing this value.
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

    /// The value breaks a rule. An absent text or list shows as `null`; see
    /// [`Field::invalid_value`].
    pub fn invalid(&self, detail: impl Into<Detail<'f>>) -> LazyError<'f> {
        self.fault(FieldErrorKind::Invalid, detail)
    }

    /// The value breaks a rule, and the error shows this value for it.
    pub fn invalid_value(
        &self,
        value: impl Into<Shown<'f>>,
        detail: impl Into<Detail<'f>>,
    ) -> LazyError<'f> {
        self.fault_value(FieldErrorKind::Invalid, value, detail)
    }

    /// The value must be set.
    pub fn required(&self, detail: impl Into<Detail<'f>>) -> LazyError<'f> {
        self.fault_value(FieldErrorKind::Required, Shown::Nothing, detail)
    }

    /// The value may not be set.
    pub fn forbidden(&self, detail: impl Into<Detail<'f>>) -> LazyError<'f> {
        self.fault_value(FieldErrorKind::Forbidden, Shown::Nothing, detail)
    }

    /// The text is not one of these. An absent text shows as empty.
    pub fn not_supported(&self, supported: &'f [&'f str]) -> LazyError<'f> {
        let kind = FieldErrorKind::NotSupported;
        let supported = Detail::Supported(supported);
        match self.value {
            Some(value) => self.fault_value(kind, value, supported),
            None => self.fault_value(kind, "", supported),
        }
    }

    /// The value is in the list already.
    pub fn duplicate(&self) -> LazyError<'f> {
        self.fault(FieldErrorKind::Duplicate, "")
    }

    /// The value names what does not exist.
    pub fn not_found(&self) -> LazyError<'f> {
        self.fault(FieldErrorKind::NotFound, "")
    }

    /// The text has more than `limit` bytes.
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
    /// JSON of a form that this crate does not know.
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

/// Values that are made for an error.
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

/// The words behind the value of an error.
pub enum Detail<'f> {
    /// A text.
    Text(Cow<'f, str>),
    /// The values that are supported.
    Supported(&'f [&'f str]),
    /// The most bytes that a text may have.
    Limit(usize),
    /// The least and the greatest number that are valid.
    Range(i64, i64),
    /// A text that takes long to write.
    Made(Box<dyn Fn() -> String + 'f>),
}

impl<'f> Detail<'f> {
    /// A detail that is written only if the error is kept.
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

/// An error of a field. Its texts are written when a list keeps it, and cut while they are written.
pub struct LazyError<'f> {
    field: Field<'f>,
    kind: FieldErrorKind,
    value: Shown<'f>,
    detail: Detail<'f>,
}

impl<'f> LazyError<'f> {
    /// The same error, showing this JSON.
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
