//! Values as checks see them, and their paths.

use std::fmt;

use serde_json::{Map, Number, Value};

/// A value, or the members of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View<'v> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(&'v Number),
    /// A text.
    Text(&'v str),
    /// The items of a list.
    List(&'v [Value]),
    /// The members of an object.
    Object(&'v Map<String, Value>),
}

impl<'v> From<&'v Value> for View<'v> {
    fn from(value: &'v Value) -> View<'v> {
        match value {
            Value::Null => View::Null,
            Value::Bool(value) => View::Bool(*value),
            Value::Number(number) => View::Number(number),
            Value::String(text) => View::Text(text),
            Value::Array(items) => View::List(items),
            Value::Object(members) => View::Object(members),
        }
    }
}

impl<'v> From<&'v Map<String, Value>> for View<'v> {
    fn from(members: &'v Map<String, Value>) -> View<'v> {
        View::Object(members)
    }
}

impl View<'_> {
    /// Returns a copy of the value.
    pub fn to_value(self) -> Value {
        match self {
            View::Null => Value::Null,
            View::Bool(value) => Value::Bool(value),
            View::Number(number) => Value::Number(number.clone()),
            View::Text(text) => Value::String(text.to_owned()),
            View::List(items) => Value::Array(items.to_vec()),
            View::Object(members) => Value::Object(members.clone()),
        }
    }

    /// Returns the type of the value as messages name it. Go reads integers of more than 64 bits as
    /// floats.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            View::Null => "null",
            View::Bool(_) => "boolean",
            View::Number(number) if number.is_i64() => "integer",
            View::Number(_) => "number",
            View::Text(_) => "string",
            View::List(_) => "array",
            View::Object(_) => "object",
        }
    }
}

/// The path in a value, which is formatted only for an error.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    Top,
    /// A member that the schema names. kube-apiserver puts no dot before it at the top, but before
    /// other members.
    Member(&'p Path<'p>, &'p str),
    Other(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    fn above(&self) -> Option<&'p Path<'p>> {
        match self {
            Path::Top => None,
            Path::Member(above, _) | Path::Other(above, _) | Path::Item(above, _) => Some(above),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path may have ten thousand steps, too many for recursion on a small stack.
        let steps = std::iter::successors(Some(self), |step| step.above());
        let steps: Vec<&Path<'_>> = steps.collect();
        for step in steps.into_iter().rev() {
            match step {
                Path::Top => {}
                Path::Member(Path::Top, name) => f.write_str(name)?,
                Path::Member(_, name) | Path::Other(_, name) => write!(f, ".{name}")?,
                Path::Item(_, index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
