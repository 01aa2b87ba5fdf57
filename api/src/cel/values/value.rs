//! The values of expressions. Values inside of objects stay JSON until an expression looks at them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Map as Members, Value as Json};

use super::super::shape::{ListShape, ObjectShape, Order, Shape};
use super::amounts::Amount;
use super::authorizer::{Authorized, Decision};
use super::formats::NamedFormat;
use super::json::{map_of, member_of, value_of};
use super::semver::Semver;
use super::times::Time;
use crate::text::quoting::go_double;
use crate::text::url::Url;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'v> {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A text.
    String(Text<'v>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(List<'v>),
    /// A map or an object.
    Map(Map<'v>),
    /// A point in time.
    Timestamp(Time),
    /// The time between two points in time, in nanoseconds.
    Duration(i64),
    /// A type, by its name.
    Type(Text<'v>),
    /// A value that may be absent.
    Optional(Option<Arc<Value<'v>>>),
    /// A message: `Object{…}` or `JSONPatch{…}`.
    Message(Arc<Message<'v>>),
    /// A value of a type that only functions use.
    Opaque(Opaque),
    /// Data of unknown type, which can only be compared.
    Preserved(&'v Json),
}

/// A message: a part of an object, or an operation of a patch.
#[derive(Debug)]
pub struct Message<'v> {
    pub(super) name: Arc<str>,
    pub(super) fields: BTreeMap<Arc<str>, Value<'v>>,
}

/// The name of a message that is an operation of a patch.
pub(super) const PATCH: &str = "JSONPatch";

/// A text, either of an object or computed.
#[derive(Clone)]
pub enum Text<'v> {
    /// A part of an object.
    Borrowed(&'v str),
    /// A computed text, or a constant.
    Shared(Arc<str>),
}

/// A value of a type that only functions use.
#[derive(Clone, Debug)]
pub enum Opaque {
    /// An amount of a resource.
    Quantity(Arc<Amount>),
    /// An address.
    Ip(IpAddr),
    /// A network: an address and the number of its leading bits.
    Cidr(IpAddr, u8),
    /// A URL.
    Url(Arc<Url>),
    /// A version.
    Semver(Arc<Semver>),
    /// A format of texts.
    Format(&'static NamedFormat),
    /// A question about permissions, as far as it was asked.
    Authorized(Arc<Authorized>),
    /// The answer to such a question.
    Decision(Arc<Decision>),
}

/// A list.
#[derive(Clone, Debug)]
pub enum List<'v> {
    /// A list of an object. Without a shape its items are as JSON has them.
    Json(JsonList<'v>),
    /// A computed list.
    Items(Arc<Vec<Value<'v>>>),
    /// A sum of two lists of an object that are sets or keyed.
    Merged(Arc<Vec<Value<'v>>>, ListOf<'v>),
    /// The sum of two lists.
    Joined(Arc<Joined<'v>>),
}

/// A list of an object.
#[derive(Clone, Copy, Debug)]
pub struct JsonList<'v> {
    pub(in super::super) items: &'v [Json],
    pub(in super::super) of: Option<ListOf<'v>>,
}

/// The shape of a list.
#[derive(Clone, Copy, Debug)]
pub struct ListOf<'v>(pub(in super::super) &'v ListShape);

/// The sum of two lists.
#[derive(Debug)]
pub struct Joined<'v> {
    first: List<'v>,
    second: List<'v>,
    length: usize,
}

/// A map or an object.
#[derive(Clone, Debug)]
pub enum Map<'v> {
    /// A map or an object inside of an object.
    Json(JsonMap<'v>),
    /// A computed map.
    Built(Arc<BuiltMap<'v>>),
}

/// A map or an object inside of an object.
#[derive(Clone, Copy, Debug)]
pub struct JsonMap<'v> {
    pub(in super::super) members: &'v Members<String, Json>,
    pub(in super::super) of: MapOf<'v>,
}

/// The shape of a map or an object.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum MapOf<'v> {
    /// Any members, as JSON has them.
    Any,
    /// Members of one shape.
    Values(&'v Shape),
    /// Named members.
    Fields(&'v ObjectShape),
}

/// A computed map, in the order of insertion.
#[derive(Clone, Debug, Default)]
pub struct BuiltMap<'v> {
    entries: Vec<(Value<'v>, Value<'v>)>,
    places: HashMap<Key, usize>,
}

/// A key of a computed map. Equal numbers of different types are found by conversion.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Box<str>),
}

/// The reason why an evaluation has no value.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// An error that expressions can absorb, in words.
    Error(Cow<'static, str>),
    /// The evaluation costs more than it may.
    OverBudget,
    /// The client is gone.
    Abandoned,
    /// It asks about permissions, and the answer is not known yet. With the answer it is evaluated
    /// again.
    Unanswered,
}

impl Failure {
    /// Returns whether it ends the evaluation, so that no expression can absorb it.
    pub fn is_final(&self) -> bool {
        !matches!(self, Failure::Error(_))
    }
}

/// The outcome of an evaluation.
pub type Outcome<T> = Result<T, Failure>;

/// Creates an error.
pub(in super::super) fn error<T>(what: impl Into<Cow<'static, str>>) -> Outcome<T> {
    Err(Failure::Error(what.into()))
}

/// Creates the error for arguments that a function can't take.
pub(in super::super) fn no_overload<T>() -> Outcome<T> {
    error("no such overload")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(what) => f.write_str(what),
            Failure::OverBudget => f.write_str("operation cancelled: actual cost limit exceeded"),
            Failure::Abandoned | Failure::Unanswered => f.write_str("operation interrupted"),
        }
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text::Shared(text.into())
    }
}

