//! Types that are not written in the notation: those of custom resources.

use std::fmt;

use serde_json::Value;

use super::forms::{Expected, Items};

/// A set of types outside of a [`Schema`](crate::schema::Schema). Their numbers mean something to
/// the set alone.
pub trait OtherTypes: Sync {
    /// Returns the form of the values of a type.
    fn form(&self, of: OtherId) -> OtherForm<'_>;

    /// Returns the type of a member. `None` if it is not declared.
    fn member(&self, of: OtherId, name: &str) -> Option<Inner>;

    /// Returns the type of a list's items.
    fn items(&self, of: OtherId) -> Inner;

    /// Returns whether the type declares a member of this name.
    fn names(&self, of: OtherId, name: &str) -> bool;

    /// Returns the default of a member.
    fn default(&self, of: OtherId, name: &str) -> Option<&Value>;

    /// Returns whether the type has lists with keys, itself or below.
    fn has_keys(&self, of: OtherId) -> bool;
}

/// The number of a type in a set of other types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherId {
    /// The number.
    pub at: u32,
    /// Whether objects have members of any name.
    pub keeps_unknown: bool,
}

/// The form of the values of another type.
pub enum OtherForm<'s> {
    /// A scalar.
    Scalar(Expected),
    /// An object.
    Map {
        /// Whether it has one owner as a whole.
        is_atomic: bool,
    },
    /// A list.
    List(Items<'s>),
    /// It depends on the value.
    Any {
        /// Whether an object has one owner as a whole.
        is_atomic: bool,
        /// The keys of a list's items.
        items: Items<'s>,
    },
}

/// The type of a part of a value of another type.
pub enum Inner {
    /// A type of the same set.
    Other(OtherId),
    /// A text.
    Text,
    /// The metadata of an object.
    Metadata,
    /// The type is deduced from the value.
    Deduced,
}

/// A type with its set.
#[derive(Clone, Copy)]
pub(super) struct Other<'s> {
    pub types: &'s dyn OtherTypes,
    pub id: OtherId,
}

impl fmt::Debug for Other<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}
