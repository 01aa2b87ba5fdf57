//! A document as a tree, decoded from any serde format, with limits and a record of duplicate
//! members.

mod byte_list;
mod documents;
mod managed_fields;
mod schema_or;
mod size;
mod typed;
mod yaml_key;

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;
use smallvec::SmallVec;

pub(super) use self::byte_list::byte;
pub(super) use self::documents::TypedSeed;
pub use self::documents::{Document, Part, TypedDocument, YamlDocument};
pub(super) use self::schema_or::read_schema_or;
pub use self::size::{MAX_ANSWER_TREE_BYTES, MAX_TREE_BYTES, is_deeper_than, tree_bytes};
pub(super) use self::typed::zero;
use self::typed::{GoPath, keeps_on_null, type_error};
use self::yaml_key::{Key, Others};
use crate::deep::{self, levels};
use crate::field_validation::{Place, StrictDecodingError, StrictDecodingErrors};
use crate::schema::{Scalar, Schema, Shape, Struct, Type, is_zero};
use crate::text::json_type;

/// How a document spells numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// As in JSON: `1.0` is not an integer.
    AsWritten,
    /// As in YAML, which becomes JSON first: `1.0` is 1.
    ByValue,
    /// As in JSON that is put into other JSON: `1.0` stays a float.
    Kept,
}

/// A line and a column.
type InText = (u64, u64);

/// A duplicate name in a YAML map: its place, whether its value is null, and the message.
/// [`super::read_yaml`] replaces place and flag by the line of the value.
struct Repeated<'n> {
    place: InText,
    is_null: bool,
    key: &'n Key,
}

impl fmt::Display for Repeated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repeated {
            place: (line, column),
            is_null,
            key,
        } = self;
        let is_null = u8::from(*is_null);
        write!(f, "{line}:{column}:{is_null} key {key} already set in map")
    }
}

/// The expected type of a value.
#[derive(Clone, Copy)]
enum Guide<'g> {
    /// Any value.
    Any,
    /// Any value, in a field that is kept as JSON. Duplicate members in it are not searched for.
    Opaque,
    /// A whole object of this struct.
    Object(&'g Schema, &'g Struct),
    /// A value of this type, in this field or in a list or map of it.
    Type(&'g Schema, &'g Type, &'g GoPath<'g>),
}

/// The progress of decoding.
struct Reading {
    weight: usize,
    tree_bytes: usize,
    /// The limit on `tree_bytes`; `usize::MAX` means no limit.
    most_tree_bytes: usize,
    /// The limit on `weight`.
    most_weight: usize,
    /// The number of values and names so far.
    steps: usize,
    /// The number of levels that the tree may have.
    levels: usize,
    numbers: Numbers,
    /// Whether a duplicate object is decoded into the earlier one, as Go does with structs.
    merges: bool,
    /// Whether the document is YAML, where names have lines.
    has_lines: bool,
    faults: StrictDecodingErrors,
    /// The error about the first value of a wrong type. Decoding continues after it, as in Go.
    type_error: Option<String>,
    /// The error about the first value that a custom decoder (such as that of times) refuses.
    /// Kubernetes stops there, so no later error is recorded.
    decoder_error: Option<String>,
    /// The number of enclosing values with a custom decoder, which does not report unknown fields.
    silent: usize,
    /// Whether managedFields stay text if they look as the server writes them.
    keeps_managed_fields: bool,
    /// The text of such managedFields.
    managed_fields: Option<String>,
}

impl Reading {
    fn new(most_tree_bytes: usize, numbers: Numbers) -> Reading {
        Reading {
            weight: 0,
            tree_bytes: 0,
            most_tree_bytes,
            most_weight: size::most_weight(most_tree_bytes),
            steps: 0,
            levels: levels(),
            numbers,
            merges: false,
            has_lines: false,
            faults: StrictDecodingErrors::default(),
            type_error: None,
            decoder_error: None,
            silent: 0,
            keeps_managed_fields: false,
            managed_fields: None,
        }
    }

