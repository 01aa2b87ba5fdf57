//! The types of values as structured-merge-diff sees them: scalars, maps and lists, and whether
//! their parts are owned one by one.

use serde_json::Value;

use super::forms::{Expected, Items, Keys};
use super::other::{Inner, Other, OtherForm};
use crate::schema::{
    Field, ListType, PatchStrategy, Scalar, Schema, Shape, Struct, Type, object_meta,
};

/// The kind of a type.
#[derive(Clone, Copy)]
pub(super) enum Kind<'s> {
    /// A single value.
    Scalar(Expected),
    /// A struct.
    Struct { of: &'s Struct, is_atomic: bool },
    /// A map whose values have this type.
    Map { of: &'s Type, is_atomic: bool },
    /// A map of any values.
    Object { is_atomic: bool },
    /// Any value, owned as a whole.
    Raw,
    /// A list whose items have this type.
    List { of: &'s Type, items: Items<'s> },
    /// A type without schema. It depends on the value: a scalar, a granular map, or an atomic list.
    Deduced,
    /// A type that is not written in the notation.
    Other(Other<'s>),
}

/// The form of a value by its type.
pub(super) enum Form<'s> {
    Scalar,
    Map { is_atomic: bool },
    List { of: Item<'s>, items: Items<'s> },
}

/// The type of a list's items.
#[derive(Clone, Copy)]
pub(super) enum Item<'s> {
    /// It is deduced from the values.
    Deduced,
    Type(&'s Type),
    /// That of the items of another type.
    OfOther(Other<'s>),
}

impl<'s> Item<'s> {
    pub(super) fn kind(self, schema: &'s Schema) -> Kind<'s> {
        match self {
            Item::Deduced => Kind::Deduced,
            Item::Type(of) => Kind::of_type(schema, of),
            Item::OfOther(list) => list.items(schema),
        }
    }
}

impl<'s> Other<'s> {
    fn inner(self, schema: &'s Schema, inner: Inner) -> Kind<'s> {
        match inner {
            Inner::Other(id) => Kind::Other(Other { id, ..self }),
            Inner::Text => TEXT,
            Inner::Deduced => Kind::Deduced,
            Inner::Metadata => {
                let of = schema.find(object_meta().name());
                let of = of.and_then(|id| schema.get(id));
                of.map_or(Kind::Deduced, |of| Kind::of_struct(of, None))
            }
        }
    }

    pub(super) fn items(self, schema: &'s Schema) -> Kind<'s> {
        self.inner(schema, self.types.items(self.id))
    }

    fn member(self, schema: &'s Schema, name: &str) -> Option<Kind<'s>> {
        let inner = self.types.member(self.id, name)?;
        Some(self.inner(schema, inner))
    }

    /// Returns the form of a value. A list's items are those of this type.
    fn form(self, value: Option<&Value>) -> Form<'s> {
        let of = Item::OfOther(self);
        match self.types.form(self.id) {
            OtherForm::Scalar(_) => Form::Scalar,
            OtherForm::Map { is_atomic } => Form::Map { is_atomic },
            OtherForm::List(items) => Form::List { of, items },
            OtherForm::Any { is_atomic, items } => match value {
                None | Some(Value::Null | Value::Object(_)) => Form::Map { is_atomic },
                Some(Value::Array(_)) => Form::List { of, items },
                Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Form::Scalar,
            },
        }
    }

    /// Returns whether the value itself is owned as a whole.
    pub(super) fn is_atomic(self) -> bool {
        match self.types.form(self.id) {
            OtherForm::Scalar(_) => false,
            OtherForm::Map { is_atomic } | OtherForm::Any { is_atomic, .. } => is_atomic,
            OtherForm::List(items) => matches!(items, Items::Atomic),
        }
    }
}

const TEXT: Kind<'static> = Kind::Scalar(Expected::String);

impl<'s> Kind<'s> {
    pub(super) fn of_struct(of: &'s Struct, is_atomic: Option<bool>) -> Kind<'s> {
        let is_atomic = is_atomic.unwrap_or(of.is_atomic);
        Kind::Struct { of, is_atomic }
    }

    /// Returns the kind of a field, which may declare how it is merged.
    pub(super) fn of_field(schema: &'s Schema, field: &'s Field) -> Kind<'s> {
        Kind::new(schema, &field.of, Some(field))
    }

    pub(super) fn of_type(schema: &'s Schema, of: &'s Type) -> Kind<'s> {
        Kind::new(schema, of, None)
    }

    fn new(schema: &'s Schema, of: &'s Type, field: Option<&'s Field>) -> Kind<'s> {
        let is_atomic = field.and_then(|field| field.is_atomic);
        match &of.shape {
            Shape::Scalar(scalar) => of_scalar(*scalar),
            Shape::List(item) => Kind::List {
                of: item,
                items: field.map_or(Items::Atomic, items),
            },
            Shape::Map(value) => Kind::Map {
                of: value,
                is_atomic: is_atomic.unwrap_or(false),
            },
            Shape::Struct(id) => match schema.get(*id) {
                Some(of) => Kind::of_struct(of, is_atomic),
                None => Kind::Deduced,
            },
            Shape::Object if of.is_raw() && is_atomic.is_none() => Kind::Raw,
            // Kubernetes' schema says nothing about its members.
            Shape::Object => Kind::Object {
                is_atomic: is_atomic.unwrap_or(true),
            },
            Shape::Any => Kind::Deduced,
        }
    }

    /// Returns the kind of a member. `None` for a field that is not declared, and for kinds without
    /// members.
    pub(super) fn member(&self, schema: &'s Schema, name: &str) -> Option<Kind<'s>> {
        match self {
            Kind::Struct { of, .. } => match of.field(name) {
                Some(field) => Some(Kind::of_field(schema, field)),
                None if of.kind.is_some() && is_type_name(name) => Some(TEXT),
                None => of.is_open.then_some(Kind::Deduced),
            },
            Kind::Map { of, .. } => Some(Kind::of_type(schema, of)),
            Kind::Object { .. } | Kind::Raw | Kind::Deduced => Some(Kind::Deduced),
            Kind::Other(other) => other.member(schema, name),
            Kind::Scalar(_) | Kind::List { .. } => None,
        }
    }

    /// Returns whether this is a struct with a field of this name.
    pub(super) fn names(&self, name: &str) -> bool {
        match self {
            Kind::Struct { of, .. } => {
                of.field(name).is_some() || of.kind.is_some() && is_type_name(name)
            }
            Kind::Other(other) => other.types.names(other.id, name),
            _ => false,
        }
    }

    /// Returns whether the type depends on the value.
    pub(super) fn is_deduced(&self) -> bool {
        match self {
            Kind::Deduced => true,
            Kind::Other(other) => {
                matches!(other.types.form(other.id), OtherForm::Any { .. })
            }
            _ => false,
        }
    }

    /// Returns the valid values of a scalar type.
    pub(super) fn expected(&self) -> Option<Expected> {
        match self {
            Kind::Scalar(expected) => Some(*expected),
            Kind::Other(other) => match other.types.form(other.id) {
                OtherForm::Scalar(expected) => Some(expected),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the form of a value of this type. A deduced type takes the form of the value. Null
    /// and values of another type have the form that the type declares.
    pub(super) fn form(&self, value: Option<&Value>) -> Form<'s> {
        crate::cost::visited();
        match self {
            Kind::Scalar(_) => Form::Scalar,
            Kind::Struct { is_atomic, .. }
            | Kind::Map { is_atomic, .. }
            | Kind::Object { is_atomic } => Form::Map {
                is_atomic: *is_atomic,
            },
            Kind::List { of, items } => Form::List {
                of: Item::Type(of),
                items: *items,
            },
            Kind::Raw => match value {
                Some(Value::Array(_)) => Form::List {
                    of: Item::Deduced,
                    items: Items::Atomic,
                },
                Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Form::Scalar,
                None | Some(Value::Null | Value::Object(_)) => Form::Map { is_atomic: true },
            },
            Kind::Other(other) => other.form(value),
            Kind::Deduced => match value {
                None | Some(Value::Null | Value::Object(_)) => Form::Map { is_atomic: false },
                Some(Value::Array(_)) => Form::List {
                    of: Item::Deduced,
                    items: Items::Atomic,
                },
                Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Form::Scalar,
            },
        }
    }
}

fn is_type_name(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind")
}

fn of_scalar(scalar: Scalar) -> Kind<'static> {
    match scalar {
        Scalar::String | Scalar::Bytes | Scalar::Duration => TEXT,
        Scalar::Bool => Kind::Scalar(Expected::Bool),
        Scalar::Int32 | Scalar::Int64 | Scalar::Float64 => Kind::Scalar(Expected::Number),
        Scalar::Time | Scalar::MicroTime | Scalar::Quantity => Kind::Scalar(Expected::Any),
        // Its schema declares no type, so it may be anything.
        Scalar::IntOrString => Kind::Deduced,
    }
}

/// Returns how the items of a list are identified. If the field declares no list type, the merge
/// key of strategic merge patches counts.
fn items(field: &Field) -> Items<'_> {
    match (&field.list, &field.patch) {
        (Some(ListType::Atomic), _) => Items::Atomic,
        (Some(ListType::Set), _) => Items::Set,
        (Some(ListType::Map(keys)), _) => Items::Map(Keys::Several(keys)),
        (None, Some(patch)) if patch.strategies.contains(&PatchStrategy::Merge) => {
            match &patch.key {
                Some(key) => Items::Map(Keys::One(key)),
                None => Items::Set,
            }
        }
        (None, _) => Items::Atomic,
    }
}
