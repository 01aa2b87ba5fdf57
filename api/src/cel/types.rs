//! CEL types and their assignability.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// The name of the type of a policy's `variables`.
pub(super) const VARIABLES: &str = "kubernetes.variables";

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Any type, known only at evaluation.
    Dyn,
    /// `google.protobuf.Any`.
    Any,
    /// Nothing.
    Null,
    /// A boolean.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// A floating-point number.
    Double,
    /// A text.
    String,
    /// Bytes.
    Bytes,
    /// The time between two points in time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A list of values of this type.
    List(Arc<Type>),
    /// A map.
    Map(Arc<(Type, Type)>),
    /// An optional value.
    Optional(Arc<Type>),
    /// A type as a value.
    Type(Arc<Type>),
    /// A value with known members.
    Object(Arc<ObjectType>),
    /// A type that only functions use.
    Opaque(&'static str),
    /// A type parameter of a function.
    Parameter(char),
    /// The type of a part with an error that was already reported.
    Wrong,
}

/// The depth up to which types are distinguished. Deeper types are `dyn`, so that types stay small,
/// because expressions can double them again and again.
const MAX_DEPTH: usize = 10;

/// A type with members, identified by its name.
#[derive(Clone, Debug)]
pub struct ObjectType {
    name: ObjectName,
    /// The members, sorted by name.
    fields: Box<[(Arc<str>, Type)]>,
}

/// The name of a type: a text, or the name of the enclosing object's type with the name of a
/// member. It is formatted only when it is shown, so the names of nested objects take no more
/// memory than their last parts.
#[derive(Clone, Debug)]
pub struct ObjectName(Arc<Part>);

#[derive(Debug)]
struct Part {
    above: Option<ObjectName>,
    name: Arc<str>,
}

impl ObjectName {
    /// Returns a name with this text.
    pub fn new(name: &str) -> ObjectName {
        let name = name.into();
        ObjectName(Arc::new(Part { above: None, name }))
    }

    /// Returns the name of a member's type: `object.spec`.
    pub fn member(&self, name: Arc<str>) -> ObjectName {
        let above = Some(self.clone());
        ObjectName(Arc::new(Part { above, name }))
    }
}

/// Names of members differ, because each is created once.
impl PartialEq for ObjectName {
    fn eq(&self, other: &ObjectName) -> bool {
        let is_plain = self.0.above.is_none() && other.0.above.is_none();
        Arc::ptr_eq(&self.0, &other.0) || is_plain && self.0.name == other.0.name
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = &self.0.above {
            above.fmt(f)?;
            f.write_char('.')?;
        }
        f.write_str(&self.0.name)
    }
}

impl ObjectType {
    /// Returns whether the type has this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name.0.above.is_none() && *self.name.0.name == *name
    }

    /// Returns the type of a member.
    pub(super) fn field(&self, name: &str) -> Option<&Type> {
        let found = self
            .fields
            .binary_search_by(|(known, _)| (**known).cmp(name));
        found
            .ok()
            .and_then(|at| self.fields.get(at))
            .map(|(_, of)| of)
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &ObjectType) -> bool {
        self.name == other.name
    }
}

impl Eq for ObjectType {}

impl Type {
    /// Returns the type of a list.
    pub fn list(of: Type) -> Type {
        Type::List(Arc::new(of)).bounded()
    }

    /// Returns the type of a map.
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value))).bounded()
    }

    /// Returns the type of an optional value.
    pub fn optional(of: Type) -> Type {
        Type::Optional(Arc::new(of)).bounded()
    }

    /// Returns the type of a type as a value.
    pub(super) fn of_type(of: Type) -> Type {
        Type::Type(Arc::new(of)).bounded()
    }

    fn bounded(self) -> Type {
        match self.depth() > MAX_DEPTH {
            true => Type::Dyn,
            false => self,
        }
    }

    fn depth(&self) -> usize {
        1 + match self {
            Type::List(of) | Type::Optional(of) | Type::Type(of) => of.depth(),
            Type::Map(of) => of.0.depth().max(of.1.depth()),
            _ => 0,
        }
    }

    /// Returns a type with these members. The last of several with the same name counts.
    pub fn object(name: ObjectName, fields: impl IntoIterator<Item = (Arc<str>, Type)>) -> Type {
        let fields: BTreeMap<Arc<str>, Type> = fields.into_iter().collect();
        let fields = fields.into_iter().collect();
        Type::Object(Arc::new(ObjectType { name, fields }))
    }

    /// Returns the number of types that it consists of.
    pub(super) fn size(&self) -> usize {
        1 + match self {
            Type::List(of) | Type::Optional(of) | Type::Type(of) => of.size(),
            Type::Map(of) => of.0.size() + of.1.size(),
            _ => 0,
        }
    }

    /// Returns the type formatted as an argument in an error.
    pub(super) fn as_argument(&self) -> Argument<'_> {
        Argument(self)
    }

    /// Returns the type with `dyn` for unknown types.
    pub(super) fn known(&self) -> Type {
        match self {
            Type::Parameter(_) => Type::Dyn,
            Type::List(of) => Type::list(of.known()),
            Type::Optional(of) => Type::optional(of.known()),
            Type::Type(of) => Type::of_type(of.known()),
            Type::Map(of) => Type::map(of.0.known(), of.1.known()),
            other => other.clone(),
        }
    }

    /// Returns the type that a policy's variable of this type has: objects and values that only
    /// functions use have any type.
    #[must_use]
    pub fn of_variable(&self) -> Type {
        match self {
            Type::List(of) => Type::list(of.of_variable()),
            Type::Map(of) => Type::map(of.0.of_variable(), of.1.of_variable()),
            Type::Any
            | Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::String
            | Type::Bytes
            | Type::Duration
            | Type::Timestamp => self.clone(),
            _ => Type::Dyn,
        }
    }

    /// Returns whether the type, or a part of it, is unknown.
    pub(super) fn is_unknown(&self) -> bool {
        match self {
            Type::Parameter(_) => true,
            Type::List(of) | Type::Optional(of) | Type::Type(of) => of.is_unknown(),
            Type::Map(of) => of.0.is_unknown() || of.1.is_unknown(),
            _ => false,
        }
    }

    fn may_be_null(&self) -> bool {
        matches!(
            self,
            Type::Null
                | Type::Object(_)
                | Type::Opaque(_)
                | Type::Duration
                | Type::Timestamp
                | Type::Optional(_)
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Unknown types are `dyn`.
            Type::Dyn | Type::Parameter(_) => f.write_str("dyn"),
            Type::Any => f.write_str("google.protobuf.Any"),
            Type::Null => f.write_str("null_type"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("google.protobuf.Duration"),
            Type::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Type::List(of) => write!(f, "list({of})"),
            Type::Map(of) => write!(f, "map({}, {})", of.0, of.1),
            Type::Optional(of) => write!(f, "optional_type({of})"),
            Type::Type(of) => write!(f, "type({of})"),
            Type::Object(of) => of.name.fmt(f),
            Type::Opaque(name) => f.write_str(name),
            Type::Wrong => f.write_str("!error!"),
        }
    }
}

