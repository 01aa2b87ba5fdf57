//! The shapes of values that a structural schema declares: the types that rules see, the way their
//! JSON becomes values, and the bounds on their sizes for estimates of cost (CRD-170, CRD-171).

use std::sync::Arc;

use serde_json::Value as Json;

use super::reserved_words::is_reserved;
use super::types::{ObjectName, Type};
use crate::structural::Budget;

/// The limit on a request in bytes, from which the sizes of unbounded values are estimated.
pub(super) const MAX_REQUEST: i64 = 3 * 1024 * 1024;

/// The steps of a budget for the shape of one schema.
const STEPS: usize = 3;

/// The longest text of a date with a time, and of a duration, in JSON.
const LONGEST_TIME: i64 = 32;
/// The length of a date in JSON.
const DATE: i64 = 12;

/// The stack that must be free for a level, and the size of a new stack segment.
const RED_ZONE: usize = 64 * 1024;
const MORE_STACK: usize = 1024 * 1024;

/// The shape of a value.
#[derive(Clone, Debug)]
pub struct Shape {
    pub(super) kind: Kind,
    pub(super) is_nullable: bool,
    /// The bounds of the value, or `None` if expressions can't see it.
    pub(super) bounds: Option<Bounds>,
}

/// The bounds of a value's sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most characters, items or members.
    pub most: u64,
    /// The fewest bytes of its JSON.
    pub least_bytes: i64,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// JSON without a schema.
    Any,
    /// Data without a type that is preserved. It can only be compared.
    Preserved,
    /// No known type.
    Unknown(Arc<str>),
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    /// A list, unless its items are not described.
    List(Option<Arc<ListShape>>),
    /// A map whose values have one shape.
    Map(Arc<Shape>),
    Object(Arc<ObjectShape>),
}

/// The shape of a list.
#[derive(Clone, Debug)]
pub(super) struct ListShape {
    pub items: Shape,
    pub order: Order,
}

/// The order of a list: how its items are identified.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// Their positions.
    Atomic,
    /// Their values.
    Set,
    /// Some of their members.
    Map(Box<[Arc<str>]>),
}

/// The shape of an object with named members.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectShape {
    /// The members, sorted by name.
    fields: Box<[FieldShape]>,
    /// The positions of the members, sorted by their names in expressions.
    by_expression: Box<[(Arc<str>, usize)]>,
    /// Whether the schema names members, so that an absent member differs from a null one.
    pub has_properties: bool,
}

/// A member of an object.
#[derive(Clone, Debug)]
pub(super) struct FieldShape {
    pub name: Arc<str>,
    /// Its name in expressions, if it can be written there.
    pub escaped: Option<Arc<str>>,
    pub shape: Shape,
    /// Whether only rules see it, and the schema does not describe it.
    pub is_implied: bool,
}

impl ObjectShape {
    fn new(mut fields: Vec<FieldShape>, has_properties: bool) -> ObjectShape {
        fields.sort_by(|one, other| one.name.cmp(&other.name));
        let names = fields.iter().enumerate();
        let mut by_expression: Vec<(Arc<str>, usize)> = names
            .filter_map(|(at, field)| Some((Arc::clone(field.escaped.as_ref()?), at)))
            .collect();
        by_expression.sort();
        ObjectShape {
            fields: fields.into(),
            by_expression: by_expression.into(),
            has_properties,
        }
    }

    /// Returns a member by its name in JSON.
    pub(super) fn property(&self, name: &str) -> Option<&FieldShape> {
        let found = self
            .fields
            .binary_search_by(|field| (*field.name).cmp(name));
        found.ok().and_then(|at| self.fields.get(at))
    }

    /// Returns a member by its name in expressions.
    pub(super) fn member(&self, name: &str) -> Option<&FieldShape> {
        let found = self
            .by_expression
            .binary_search_by(|(known, _)| (**known).cmp(name));
        let (_, at) = self.by_expression.get(found.ok()?)?;
        self.fields.get(*at)
    }
}

/// The shape of JSON without a schema.
pub(super) static ANY: Shape = Shape {
    kind: Kind::Any,
    is_nullable: true,
    bounds: None,
};

