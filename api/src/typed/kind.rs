//! What appliers see of a type: whether it is a scalar, a map or a list, and whether it has parts
//! that are owned one by one.

use serde_json::Value;

use crate::schema::{Field, ListType, PatchStrategy, Scalar, Schema, Shape, Struct, Type};

/// The form of a type.
#[derive(Clone, Copy)]
pub(super) enum Kind<'s> {
    /// A single value.
    Scalar(Expected),
    /// A struct.
    Struct { of: &'s Struct, is_atomic: bool },
    /// A map whose values have this type.
    Map { of: &'s Type, is_atomic: bool },
    /// A map of anything.
    Object { is_atomic: bool },
    /// Anything, as one value.
    Raw,
    /// A list whose items have this type.
    List { of: &'s Type, items: Items<'s> },
    /// Whatever the value is: a single value, a granular map, or an atomic list.
    Deduced,
}

/// The values that a scalar may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    String,
    Number,
    Bool,
    /// Any single value.
    Any,
}

/// What identifies the items of a list.
#[derive(Clone, Copy)]
pub(super) enum Items<'s> {
    /// Nothing: the list is owned as a whole.
    Atomic,
    /// Their values.
    Set,
    /// Fields of theirs.
    Map(Keys<'s>),
}

/// The names of key fields.
#[derive(Clone, Copy)]
pub(super) enum Keys<'s> {
    One(&'s String),
    Several(&'s [String]),
}

impl<'s> Keys<'s> {
    pub(super) fn names(self) -> &'s [String] {
        match self {
            Keys::One(name) => std::slice::from_ref(name),
            Keys::Several(names) => names,
        }
    }
}

/// A value as its type sees it.
pub(super) enum Form<'s> {
    Scalar,
    Map {
        is_atomic: bool,
    },
    List {
        of: Option<&'s Type>,
        items: Items<'s>,
    },
}

const TEXT: Kind<'static> = Kind::Scalar(Expected::String);

impl<'s> Kind<'s> {
    pub(super) fn of_struct(of: &'s Struct, is_atomic: Option<bool>) -> Kind<'s> {
        let is_atomic = is_atomic.unwrap_or(of.is_atomic);
        Kind::Struct { of, is_atomic }
    }

    /// The form of a field, which may say how it is merged.
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
            // Kubernetes knows nothing of what is in it.
            Shape::Object => Kind::Object {
                is_atomic: is_atomic.unwrap_or(true),
            },
            Shape::Any => Kind::Deduced,
        }
    }

    /// The form of a member. `None` if no such field is declared, or this has no members.
    pub(super) fn member(&self, schema: &'s Schema, name: &str) -> Option<Kind<'s>> {
        match self {
            Kind::Struct { of, .. } => match of.field(name) {
                Some(field) => Some(Kind::of_field(schema, field)),
                None if of.kind.is_some() && is_type_name(name) => Some(TEXT),
                None => of.is_open.then_some(Kind::Deduced),
            },
            Kind::Map { of, .. } => Some(Kind::of_type(schema, of)),
            Kind::Object { .. } | Kind::Raw | Kind::Deduced => Some(Kind::Deduced),
            Kind::Scalar(_) | Kind::List { .. } => None,
        }
    }

    /// Whether this is a struct with a field of this name.
    pub(super) fn names(&self, name: &str) -> bool {
        match self {
            Kind::Struct { of, .. } => {
                of.field(name).is_some() || of.kind.is_some() && is_type_name(name)
            }
            _ => false,
        }
    }

    /// The form of a value of this type. What is deduced depends on the value. Null and values of
    /// another type are what the type says, and maps where it says nothing.
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
                of: Some(of),
                items: *items,
            },
            Kind::Raw => match value {
                Some(Value::Array(_)) => Form::List {
                    of: None,
                    items: Items::Atomic,
                },
                Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Form::Scalar,
                None | Some(Value::Null | Value::Object(_)) => Form::Map { is_atomic: true },
            },
            Kind::Deduced => match value {
                None | Some(Value::Null | Value::Object(_)) => Form::Map { is_atomic: false },
                Some(Value::Array(_)) => Form::List {
                    of: None,
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
        // Its schema names no type, so that it is anything.
        Scalar::IntOrString => Kind::Deduced,
    }
}

/// How the items of a list are told apart. Where the field says nothing, how strategic merge
/// patches merge it counts.
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