    fn read<'de, D: Deserializer<'de>>(
        &mut self,
        guide: Guide<'_>,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        let node = Node {
            reading: self,
            place: &Place::Top,
            depth: 0,
            guide,
            earlier: None,
        };
        node.deserialize(deserializer)
    }

    fn note(&mut self, fault: fn(String) -> StrictDecodingError, place: impl fmt::Display) {
        if self.decoder_error.is_none() && self.silent == 0 {
            self.faults.note(fault, place);
        }
    }

    /// Reads the name of the next member in a document without a type, with its place if the format
    /// has one.
    fn next_name<'de, A: MapAccess<'de>>(
        &self,
        access: &mut A,
    ) -> Result<Option<(Key, Option<InText>)>, A::Error> {
        if !self.has_lines {
            return Ok(access.next_key()?.map(|name| (Key::text(name), None)));
        }
        let key: Option<Spanned<Key>> = access.next_key()?;
        Ok(key.map(|key| {
            let place = (key.referenced.line(), key.referenced.column());
            (key.value, Some(place))
        }))
    }

    /// Records that a value of the type `wanted` was expected and `found` was found.
    fn refuse_type(&mut self, found: impl fmt::Display, wanted: &str, at: &GoPath<'_>) {
        if self.decoder_error.is_none() && self.type_error.is_none() {
            self.type_error = Some(type_error(found, wanted, at.owner, at));
        }
    }

    /// Records a kind or apiVersion that is not a text, in the object `of` at `at`.
    fn check_type_member(&mut self, value: &Value, of: &Struct, at: &GoPath<'_>, name: &str) {
        if self.decoder_error.is_none() && !value.is_string() && !value.is_null() {
            let member = format_args!("{at}.TypeMeta.{name}");
            self.type_error
                .get_or_insert_with(|| type_error(json_type(value), "string", of, member));
        }
    }

    /// Records the error of a custom decoder.
    fn refuse(&mut self, why: impl FnOnce() -> String) {
        if self.decoder_error.is_none() {
            self.decoder_error = Some(why());
        }
    }
}

/// A value at its depth.
struct Node<'r> {
    reading: &'r mut Reading,
    place: &'r Place<'r>,
    depth: usize,
    guide: Guide<'r>,
    /// The value of an earlier member of the same name, into which Go decodes this one.
    earlier: Option<Value>,
}