impl<'v> From<&'v str> for Text<'v> {
    fn from(text: &'v str) -> Self {
        Text::Borrowed(text)
    }
}

impl<'v> Value<'v> {
    /// Returns a text as a value.
    pub fn text(text: impl Into<Text<'v>>) -> Value<'v> {
        Value::String(text.into())
    }

    /// Returns a list of values.
    pub fn list(items: Vec<Value<'v>>) -> Value<'v> {
        Value::List(List::Items(Arc::new(items)))
    }

    /// Returns an optional value that is present.
    pub fn some(value: Value<'v>) -> Value<'v> {
        Value::Optional(Some(Arc::new(value)))
    }

    /// Returns a value as its shape declares it.
    ///
    /// # Errors
    /// The value does not have this shape.
    pub fn shaped(json: &'v Json, shape: &'v Shape) -> Outcome<Value<'v>> {
        value_of(json, shape)
    }

    /// Returns the members of an object as a value of this shape.
    ///
    /// # Errors
    /// The shape is not that of an object.
    pub fn of_members(members: &'v Members<String, Json>, shape: &'v Shape) -> Outcome<Value<'v>> {
        map_of(members, shape)
    }

    /// Returns JSON without a schema as a value.
    pub fn untyped(json: &'v Json) -> Value<'v> {
        value_of(json, &super::super::shape::ANY).unwrap_or(Value::Null)
    }

    /// Returns the members of an object without a schema as a value.
    pub fn untyped_members(members: &'v Members<String, Json>) -> Value<'v> {
        Value::Map(Map::Json(JsonMap {
            members,
            of: MapOf::Any,
        }))
    }

    /// Returns the name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Message(of) if *of.name == *PATCH => PATCH,
            Value::Message(_) => "Object",
            Value::Opaque(of) => of.type_name(),
            Value::Preserved(_) => "unknown",
        }
    }

    /// Returns the number of characters, bytes, items or members, and one for other values: the
    /// size by which operations on a value cost.
    pub(in super::super) fn size(&self) -> u64 {
        match self {
            Value::Optional(Some(value)) => value.size(),
            other => other.measured().unwrap_or(1),
        }
    }

    /// Returns the size of a value that has one.
    pub(in super::super) fn measured(&self) -> Option<u64> {
        Some(match self {
            Value::String(text) => text.chars().count() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Opaque(Opaque::Ip(IpAddr::V4(_))) => 4,
            Value::Opaque(Opaque::Ip(IpAddr::V6(_))) => 16,
            Value::Opaque(Opaque::Cidr(_, bits)) => u64::from(*bits).div_ceil(8),
            _ => return None,
        })
    }
}

impl Opaque {
    fn type_name(&self) -> &'static str {
        match self {
            Opaque::Quantity(_) => "kubernetes.Quantity",
            Opaque::Ip(_) => "net.IP",
            Opaque::Cidr(..) => "net.CIDR",
            Opaque::Url(_) => "kubernetes.URL",
            Opaque::Semver(_) => "kubernetes.Semver",
            Opaque::Format(_) => "kubernetes.NamedFormat",
            Opaque::Authorized(of) => of.type_name(),
            Opaque::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

/// The value as errors show it.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL_VALUE"),
            Value::Bool(of) => of.fmt(f),
            Value::Int(of) => of.fmt(f),
            Value::Uint(of) => of.fmt(f),
            Value::Double(of) => f.write_str(&go_double(*of)),
            Value::String(of) | Value::Type(of) => f.write_str(of),
            other => f.write_str(other.type_name()),
        }
    }
}

