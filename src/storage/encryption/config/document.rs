//! Reads the members of a parsed tree, strictly. Unknown members and wrong types are faults with a
//! path.

use serde_json::{Map, Value};

use crate::api::field_error::{FieldError, FieldErrorKind};

/// Words of at most this many letters are shown. Every encoded key is longer.
const WORD_SHOWN_MAX: usize = 23;

/// Names of resources and versions, without capital letters, may be longer.
const NAME_SHOWN_MAX: usize = 100;

/// Collects the errors while a tree is taken apart.
#[derive(Default)]
pub(super) struct Document {
    problems: Vec<FieldError>,
}

impl Document {
    /// Returns the errors so far.
    pub(super) fn problems(&self) -> &[FieldError] {
        &self.problems
    }

    /// Adds an error.
    pub(super) fn refuse(&mut self, problem: FieldError) {
        self.problems.push(problem);
    }

    /// Adds an error about a value of the wrong type, without showing the value.
    fn wrong_type(&mut self, path: &str, value: &Value, expected: &str) {
        let found = match value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean; text that looks like one needs quotes",
            Value::Number(_) => "a number; text that looks like one needs quotes",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "a mapping",
        };
        let detail = format!("{expected} is expected, and this is {found}");
        let path = if path.is_empty() { "the file" } else { path };
        self.refuse(FieldError {
            kind: FieldErrorKind::Forbidden,
            path: path.to_owned(),
            value: String::new(),
            detail,
        });
    }

    /// Returns the members with these names, `None` for those that are absent or null. Other
    /// members are errors.
    pub(super) fn members<const COUNT: usize>(
        &mut self,
        path: &str,
        value: Value,
        names: [&str; COUNT],
    ) -> [Option<Value>; COUNT] {
        let mut members = match value {
            Value::Object(members) => members,
            other => {
                self.wrong_type(path, &other, "a mapping");
                Map::new()
            }
        };
        let wanted = names.map(|name| members.remove(name).filter(|value| !value.is_null()));
        for name in members.keys() {
            let place = joined(path, shown_name(name));
            let detail = match COUNT {
                0 => "unknown field; no fields are known here".to_owned(),
                _ => format!("unknown field; known are {}", names.join(", ")),
            };
            self.refuse(FieldError::forbidden(place, detail));
        }
        wanted
    }

    /// Returns the elements of a list that needs at least one.
    pub(super) fn list(&mut self, path: &str, value: Option<Value>) -> Vec<Value> {
        match value {
            Some(Value::Array(items)) if !items.is_empty() => items,
            None | Some(Value::Array(_)) => {
                self.refuse(FieldError::required(path, "at least one is needed"));
                Vec::new()
            }
            Some(other) => {
                self.wrong_type(path, &other, "a list");
                Vec::new()
            }
        }
    }

    /// Returns a text, or an empty one if it is absent. `None` for another type.
    pub(super) fn text(&mut self, path: &str, value: Option<Value>) -> Option<String> {
        match value {
            Some(Value::String(text)) => Some(text),
            None => Some(String::new()),
            Some(other) => {
                self.wrong_type(path, &other, "text");
                None
            }
        }
    }
}

/// A member's path.
pub(super) fn joined(path: &str, member: &str) -> String {
    match path {
        "" => member.to_owned(),
        path => format!("{path}.{member}"),
    }
}

/// Returns a name as messages may show it. A secret may be in the place of a name by mistake.
pub(super) fn shown_name(name: &str) -> &str {
    let is_of_name = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'*' | b'/' | b'-');
    let is_word = name.len() <= WORD_SHOWN_MAX && name.bytes().all(|b| b.is_ascii_alphabetic());
    let is_name = name.len() <= NAME_SHOWN_MAX && name.bytes().all(is_of_name);
    if is_word || is_name {
        name
    } else {
        super::REDACTED
    }
}