impl Shape {
    /// Returns the shape of values of a structural schema. `is_root` says whether it is that of a
    /// whole custom resource. Takes steps from the budget; once it is spent, parts are unknown.
    pub fn of(schema: &Json, is_root: bool, budget: &Budget) -> Shape {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || read(schema, is_root, budget))
    }

    /// Returns the type that expressions see, or `None` if they can't see the value. Takes steps
    /// from the budget; once it is spent, parts have any type.
    pub fn declared(&self, budget: &Budget) -> Option<Type> {
        let name = Named {
            above: None,
            name: &Arc::from("object"),
        };
        self.named(&name, budget)
    }

    /// Returns whether expressions can see the value.
    pub fn is_visible(&self) -> bool {
        self.bounds.is_some()
    }

    fn named(&self, name: &Named<'_>, budget: &Budget) -> Option<Type> {
        self.bounds?;
        if !budget.take(STEPS) {
            return Some(Type::Dyn);
        }
        Some(match &self.kind {
            Kind::IntOrString | Kind::Any => Type::Dyn,
            Kind::Preserved | Kind::Unknown(_) => return None,
            Kind::Bool => Type::Bool,
            Kind::Int => Type::Int,
            Kind::Double => Type::Double,
            Kind::String => Type::String,
            Kind::Bytes => Type::Bytes,
            Kind::Duration => Type::Duration,
            Kind::Date | Kind::DateTime => Type::Timestamp,
            Kind::List(of) => {
                let item = Arc::from("@idx");
                Type::list(name.part(&item, &of.as_ref()?.items, budget)?)
            }
            Kind::Map(of) => {
                let value = Arc::from("@elem");
                Type::map(Type::String, name.part(&value, of, budget)?)
            }
            Kind::Object(of) => {
                let own_name = name.whole();
                let members = of.fields.iter().filter_map(|field| {
                    let named = Named {
                        above: Some(&own_name),
                        name: &field.name,
                    };
                    let of = below(&field.shape, &named, budget)?;
                    Some((Arc::clone(field.escaped.as_ref()?), of))
                });
                let members: Vec<(Arc<str>, Type)> = members.collect();
                Type::object(own_name, members)
            }
        })
    }

    /// Returns the shape of the items of a list, or of the values of a map.
    pub fn element(&self) -> Option<&Shape> {
        match &self.kind {
            Kind::List(of) => of.as_ref().map(|of| &of.items),
            Kind::Map(of) => Some(of),
            _ => None,
        }
    }

    /// Returns the shape of a member by its name in JSON.
    pub fn property(&self, name: &str) -> Option<&Shape> {
        match &self.kind {
            Kind::Object(of) => of.property(name).map(|field| &field.shape),
            _ => None,
        }
    }

    /// Returns the shape of a member that the schema itself describes.
    pub(super) fn described(&self, name: &str) -> Option<&Shape> {
        match &self.kind {
            Kind::Object(of) => {
                let found = of.property(name).filter(|field| !field.is_implied);
                found.map(|field| &field.shape)
            }
            _ => None,
        }
    }

    /// Returns the most times that values of this shape fit into a request.
    pub(super) fn cardinality(&self) -> u64 {
        let least = self.bounds.map_or(0, |bounds| bounds.least_bytes);
        u64::try_from(MAX_REQUEST / (least + 1)).unwrap_or(0)
    }
}

/// The name of an object type: that of a member of another type.
struct Named<'n> {
    above: Option<&'n ObjectName>,
    name: &'n Arc<str>,
}

impl Named<'_> {
    fn whole(&self) -> ObjectName {
        match self.above {
            Some(above) => above.member(Arc::clone(self.name)),
            None => ObjectName::new(self.name),
        }
    }

    /// Returns the type of the items of a list, or of the values of a map.
    fn part(&self, name: &Arc<str>, of: &Shape, budget: &Budget) -> Option<Type> {
        let whole = self.whole();
        let name = Named {
            above: Some(&whole),
            name,
        };
        below(of, &name, budget)
    }
}

fn below(of: &Shape, name: &Named<'_>, budget: &Budget) -> Option<Type> {
    stacker::maybe_grow(RED_ZONE, MORE_STACK, || of.named(name, budget))
}

fn number(schema: &Json, name: &str) -> Option<i64> {
    let number = schema.get(name)?;
    number.as_i64().or_else(|| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is whole, and out of range saturates"
        )]
        Some(number as i64)
    })
}

fn bounds(most: i64, least_bytes: i64) -> Option<Bounds> {
    let most = u64::try_from(most).unwrap_or(0);
    Some(Bounds { most, least_bytes })
}

/// Returns the most bytes of a text: four for each character.
fn longest(schema: &Json) -> i64 {
    match number(schema, "maxLength") {
        Some(most) => most.max(0).saturating_mul(4),
        None => MAX_REQUEST - 2,
    }
}