impl<'v> List<'v> {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        match self {
            List::Json(list) => list.items.len(),
            List::Items(items) | List::Merged(items, _) => items.len(),
            List::Joined(of) => of.length,
        }
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an item, or `None` past the end.
    pub(in super::super) fn get(&self, at: usize) -> Option<Outcome<Value<'v>>> {
        match self {
            List::Json(list) => list.items.get(at).map(|item| list.item(item)),
            List::Items(items) | List::Merged(items, _) => items.get(at).cloned().map(Ok),
            List::Joined(of) => match at.checked_sub(of.first.len()) {
                None => of.first.get(at),
                Some(at) => of.second.get(at),
            },
        }
    }

    /// Returns the items in order.
    pub fn iter(&self) -> Items<'_, 'v> {
        Items {
            open: vec![(self, 0)],
        }
    }

    /// Returns whether the item at this position is one of an object's own list, which takes only
    /// signed integers.
    pub(in super::super) fn is_own(&self, at: usize) -> bool {
        match self {
            List::Json(_) | List::Merged(..) => true,
            List::Items(_) => false,
            List::Joined(of) => match at.checked_sub(of.first.len()) {
                None => of.first.is_own(at),
                // The position in the second list is computed.
                Some(_) => false,
            },
        }
    }

    /// Returns what identifies the items.
    pub(in super::super) fn order(&self) -> &Order {
        match self {
            List::Json(JsonList { of: Some(of), .. }) | List::Merged(_, of) => &of.0.order,
            _ => &Order::Atomic,
        }
    }

    /// Returns the sum of two lists that are not sets and not keyed.
    pub(in super::super) fn joined(&self, other: &List<'v>) -> Outcome<List<'v>> {
        if self.is_empty() {
            return Ok(other.clone());
        }
        if other.is_empty() {
            return Ok(self.clone());
        }
        let length = self.len() + other.len();
        if length > MAX_ITEMS {
            return Err(Failure::OverBudget);
        }
        Ok(List::Joined(Arc::new(Joined {
            first: self.clone(),
            second: other.clone(),
            length,
        })))
    }
}

/// The limit on the items of a computed list, which no cost limits.
const MAX_ITEMS: usize = 1 << 22;

impl<'v> JsonList<'v> {
    fn item(&self, item: &'v Json) -> Outcome<Value<'v>> {
        match self.of {
            Some(of) => value_of(item, &of.0.items),
            None => Ok(Value::untyped(item)),
        }
    }
}

/// The items of a list.
#[derive(Debug)]
pub struct Items<'l, 'v> {
    /// The parts of the list that are not finished, the next one last, with their next positions.
    open: Vec<(&'l List<'v>, usize)>,
}

impl<'v> Iterator for Items<'_, 'v> {
    type Item = Outcome<Value<'v>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (list, at) = self.open.pop()?;
            if let List::Joined(of) = list {
                self.open.push((&of.second, 0));
                self.open.push((&of.first, 0));
                continue;
            }
            if let Some(item) = list.get(at) {
                self.open.push((list, at + 1));
                return Some(item);
            }
        }
    }
}

impl<'v> Map<'v> {
    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match self {
            Map::Json(map) => map.members.len(),
            Map::Built(of) => of.entries.len(),
        }
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key, or `None` if it is absent.
    pub(in super::super) fn find(&self, key: &Value<'_>) -> Outcome<Option<Value<'v>>> {
        match (self, key) {
            (Map::Json(map), Value::String(name)) => map.member(name),
            (Map::Json(map), _) if matches!(map.of, MapOf::Any) => Ok(None),
            (Map::Json(_), _) => no_overload(),
            (Map::Built(of), key) => Ok(of.find(key).cloned()),
        }
    }

    /// Returns the keys.
    pub(in super::super) fn keys(&self) -> Vec<Value<'v>> {
        match self {
            Map::Json(map) => map.keys(),
            Map::Built(of) => of.entries.iter().map(|(key, _)| key.clone()).collect(),
        }
    }