impl Node<'_> {
    fn inside<'i>(&'i mut self, place: &'i Place<'i>, guide: Guide<'i>) -> Node<'i> {
        Node {
            reading: self.reading,
            place,
            depth: self.depth + 1,
            guide,
            earlier: None,
        }
    }

    /// Begins an object or a list.
    fn enter<E: Error>(&mut self) -> Result<(), E> {
        let levels = self.reading.levels;
        if self.depth >= levels {
            deep::note();
            return Err(E::custom(format_args!("exceeded max depth of {levels}")));
        }
        self.reading.weigh(None)
    }

    fn onto(self, earlier: Option<Value>) -> Self {
        Node { earlier, ..self }
    }

    /// Takes the members of an earlier object.
    fn earlier_members(&mut self) -> Map<String, Value> {
        match self.earlier.take() {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        }
    }

    /// Returns the guide for values below an untyped one.
    fn below_any(&self) -> Guide<'static> {
        match self.guide {
            Guide::Opaque => Guide::Opaque,
            Guide::Type(_, of, _) if matches!(of.shape, Shape::Any | Shape::Object) => {
                Guide::Opaque
            }
            Guide::Any | Guide::Object(..) | Guide::Type(..) => Guide::Any,
        }
    }

    /// Reads the members of a struct.
    fn read_struct<'de, A: MapAccess<'de>>(
        mut self,
        schema: &Schema,
        of: &Struct,
        above: Option<&GoPath<'_>>,
        mut access: A,
    ) -> Result<Value, A::Error> {
        let outer = self.place;
        let mut earlier = self.earlier_members();
        let mut members = Map::new();
        // Fields that occurred, but whose values were dropped because they are empty.
        let mut seen: SmallVec<[&str; 4]> = SmallVec::new();
        while let Some(name) = access.next_key::<String>()? {
            self.reading.weigh_member(name.len(), members.is_empty())?;
            let place = Place::Member(outer, &name);
            let Some(field) = of.field(&name) else {
                // The caller checks the kind of a whole object.
                let is_type = of.kind.is_some() && matches!(&*name, "kind" | "apiVersion");
                if is_type || of.is_open {
                    let value = access.next_value_seed(self.inside(&place, Guide::Any))?;
                    if let Some(above) = above.filter(|_| is_type) {
                        self.reading.check_type_member(&value, of, above, &name);
                    }
                    if members.contains_key(&name) {
                        self.reading.note(StrictDecodingError::Duplicate, place);
                    }
                    members.insert(name, value);
                } else {
                    self.reading.note(StrictDecodingError::Unknown, place);
                    access.next_value::<IgnoredAny>()?;
                }
                continue;
            };
            // linear: `seen` has only dropped fields of the struct. Kept ones are found in
            // `members` first.
            if members.contains_key(&name) || seen.contains(&&*field.name) {
                self.reading.note(StrictDecodingError::Duplicate, place);
            }
            let at = GoPath {
                above,
                owner: of,
                field,
            };
            let guide = Guide::Type(schema, &field.of, &at);
            let before = members.remove(&name).or_else(|| earlier.remove(&name));
            let before = before.filter(|_| self.reading.merges);
            let value = if self.reading.keeps_managed_fields && managed_fields::is_at(&at) {
                let list: &RawValue = access.next_value()?;
                let node = self.inside(&place, guide).onto(before);
                node.managed_fields(list).map_err(A::Error::custom)?
            } else {
                access.next_value_seed(self.inside(&place, guide).onto(before))?
            };
            let is_kept = field.keeps_empty() || field.of.is_pointer || !is_zero(&field.of, &value);
            if is_kept && !value.is_null() {
                members.insert(name, value);
            } else {
                seen.push(&field.name);
            }
        }
        let filled_in = of.nodes_filled_in(&members);
        self.reading.weigh_filled_in(filled_in)?;
        Ok(Value::Object(later_wins(earlier, members)))
    }

    /// Reads managedFields. Returns null if their text is kept.
    fn managed_fields(mut self, list: &RawValue) -> Result<Value, serde_json::Error> {
        let earlier = self.reading.managed_fields.take();
        if self.earlier.is_none() && self.reading.merges {
            self.earlier = earlier.and_then(|text| deep::from_json(text.as_bytes()).ok());
        }
        if self.earlier.is_none()
            && let Some(text) = managed_fields::text(list.get())
        {
            self.reading.managed_fields = Some(text);
            return Ok(Value::Null);
        }
        self.deserialize(&mut deep::reader(list.get().as_bytes()))
    }

    /// Reads the members of a map, whose values have this type or any.
    fn read_map<'de, A: MapAccess<'de>>(
        mut self,
        item: Option<(&Schema, &Type, &GoPath<'_>)>,
        mut access: A,
    ) -> Result<Value, A::Error> {
        let above = self.place;
        let other = self.below_any();
        let earlier = self.earlier_members();
        let mut members = Map::new();
        let mut others = Others::default();
        while let Some((key, place_in_text)) = self.reading.next_name(&mut access)? {
            let name = &key.name;
            self.reading.weigh_member(name.len(), members.is_empty())?;
            let place = Place::Member(above, name);
            let guide = item.map_or(other, |(schema, of, at)| Guide::Type(schema, of, at));
            let mut value = access.next_value_seed(self.inside(&place, guide))?;
            let is_same = others.is_same(&key, members.contains_key(name));
            if is_same && !matches!(other, Guide::Opaque) {
                match place_in_text {
                    None => self.reading.note(StrictDecodingError::Duplicate, place),
                    Some(at) => {
                        let repeated = Repeated {
                            place: at,
                            is_null: value.is_null(),
                            key: &key,
                        };
                        self.reading.note(StrictDecodingError::Repeated, repeated);
                    }
                }
            }
            if let (Value::Null, Some((_, of, _))) = (&value, item) {
                value = zero(of);
            }
            members.insert(key.name, value);
        }
        Ok(Value::Object(later_wins(earlier, members)))
    }
}