fn read(schema: &Json, is_root: bool, budget: &Budget) -> Shape {
    let flag = |name: &str| schema.get(name) == Some(&Json::Bool(true));
    let text = |name: &str| schema.get(name).and_then(Json::as_str).unwrap_or_default();
    let is_nullable = flag("nullable");
    let made = |kind: Kind, bounds: Option<Bounds>| Shape {
        kind,
        is_nullable,
        bounds,
    };
    if !budget.take(STEPS) {
        return made(Kind::Any, bounds(0, 1));
    }
    if flag("x-kubernetes-int-or-string") {
        return made(Kind::IntOrString, bounds(longest(schema), 1));
    }
    match text("type") {
        "boolean" => made(Kind::Bool, bounds(0, 4)),
        "integer" => made(Kind::Int, bounds(0, 1)),
        "number" => made(Kind::Double, bounds(0, 1)),
        "string" => {
            let (kind, bounds) = text_shape(schema, text("format"));
            made(kind, bounds)
        }
        "array" => {
            let (kind, bounds) = list_shape(schema, text("x-kubernetes-list-type"), budget);
            made(kind, bounds)
        }
        "object" => {
            let is_whole = is_root || flag("x-kubernetes-embedded-resource");
            let (kind, bounds) = object_shape(schema, is_whole, budget);
            made(kind, bounds)
        }
        _ if flag("x-kubernetes-preserve-unknown-fields") => made(Kind::Preserved, None),
        other => made(Kind::Unknown(other.into()), None),
    }
}

fn text_shape(schema: &Json, format: &str) -> (Kind, Option<Bounds>) {
    match format {
        "byte" => {
            let most = number(schema, "maxLength").map(|most| most.max(0));
            (Kind::Bytes, bounds(most.unwrap_or(MAX_REQUEST - 2), 2))
        }
        "duration" => (Kind::Duration, bounds(LONGEST_TIME, 3)),
        "date" => (Kind::Date, bounds(DATE, DATE)),
        "date-time" => (Kind::DateTime, bounds(LONGEST_TIME, 21)),
        _ => {
            let values = schema.get("enum").and_then(Json::as_array);
            let values = values.map(Vec::as_slice).unwrap_or_default();
            let most = match number(schema, "maxLength") {
                None if !values.is_empty() => {
                    let texts = values.iter().filter_map(Json::as_str);
                    let most = texts.map(str::len).max().unwrap_or(0);
                    i64::try_from(most).unwrap_or(i64::MAX)
                }
                _ => longest(schema),
            };
            (Kind::String, bounds(most, 2))
        }
    }
}

fn list_shape(schema: &Json, order: &str, budget: &Budget) -> (Kind, Option<Bounds>) {
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
        return (Kind::List(None), None);
    };
    let items = Shape::of(items, false, budget);
    let bounds = items.bounds.and_then(|of| {
        let most = match number(schema, "maxItems") {
            Some(most) => most.max(0),
            None => (MAX_REQUEST - 2) / (of.least_bytes + 1),
        };
        bounds(most, 2)
    });
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Json::as_array);
    let keys = keys.into_iter().flatten().filter_map(Json::as_str);
    let order = match order {
        "set" => Order::Set,
        "map" => Order::Map(keys.map(Arc::from).collect()),
        _ => Order::Atomic,
    };
    (
        Kind::List(Some(Arc::new(ListShape { items, order }))),
        bounds,
    )
}

