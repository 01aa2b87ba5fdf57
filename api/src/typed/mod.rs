//! Values and their types, as appliers see them (http.md 4.5 to 4.7).
//!
//! This folder owns what depends on the types of values: whether a value has its type, which
//! fields it has, how two values differ, and how they are merged. Values and types of
//! [`crate::schema`] enter; sets of fields and merged values leave. This folder must not know
//! managers or versions.

mod compare;
mod created_fields;
mod elements;
mod errors;
mod field_set;
mod item_keys;
mod kind;
mod merge;
mod reconcile;
mod remove;
mod validate;

pub use compare::Comparison;
pub use errors::{TypeError, TypeErrors};
use kind::Kind;

use crate::field_set::{FieldSet, PathElement};
use crate::object::Object;
use crate::schema::{ObjectType, Schema, StructId};

/// The type of a value, as appliers see it.
#[derive(Clone, Copy)]
pub struct ValueType<'s> {
    schema: &'s Schema,
    kind: Kind<'s>,
}

impl<'s> ValueType<'s> {
    /// The type of objects of this struct. It is the deduced type if the schema has no such struct.
    pub fn of(schema: &'s Schema, id: StructId) -> ValueType<'s> {
        let kind = match schema.get(id) {
            Some(of) => Kind::of_struct(of, None),
            None => Kind::Deduced,
        };
        ValueType { schema, kind }
    }

    /// The type of objects of a kind.
    pub fn of_objects(of: ObjectType) -> ValueType<'static> {
        match of.found() {
            Some((schema, id)) => ValueType::of(schema, id),
            None => ValueType {
                schema: of.schema,
                kind: Kind::Deduced,
            },
        }
    }

    /// The type that is deduced from values: maps are granular, lists atomic (API-195).
    pub fn deduced(schema: &'s Schema) -> ValueType<'s> {
        ValueType {
            schema,
            kind: Kind::Deduced,
        }
    }

    /// Whether an object has the type. `allows_duplicates` is for values that are stored already,
    /// which may have several items of one key (API-171).
    ///
    /// # Errors
    /// All faults, in Kubernetes' words.
    pub fn validate(&self, object: &Object, allows_duplicates: bool) -> Result<(), TypeErrors> {
        validate::validate(*self, &object.0, allows_duplicates)
    }

    /// Whether the items of granular lists of an object have keys. The object was decoded, so all
    /// else of it has the type.
    pub fn has_keys(&self, object: &Object) -> bool {
        item_keys::has_all(*self, &object.0)
    }

    /// The fields that an object has: its leaves, the items of granular lists, and the members of
    /// maps. The object has the type.
    pub fn field_set(&self, object: &Object) -> FieldSet {
        field_set::of_members(*self, &object.0)
    }

    /// How two objects differ. Both have the type.
    pub fn compare(&self, old: &Object, new: &Object) -> Comparison {
        compare::compare(*self, &old.0, &new.0)
    }

    /// The text of FieldsV1 of what the creator of an object owns: all in which it differs from the
    /// empty one, but for those that are `never_owned`, and for the `excluded` ones with all below
    /// them.
    pub fn created_fields_v1(
        &self,
        (empty, new): (&Object, &Object),
        never_owned: &FieldSet,
        excluded: Option<&FieldSet>,
    ) -> String {
        created_fields::fields_v1(*self, (&empty.0, &new.0), never_owned, excluded)
    }

    /// The live object with everything that was applied (API-172). Nothing is removed, but atomic
    /// parts are replaced. Items of lists are in the order that was applied, with the other live
    /// ones between them. Both have the type; what was applied has no duplicates.
    pub fn merge(&self, live: &Object, applied: &Object) -> Object {
        Object::of(merge::merge_members(*self, &live.0, &applied.0))
    }

    /// The object without these fields and what is below them. What has nothing left is empty, as
    /// is an atomic part of which something is to be removed.
    pub fn remove_items(&self, object: &Object, items: &FieldSet) -> Object {
        Object::of(remove::remove_members(*self, &object.0, items))
    }

    /// The set, with the named fields above its members: of `.spec.replicas` it makes `.spec` and
    /// `.spec.replicas`. Members of maps are not added.
    pub fn with_named_fields(&self, set: &FieldSet) -> FieldSet {
        field_set::with_named_fields(*self, set)
    }

    /// The set with parts that have become atomic since it was written. `None` if there are none.
    pub fn reconciled(&self, set: &FieldSet) -> Option<FieldSet> {
        reconcile::reconciled(*self, set)
    }

    fn at(&self, kind: Kind<'s>) -> ValueType<'s> {
        ValueType { kind, ..*self }
    }

    /// The type of a member. `None` if the schema declares no such field.
    fn member(&self, name: &str) -> Option<ValueType<'s>> {
        self.kind
            .member(self.schema, name)
            .map(|kind| self.at(kind))
    }

    /// Whether this is a struct with a field of this name.
    fn names(&self, element: &PathElement) -> bool {
        matches!(element, PathElement::Field(name) if self.kind.names(name))
    }
}

#[cfg(test)]
mod tests;
