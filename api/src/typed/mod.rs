//! Typed values for server-side apply (http.md 4.5 to 4.7).
//!
//! Contains the operations that depend on the types of values: validation, field sets, comparison,
//! and merging, as in structured-merge-diff's `typed` package. Input is values with types of
//! [`crate::schema`]; results are field sets and merged values. Nothing here knows managers or
//! versions.

mod atomics;
mod compare;
mod created_fields;
mod elements;
mod errors;
mod field_set;
mod forms;
mod item_keys;
mod kind;
mod merge;
mod other;
mod reconcile;
mod remove;
mod validate;

pub use compare::Comparison;
pub use errors::{TypeError, TypeErrors};
pub use forms::{Expected, Items, Keys};
use kind::Kind;
use other::Other;
pub use other::{Inner, OtherForm, OtherId, OtherTypes};
pub use validate::GoPlain;

use crate::field_set::{FieldSet, PathElement};
use crate::object::Object;
use crate::schema::{ObjectType, Schema, StructId, untyped_schema};

/// The type of a value in server-side apply.
#[derive(Clone, Copy)]
pub struct ValueType<'s> {
    schema: &'s Schema,
    kind: Kind<'s>,
}

impl<'s> ValueType<'s> {
    /// Returns the type of objects of this struct, or the deduced type if the schema lacks the
    /// struct.
    pub fn of(schema: &'s Schema, id: StructId) -> ValueType<'s> {
        let kind = match schema.get(id) {
            Some(of) => Kind::of_struct(of, None),
            None => Kind::Deduced,
        };
        ValueType { schema, kind }
    }

    /// Returns the type of objects of a kind.
    pub fn of_objects(of: &ObjectType) -> ValueType<'_> {
        match of.found() {
            Some((schema, id)) => ValueType::of(schema, id),
            None => ValueType {
                schema: of.schema(),
                kind: Kind::Deduced,
            },
        }
    }

    /// Returns a type that is not written in the notation.
    pub fn other(types: &'s dyn OtherTypes, id: OtherId) -> ValueType<'s> {
        ValueType {
            schema: untyped_schema(),
            kind: Kind::Other(Other { types, id }),
        }
    }

    /// Returns the type that is deduced from values: maps are granular, lists atomic (API-195).
    pub fn deduced(schema: &'s Schema) -> ValueType<'s> {
        ValueType {
            schema,
            kind: Kind::Deduced,
        }
    }

    /// Validates an object by its type. Stored values may have several items with the same key,
    /// which `allows_duplicates` accepts (API-171).
    ///
    /// # Errors
    /// All type errors, in Kubernetes' words.
    pub fn validate(&self, object: &Object, allows_duplicates: bool) -> Result<(), TypeErrors> {
        validate::validate(*self, &object.0, allows_duplicates)
    }

    /// Returns the paths of the parts of an object that are owned as a whole: atomic lists, maps
    /// and structs. Members of maps without names of their own are not searched, as in Kubernetes
    /// (HK-66).
    pub fn atomic_parts(&self, object: &Object) -> Vec<String> {
        atomics::of_members(*self, &object.0)
    }

    /// Returns whether all items of granular lists have keys. All else must fit the type already,
    /// because the object was decoded by it.
    pub fn has_keys(&self, object: &Object) -> bool {
        item_keys::has_all(*self, &object.0)
    }

    /// Returns the fields of an object: its leaves, the items of granular lists, and the members of
    /// maps. The object must fit the type.
    pub fn field_set(&self, object: &Object) -> FieldSet {
        field_set::of_members(*self, &object.0)
    }

    /// Compares two objects. Both must fit the type.
    pub fn compare(&self, old: &Object, new: &Object) -> Comparison {
        compare::compare(*self, &old.0, &new.0)
    }

    /// Returns the FieldsV1 text of the fields that the creator of an object owns: all fields that
    /// differ from the empty object, without the `never_owned` ones, and without the `excluded`
    /// ones and all below them.
    pub fn created_fields_v1(
        &self,
        empty: &Object,
        new: &Object,
        never_owned: &FieldSet,
        excluded: Option<&FieldSet>,
    ) -> String {
        created_fields::fields_v1(*self, &empty.0, &new.0, never_owned, excluded)
    }

    /// Merges an applied object over the live one (API-172). Removes nothing, but replaces atomic
    /// parts. Items of lists are in the applied order, with the items that are only live in
    /// between. Both must fit the type, and the applied object must not have duplicate items.
    pub fn merge(&self, live: &Object, applied: &Object) -> Object {
        Object::of(merge::merge_members(*self, &live.0, &applied.0))
    }

    /// Returns the object without these fields and all below them. A map or list without remaining
    /// members stays as an empty one, and an atomic part becomes empty if anything below it is
    /// removed.
    pub fn remove_items(&self, object: &Object, items: &FieldSet) -> Object {
        Object::of(remove::remove_members(*self, &object.0, items))
    }

    /// Adds the struct fields above the members of a set: `.spec.replicas` results in `.spec` and
    /// `.spec.replicas`. Members of maps are not added.
    pub fn with_named_fields(&self, set: &FieldSet) -> FieldSet {
        field_set::with_named_fields(*self, set)
    }

    /// Returns the set adapted to parts that have become atomic since it was written. `None` if it
    /// stays the same.
    pub fn reconciled(&self, set: &FieldSet) -> Option<FieldSet> {
        reconcile::reconciled(*self, set)
    }

    fn at(&self, kind: Kind<'s>) -> ValueType<'s> {
        ValueType { kind, ..*self }
    }

    /// Returns the type of a member. `None` if the schema does not declare the field.
    fn member(&self, name: &str) -> Option<ValueType<'s>> {
        self.kind
            .member(self.schema, name)
            .map(|kind| self.at(kind))
    }

    /// Returns whether this is a struct with a field of this name.
    fn names(&self, element: &PathElement) -> bool {
        matches!(element, PathElement::Field(name) if self.kind.names(name))
    }
}

#[cfg(test)]
mod tests;