fn object_shape(schema: &Json, is_whole: bool, budget: &Budget) -> (Kind, Option<Bounds>) {
    let properties = schema.get("properties").and_then(Json::as_object);
    let additional = schema.get("additionalProperties");
    let additional = additional.filter(|of| of.is_object() && (!is_whole || properties.is_none()));
    if let Some(of) = additional.filter(|_| !is_whole) {
        let of = Shape::of(of, false, budget);
        let bounds = of.bounds.and_then(|of| {
            let most = match number(schema, "maxProperties") {
                Some(most) => most.max(0),
                None => (MAX_REQUEST - 2) / (of.least_bytes + 6),
            };
            bounds(most, 2)
        });
        return (Kind::Map(Arc::new(of)), bounds);
    }
    let required = schema.get("required").and_then(Json::as_array);
    let required: std::collections::HashSet<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let mut fields = match is_whole && !has_meta(properties) {
        true => meta_fields(),
        false => Vec::new(),
    };
    let known = fields.len();
    let mut least_bytes = 2;
    for (name, of) in properties.into_iter().flatten() {
        // linear: there are at most three known fields.
        let mut implied = fields.iter_mut().take(known);
        if let Some(field) = implied.find(|field| *field.name == **name) {
            field.is_implied = false;
            continue;
        }
        let has_default = of.get("default").is_some_and(|default| !default.is_null());
        let shape = Shape::of(of, false, budget);
        if let Some(bounds) = shape
            .bounds
            .filter(|_| required.contains(name.as_str()) && !has_default)
        {
            least_bytes += i64::try_from(name.len()).unwrap_or(0) + bounds.least_bytes + 4;
        }
        fields.push(FieldShape {
            escaped: escaped(name).map(Arc::from),
            name: name.as_str().into(),
            shape,
            is_implied: false,
        });
    }
    for field in fields
        .iter()
        .take(known)
        .filter(|field| required.contains(&*field.name))
    {
        let least = field.shape.bounds.map_or(0, |bounds| bounds.least_bytes);
        least_bytes += i64::try_from(field.name.len()).unwrap_or(0) + least + 4;
    }
    let has_properties = is_whole || properties.is_some_and(|properties| !properties.is_empty());
    let of = ObjectShape::new(fields, has_properties);
    (Kind::Object(Arc::new(of)), bounds(0, least_bytes))
}

/// Returns whether a schema names all members that rules always see in a whole object. Then its own
/// descriptions of them count.
fn has_meta(properties: Option<&serde_json::Map<String, Json>>) -> bool {
    let is = |of: Option<&Json>, wanted: &str| {
        of.and_then(|of| of.get("type")).and_then(Json::as_str) == Some(wanted)
    };
    let property = |name: &str| properties.and_then(|all| all.get(name));
    let metadata = property("metadata");
    let inner = |name: &str| metadata.and_then(|of| of.get("properties")?.get(name));
    is(property("kind"), "string")
        && is(property("apiVersion"), "string")
        && is(metadata, "object")
        && is(inner("name"), "string")
        && is(inner("generateName"), "string")
}

/// Returns the members that rules always see in a whole object.
fn meta_fields() -> Vec<FieldShape> {
    let text = || Shape {
        kind: Kind::String,
        is_nullable: false,
        bounds: bounds(MAX_REQUEST - 2, 2),
    };
    let field = |name: &str, shape: Shape| FieldShape {
        name: name.into(),
        escaped: Some(name.into()),
        shape,
        is_implied: true,
    };
    let names = vec![field("name", text()), field("generateName", text())];
    let metadata = Shape {
        kind: Kind::Object(Arc::new(ObjectShape::new(names, true))),
        is_nullable: false,
        bounds: bounds(0, 2),
    };
    vec![
        field("kind", text()),
        field("apiVersion", text()),
        field("metadata", metadata),
    ]
}

/// Returns the name of a member in expressions, where reserved words and some characters are
/// escaped. Returns `None` if the name cannot be escaped.
pub fn escaped(name: &str) -> Option<String> {
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) || name.is_empty() {
        return None;
    }
    let is_plain = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let is_special = |c: char| matches!(c, '.' | '-' | '/');
    if !name.chars().all(|c| is_plain(c) || is_special(c)) {
        return None;
    }
    let name = name.replace("__", "__underscores__");
    let name = name.replace('.', "__dot__").replace('-', "__dash__");
    Some(name.replace('/', "__slash__"))
}

/// Returns the name that an escaped name in an expression stands for, or `None` for an unknown
/// escape.
pub(super) fn unescaped(name: &str) -> Option<std::borrow::Cow<'_, str>> {
    if !name.contains("__") {
        return Some(name.into());
    }
    let (mut out, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(at) = rest.find("__") {
        let (before, after) = rest.split_at_checked(at)?;
        out.push_str(before);
        let inside = after.get(2..).unwrap_or_default();
        let length = inside.find('_').unwrap_or(inside.len());
        let word = inside.get(..length).unwrap_or_default();
        let following = inside.get(length..).unwrap_or_default();
        let Some(following) = following.strip_prefix("__").filter(|_| length > 0) else {
            // Underscores that enclose no word stand for themselves.
            out.push('_');
            rest = after.get(1..).unwrap_or_default();
            continue;
        };
        match word {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            word if is_reserved(word) && word.len() + 4 == name.len() => out.push_str(word),
            _ => return None,
        }
        rest = following;
    }
    out.push_str(rest);
    Some(out.into())
}