    /// Returns the keys and values.
    pub fn entries(&self) -> Vec<(Value<'v>, Outcome<Value<'v>>)> {
        match self {
            Map::Json(map) => {
                let keys = map.keys().into_iter();
                let found = keys.map(|key| {
                    let value = self.find(&key);
                    let value = value.map(|value| value.unwrap_or(Value::Null));
                    (key, value)
                });
                found.collect()
            }
            Map::Built(of) => {
                let entries = of.entries.iter();
                entries
                    .map(|(key, value)| (key.clone(), Ok(value.clone())))
                    .collect()
            }
        }
    }
}

impl<'v> JsonMap<'v> {
    /// Returns the member with this name in expressions.
    #[inline]
    pub(in super::super) fn member(&self, name: &str) -> Outcome<Option<Value<'v>>> {
        match self.of {
            MapOf::Any => Ok(self.members.get(name).map(Value::untyped)),
            MapOf::Values(of) => {
                let found = self.members.get(name);
                found.map(|value| value_of(value, of)).transpose()
            }
            MapOf::Fields(of) => member_of(self.members, of, name),
        }
    }

    /// Returns the keys of the members with a shape, as expressions write them.
    fn keys(&self) -> Vec<Value<'v>> {
        let members = self.members.iter();
        let shown = members.filter_map(|(name, _)| match self.of {
            MapOf::Any | MapOf::Values(_) => Some(Value::text(name.as_str())),
            MapOf::Fields(of) => {
                let field = of.property(name)?;
                Some(Value::String(match &field.escaped {
                    Some(escaped) => Text::Shared(Arc::clone(escaped)),
                    None => Text::Borrowed(name),
                }))
            }
        });
        shown.collect()
    }
}

impl<'v> BuiltMap<'v> {
    /// Inserts a value. Returns false if the key can't be one.
    pub(in super::super) fn insert(&mut self, key: Value<'v>, value: Value<'v>) -> bool {
        let Some(place) = Key::of(&key) else {
            return false;
        };
        match self
            .places
            .get(&place)
            .and_then(|at| self.entries.get_mut(*at))
        {
            Some(entry) => *entry = (key, value),
            None => {
                self.places.insert(place, self.entries.len());
                self.entries.push((key, value));
            }
        }
        true
    }

    /// Removes a key.
    pub(in super::super) fn remove(&mut self, key: &Value<'v>) {
        if let Some(place) = Key::of(key)
            && self.places.contains_key(&place)
        {
            let entries = std::mem::take(&mut self.entries);
            self.places.clear();
            for (known, value) in entries {
                if Key::of(&known).as_ref() != Some(&place) {
                    self.insert(known, value);
                }
            }
        }
    }

    /// Returns the value of a key. Numbers of different types are equal if their values are.
    pub(in super::super) fn find(&self, key: &Value<'_>) -> Option<&Value<'v>> {
        let found = |key: Key| {
            let at = self.places.get(&key)?;
            self.entries.get(*at).map(|(_, value)| value)
        };
        let exact = found(Key::of(key)?);
        if exact.is_some() {
            return exact;
        }
        let number = match key {
            Value::Int(number) => i128::from(*number),
            Value::Uint(number) => i128::from(*number),
            Value::Double(number) => whole(*number)?,
            _ => return None,
        };
        let int = i64::try_from(number).ok().map(Key::Int);
        let uint = u64::try_from(number).ok().map(Key::Uint);
        #[expect(clippy::cast_precision_loss, reason = "the result is compared")]
        let double = Some(number as f64).filter(|double| whole(*double) == Some(number));
        let double = double.map(|double| Key::Double(double.to_bits()));
        let others = [int, uint, double].into_iter().flatten();
        others.filter_map(found).next()
    }
}

/// Returns the integer that a float equals.
fn whole(number: f64) -> Option<i128> {
    let is_whole = number.fract() == 0.0 && number.abs() < 2e19;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
    is_whole.then_some(number as i128)
}

impl Key {
    fn of(value: &Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Bool(of) => Key::Bool(*of),
            Value::Int(of) => Key::Int(*of),
            Value::Uint(of) => Key::Uint(*of),
            Value::Double(of) => Key::Double(of.to_bits()),
            Value::String(of) => Key::String((**of).into()),
            _ => return None,
        })
    }
}