/// A type, formatted as an argument in an error.
pub(super) struct Argument<'t>(&'t Type);

impl fmt::Display for Argument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Type::Null => f.write_str("null"),
            Type::Any => f.write_str("any"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(of) => write!(f, "list({})", Argument(of)),
            Type::Map(of) => write!(f, "map({}, {})", Argument(&of.0), Argument(&of.1)),
            Type::Optional(of) => write!(f, "optional_type({})", Argument(of)),
            Type::Type(of) => write!(f, "type({})", Argument(of)),
            other => other.fmt(f),
        }
    }
}

/// The types that parameters are bound to in one call.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound(Vec<(char, Type)>);

impl Bound {
    fn get(&self, name: char) -> Option<&Type> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, of)| of)
    }

    fn set(&mut self, name: char, of: Type) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = of,
            None => self.0.push((name, of)),
        }
    }

    /// Returns whether a value of type `found` can be passed where `wanted` is expected. Binds the
    /// parameters of `wanted`.
    pub(super) fn fits(&mut self, wanted: &Type, found: &Type) -> bool {
        match (wanted, found) {
            (Type::Parameter(name), _) => match self.get(*name).cloned() {
                None => {
                    self.set(*name, found.clone());
                    true
                }
                Some(known) => match joined(&known, found) {
                    Some(both) => {
                        self.set(*name, both);
                        true
                    }
                    None => false,
                },
            },
            (Type::List(wanted), Type::List(found)) => self.fits(wanted, found),
            (Type::Optional(wanted), Type::Optional(found)) => self.fits(wanted, found),
            (Type::Type(wanted), Type::Type(found)) => self.fits(wanted, found),
            (Type::Map(wanted), Type::Map(found)) => {
                self.fits(&wanted.0, &found.0) && self.fits(&wanted.1, &found.1)
            }
            _ => joined(wanted, found).is_some(),
        }
    }

    /// Returns the type with its parameters replaced. A parameter that is not bound is unknown.
    pub(super) fn filled(&self, of: &Type) -> Type {
        match of {
            Type::Parameter(name) => {
                let of = self.get(*name).cloned();
                of.unwrap_or(Type::Parameter('_'))
            }
            Type::List(of) => Type::list(self.filled(of)),
            Type::Optional(of) => Type::optional(self.filled(of)),
            Type::Type(of) => Type::of_type(self.filled(of)),
            Type::Map(of) => Type::map(self.filled(&of.0), self.filled(&of.1)),
            other => other.clone(),
        }
    }
}

/// Returns the common type of two types, or `None` without one. Where one of them is unknown, the
/// other counts.
pub(super) fn joined(one: &Type, other: &Type) -> Option<Type> {
    match (one, other) {
        _ if one == other => Some(one.clone()),
        (Type::Parameter(_), known) | (known, Type::Parameter(_)) => Some(known.clone()),
        (Type::Dyn | Type::Any | Type::Wrong, _) | (_, Type::Dyn | Type::Any | Type::Wrong) => {
            Some(Type::Dyn)
        }
        (Type::Null, known) | (known, Type::Null) if known.may_be_null() => Some(known.clone()),
        (Type::List(one), Type::List(other)) => joined(one, other).map(Type::list),
        (Type::Optional(one), Type::Optional(other)) => joined(one, other).map(Type::optional),
        (Type::Map(one), Type::Map(other)) => Some(Type::map(
            joined(&one.0, &other.0)?,
            joined(&one.1, &other.1)?,
        )),
        // Type values can be compared with each other.
        (Type::Type(_), Type::Type(_)) => Some(Type::of_type(Type::Dyn)),
        // Objects with the same name may have been created independently.
        (Type::Object(one), Type::Object(other)) if one.name == other.name => {
            Some(Type::Object(Arc::clone(other)))
        }
        _ => None,
    }
}

/// Returns whether two types are equal. An unknown part equals any type.
pub(super) fn is_same(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Parameter(_), _) | (_, Type::Parameter(_)) => true,
        (Type::List(one), Type::List(other))
        | (Type::Optional(one), Type::Optional(other))
        | (Type::Type(one), Type::Type(other)) => is_same(one, other),
        (Type::Map(one), Type::Map(other)) => {
            is_same(&one.0, &other.0) && is_same(&one.1, &other.1)
        }
        _ => one == other,
    }
}
