//! The subject of rules: a value, or the members of a whole object, which are not in a value.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

use super::super::library::operators::equal_json;
use super::super::shape::Shape;
use super::super::values::{Outcome, Value, Work};

/// A value, or the members of an object.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'o> {
    /// A value.
    Value(&'o Json),
    /// The members of an object.
    Members(&'o Map<String, Json>),
}

impl<'o> From<&'o Json> for Subject<'o> {
    fn from(value: &'o Json) -> Subject<'o> {
        Subject::Value(value)
    }
}

impl<'o> From<&'o Map<String, Json>> for Subject<'o> {
    fn from(members: &'o Map<String, Json>) -> Subject<'o> {
        Subject::Members(members)
    }
}

impl<'o> Subject<'o> {
    pub(super) fn is_null(self) -> bool {
        matches!(self, Subject::Value(Json::Null))
    }

    /// Returns the members of an object.
    pub(super) fn members(self) -> Option<&'o Map<String, Json>> {
        match self {
            Subject::Value(value) => value.as_object(),
            Subject::Members(members) => Some(members),
        }
    }

    /// Returns the items of a list.
    pub(super) fn items(self) -> Option<&'o [Json]> {
        match self {
            Subject::Value(value) => value.as_array().map(Vec::as_slice),
            Subject::Members(_) => None,
        }
    }

    /// Returns a member of an object.
    pub(super) fn get(self, name: &str) -> Option<&'o Json> {
        self.members()?.get(name)
    }

    /// Returns it as a value, which copies the members of an object.
    pub(super) fn to_json(self) -> Cow<'o, Json> {
        match self {
            Subject::Value(value) => Cow::Borrowed(value),
            Subject::Members(members) => Cow::Owned(Json::Object(members.clone())),
        }
    }

    /// Returns the value that expressions see.
    pub(super) fn shaped(self, shape: &'o Shape) -> Outcome<Value<'o>> {
        match self {
            Subject::Value(value) => Value::shaped(value, shape),
            Subject::Members(members) => Value::of_members(members, shape),
        }
    }

    /// Returns whether both are equal as JSON.
    pub(super) fn equals(self, other: Subject<'_>, work: &Work) -> Outcome<bool> {
        match (self, other) {
            (Subject::Value(one), Subject::Value(other)) => equal_json(one, other, work),
            (one, other) => equal_json(&one.to_json(), &other.to_json(), work),
        }
    }
}