/// Merges the parts of an object whose name occurs several times. Extends the earlier part in
/// place, because a later part may be much smaller.
fn later_wins(mut earlier: Map<String, Value>, later: Map<String, Value>) -> Map<String, Value> {
    if earlier.is_empty() {
        return later;
    }
    crate::cost::compared(later.len());
    earlier.extend(later);
    earlier
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if !self.reading.keeps_managed_fields || !self.is_quantity() {
            return deserializer.deserialize_any(self);
        }
        // Go parses a quantity from the number as it is spelled, at any length.
        let literal = <&RawValue>::deserialize(deserializer)?.get();
        if literal.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            self.reading.weigh(Some(literal.len()))?;
            return Ok(self.reading.quantity(literal));
        }
        let mut reader = deep::reader(literal.as_bytes());
        reader.deserialize_any(self).map_err(D::Error::custom)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.reading.weigh(None)?;
        Ok(self.scalar(value.into(), None))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.reading.weigh(None)?;
        Ok(self.scalar(value.into(), None))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.reading.weigh(None)?;
        Ok(self.scalar(value.into(), None))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(small), _) => self.visit_i64(small),
            (_, Ok(small)) => self.visit_u64(small),
            _ => self.visit_f64(value as f64),
        }
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        match u64::try_from(value) {
            Ok(small) => self.visit_u64(small),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.reading.weigh(None)?;
        let keeps = self.reading.numbers == Numbers::Kept && !is_minus_zero(value);
        let number = match whole_number(value) {
            Some(whole) if !keeps => whole.into(),
            _ => Number::from_f64(value)
                .map(Value::Number)
                .ok_or_else(|| E::custom(format_args!("unsupported value: {value}")))?,
        };
        Ok(self.scalar(number, Some(value)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.reading.weigh(Some(text.len()))?;
        Ok(self.scalar(text.into(), None))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        self.reading.weigh(Some(text.len()))?;
        Ok(self.scalar(Value::String(text), None))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Value, E> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.visit_str(text),
            Err(_) => Err(E::custom("binary data that is not UTF-8 text")),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.reading.weigh(None)?;
        let keeps = matches!(self.guide, Guide::Type(_, of, _) if keeps_on_null(of));
        let earlier = self.earlier.filter(|_| keeps);
        Ok(earlier.unwrap_or_default())
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        self.deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        self.enter()?;
        let item = match self.guide {
            Guide::Any | Guide::Opaque | Guide::Object(..) => None,
            Guide::Type(schema, of, at) => match &of.shape {
                Shape::Any => match of.schema_or {
                    Some((_, or)) => return self.schema_or_list(or, schema, at, access),
                    None => None,
                },
                Shape::Object => None,
                Shape::List(item) => Some((schema, &**item, at)),
                Shape::Scalar(Scalar::Bytes) => return self.byte_list(at, access),
                _ => {
                    while access.next_element::<IgnoredAny>()?.is_some() {}
                    return Ok(self.refuse_compound("array"));
                }
            },
        };
        let above = self.place;
        let mut earlier = match self.earlier.take() {
            Some(Value::Array(items)) => items.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let other = self.below_any();
        let guide = item.map_or(other, |(schema, of, at)| Guide::Type(schema, of, at));
        let mut items = Vec::new();
        loop {
            let place = Place::Item(above, items.len());
            let node = self.inside(&place, guide).onto(earlier.next());
            match (access.next_element_seed(node)?, item) {
                (Some(Value::Null), Some((_, of, _))) => items.push(zero(of)),
                (Some(value), _) => items.push(value),
                (None, _) => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        self.enter()?;
        match self.guide {
            Guide::Any | Guide::Opaque => self.read_map(None, access),
            Guide::Object(schema, of) => self.read_struct(schema, of, None, access),
            Guide::Type(schema, of, at) => match &of.shape {
                Shape::Any if of.schema_or.is_some() => {
                    self.reading.silent += 1;
                    let reading = &mut *self.reading;
                    let inner = Node {
                        reading,
                        place: self.place,
                        depth: self.depth,
                        guide: self.guide,
                        earlier: None,
                    };
                    let read = inner.read_struct(schema, at.owner, Some(at), access);
                    self.reading.silent -= 1;
                    read
                }
                Shape::Any | Shape::Object => {
                    self.guide = Guide::Opaque;
                    self.read_map(None, access)
                }
                Shape::Map(item) => self.read_map(Some((schema, item, at)), access),
                Shape::Struct(id) => match schema.get(*id) {
                    Some(of) => self.read_struct(schema, of, Some(at), access),
                    None => self.read_map(None, access),
                },
                Shape::Scalar(_) | Shape::List(_) => {
                    while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                    Ok(self.refuse_compound("object"))
                }
            },
        }
    }
}

/// Converts a whole float to an integer, because Go prints it like one. Both zeros become 0.
fn whole_number(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0; // 2^53: beyond it floats skip whole numbers
    (value.fract() == 0.0 && value.abs() <= LIMIT).then_some(value as i64)
}

/// Returns whether a float is -0.0, as which serde_json reads `-0`. It is an integer.
fn is_minus_zero(value: f64) -> bool {
    value == 0.0 && value.is_sign_negative()
}
