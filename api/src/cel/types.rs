//! The types of values, and which of them may stand for which.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Anything. What it is shows when the expression is evaluated.
    Dyn,
    /// Anything, as a message has it.
    Any,
    /// Nothing.
    Null,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A whole number that is not negative.
    Uint,
    /// A floating-point number.
    Double,
    /// A text.
    String,
    /// Bytes.
    Bytes,
    /// A time between two points in time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A list of these.
    List(Arc<Type>),
    /// A map.
    Map(Arc<(Type, Type)>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// A type as a value.
    Type(Arc<Type>),
    /// A value with members that are known.
    Object(Arc<ObjectType>),
    /// A value that only functions know.
    Opaque(&'static str),
    /// What stands for some type in the type of a function.
    Parameter(char),
    /// What is wrong already.
    Wrong,
}

/// How deep types are told apart. What is deeper is anything, so that types stay small: expressions
/// can double them again and again.
const MAX_DEPTH: usize = 10;

/// A value with members. The name tells its type.
#[derive(Clone, Debug)]
pub struct ObjectType {
    name: ObjectName,
    /// The members in the order of their names.
    fields: Box<[(Arc<str>, Type)]>,
}

/// The name of a type: a text, or that of the object around it with the name of a member. It is
/// written when it is shown, so names of objects in objects take no more than their own part.
#[derive(Clone, Debug)]
pub struct ObjectName(Arc<Part>);

#[derive(Debug)]
struct Part {
    above: Option<ObjectName>,
    name: Arc<str>,
}

impl ObjectName {
    /// A name of this text.
    pub fn new(name: &str) -> ObjectName {
        let name = name.into();
        ObjectName(Arc::new(Part { above: None, name }))
    }

    /// The name of a member: `object.spec`.
    pub fn member(&self, name: Arc<str>) -> ObjectName {
        let above = Some(self.clone());
        ObjectName(Arc::new(Part { above, name }))
    }
}

/// Names of members are different, as each is made once.
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
    /// Whether the type has this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name.0.above.is_none() && *self.name.0.name == *name
    }

    /// The type of a member.
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
    /// A list of these.
    pub fn list(of: Type) -> Type {
        Type::List(Arc::new(of)).bounded()
    }

    /// A map from keys to values.
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value))).bounded()
    }

    /// What may be absent.
    pub fn optional(of: Type) -> Type {
        Type::Optional(Arc::new(of)).bounded()
    }

    /// A type as a value.
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

    /// A value with these members. Of several of one name the last one counts.
    pub fn object(name: ObjectName, fields: impl IntoIterator<Item = (Arc<str>, Type)>) -> Type {
        let fields: BTreeMap<Arc<str>, Type> = fields.into_iter().collect();
        let fields = fields.into_iter().collect();
        Type::Object(Arc::new(ObjectType { name, fields }))
    }

    /// How many types it consists of.
    pub(super) fn size(&self) -> usize {
        1 + match self {
            Type::List(of) | Type::Optional(of) | Type::Type(of) => of.size(),
            Type::Map(of) => of.0.size() + of.1.size(),
            _ => 0,
        }
    }

    /// What a fault shows of it as an argument.
    pub(super) fn as_argument(&self) -> Argument<'_> {
        Argument(self)
    }

    /// The type in which anything may stand where nothing is said of it.
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

    /// Whether nothing is said of it, or of a part of it.
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
            // What nothing is known of is anything.
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

/// A type as a fault shows it as an argument.
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

/// What parameters stand for in one call.
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

    /// Whether a value of the type `found` may stand where `wanted` is asked for. Parameters of
    /// `wanted` are bound.
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

    /// The type with what its parameters stand for. What they stand for is unknown if nothing was
    /// said of it.
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

/// The type of what is of either type; none if there is no such type. What is known of one of them
/// is not asked of what is not known of the other.
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
        // Two types are compared as values.
        (Type::Type(_), Type::Type(_)) => Some(Type::of_type(Type::Dyn)),
        // Objects by name may have been built in two ways.
        (Type::Object(one), Type::Object(other)) if one.name == other.name => {
            Some(Type::Object(Arc::clone(other)))
        }
        _ => None,
    }
}

/// Whether two types are the same. What is not known of the one may be as in the other.
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
