//! The lists and maps of objects: each field of each type once, with a body that contains it.
//!
//! The bodies are those that `tools/facts/sweep.py` has recorded. A field that none of them
//! contains is put into a minimal body, at the shortest path to its type.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::Read as _;
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};
use taffrail::api::resource::ResourceDefinition;
use taffrail::kinds::definitions::{built_in, not_stored};
use taffrail::kinds::types::TYPES;
use taffrail::schema::{Field, Scalar, Schema, Shape, StructId, Type};

use crate::items::{Items, items};

/// Bodies of all kinds with what kube-apiserver answered to them.
const SWEEP: &[u8] = include_bytes!("../fixtures/sweep.json.gz");

/// A list or map of a type, and an object that has it.
#[derive(Clone)]
pub struct Place {
    /// The type and the field: `core.v1.PodSpec.tolerations`.
    pub name: String,
    /// The kind of the object.
    pub kind: Arc<ResourceDefinition>,
    /// The subresource through which the field is written; empty for the object itself.
    pub subresource: String,
    /// The object before a write through a subresource.
    pub before: Option<Value>,
    /// A body that has the field.
    pub body: Value,
    /// Where the field is in the body.
    pub pointer: String,
    /// An item of the list, or a value of the map.
    pub item: Value,
    /// A key of the map.
    pub key: String,
    /// The field.
    pub field: &'static Field,
    /// Another list or map of the body that is as long.
    pub beside: Option<Arc<Place>>,
}

impl Place {
    /// The type of the items.
    pub fn item_type(&self) -> &'static Type {
        match &self.field.of.shape {
            Shape::List(of) | Shape::Map(of) => of,
            _ => &self.field.of,
        }
    }

    pub fn is_map(&self) -> bool {
        matches!(self.field.of.shape, Shape::Map(_))
    }

    /// The body with this value at the place, and with `n` items beside it.
    pub fn with(&self, body: &Value, value: Value, n: usize) -> Value {
        let mut body = body.clone();
        if let Some(beside) = &self.beside {
            put(
                &mut body,
                &beside.pointer,
                items(beside, Items::Distinct(0), n).unwrap(),
            );
        }
        put(&mut body, &self.pointer, value);
        body
    }

    /// The kind, the path and the field, for people.
    pub fn title(&self) -> String {
        let Place { kind, pointer, .. } = self;
        let dotted = |pointer: &str| pointer.trim_start_matches('/').replace('/', ".");
        let mut path = dotted(pointer);
        if let Some(beside) = &self.beside {
            path = format!("{path} beside {}", dotted(&beside.pointer));
        }
        let of = match self.subresource.as_str() {
            "" => kind.qualified(),
            subresource => format!("{}/{subresource}", kind.qualified()),
        };
        format!("{of} {} {path} ({})", kind.version, self.name)
    }
}

/// Puts a value at a pointer; objects and lists on the way are made.
fn put(body: &mut Value, pointer: &str, value: Value) {
    let mut at = body;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Array(items) => {
                let number: usize = part.parse().unwrap();
                if items.len() <= number {
                    items.resize(number + 1, json!({}));
                }
                &mut items[number]
            }
            other => {
                if other.is_null() {
                    *other = match part.as_str() {
                        "0" => json!([null]),
                        _ => json!({}),
                    };
                }
                match other {
                    Value::Array(items) => &mut items[0],
                    other => &mut other[part],
                }
            }
        };
    }
    *at = value;
}

struct Case {
    kind: Arc<ResourceDefinition>,
    subresource: String,
    before: Option<Value>,
    body: Value,
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// The kinds of all bodies.
pub fn kinds() -> Vec<Arc<ResourceDefinition>> {
    let unstored = not_stored().into_iter().map(Arc::new);
    let reviews = unstored.filter(|row| row.kind.ends_with("Review"));
    built_in().into_iter().chain(reviews).collect()
}

fn cases(kinds: &[Arc<ResourceDefinition>]) -> Vec<Case> {
    let mut swept = String::new();
    GzDecoder::new(SWEEP).read_to_string(&mut swept).unwrap();
    let recorded = swept.lines().filter_map(|line| {
        let mut case: Value = serde_json::from_str(line).unwrap();
        let is_whole = ["minimal", "fuller", "full"].contains(&text(&case, "case"));
        if !is_whole || case["answer"]["code"].as_u64()? >= 300 {
            return None;
        }
        let body = case["body"].take();
        let (version, name) = (text(&body, "apiVersion"), text(&body, "kind"));
        let mut rows = kinds.iter();
        let kind = rows.find(|row| row.kind == name && row.api_version() == version)?;
        let before = case.get("before").cloned();
        let path = text(&case, "path").split('?').next()?;
        let last = path.rsplit('/').next()?;
        let is_subresource = before.is_some() && kind.subresource(last).is_some();
        Some(Case {
            kind: Arc::clone(kind),
            subresource: if is_subresource {
                last.to_owned()
            } else {
                String::new()
            },
            before,
            body,
        })
    });
    let unstored = kinds.iter().filter(|kind| kind.kind.ends_with("Review"));
    let reviews = unstored.map(|kind| Case {
        kind: Arc::clone(kind),
        subresource: String::new(),
        before: None,
        body: json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {},
            "spec": review(&kind.kind)}),
    });
    recorded.chain(reviews).collect()
}

/// What a review asks.
fn review(kind: &str) -> Value {
    let resource = json!({"verb": "list", "group": "apps", "version": "v1", "namespace": "default",
        "resource": "deployments",
        "labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
        "fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}});
    match kind {
        "TokenReview" => json!({"token": "t", "audiences": ["a"]}),
        "SelfSubjectRulesReview" => json!({"namespace": "default"}),
        "SelfSubjectReview" => json!({}),
        "SelfSubjectAccessReview" => json!({"resourceAttributes": resource}),
        _ => json!({"user": "u", "groups": ["g"], "extra": {"a": ["b"]},
            "resourceAttributes": resource}),
    }
}

/// A field of a body.
struct Found {
    pointer: String,
    case: usize,
    field: &'static Field,
    item: Value,
    key: String,
}

type Name = String;

/// Takes down each list and map of a body that has an item, if no shorter path leads to its type.
fn read(
    (schema, id): (&'static Schema, StructId),
    (case, body): (usize, &Value),
    pointer: &str,
    found: &mut BTreeMap<Name, Found>,
) {
    let (Some(of), Some(members)) = (schema.get(id), body.as_object()) else {
        return;
    };
    for field in of.fields() {
        let Some(value) = members.get(&field.name) else {
            continue;
        };
        let name = format!("{}.{}.{}", of.package, of.name, field.name);
        let at = format!("{pointer}/{}", field.name);
        note(name, (field, value), (case, &at), found);
        let mut inner = vec![(&field.of, value, at)];
        while let Some((of, value, at)) = inner.pop() {
            match &of.shape {
                Shape::Struct(id) => read((schema, *id), (case, value), &at, found),
                Shape::List(of) => {
                    let items = value.as_array().into_iter().flatten().enumerate();
                    inner.extend(items.map(|(n, item)| (&**of, item, format!("{at}/{n}"))));
                }
                Shape::Map(of) => {
                    let members = value.as_object().into_iter().flatten();
                    inner.extend(members.map(|(key, value)| {
                        let key = key.replace('~', "~0").replace('/', "~1");
                        (&**of, value, format!("{at}/{key}"))
                    }));
                }
                _ => {}
            }
        }
    }
}

fn note(
    name: Name,
    (field, value): (&'static Field, &Value),
    (case, at): (usize, &str),
    found: &mut BTreeMap<Name, Found>,
) {
    let (key, item) = match (&field.of.shape, value) {
        (Shape::List(_), Value::Array(items)) => (String::new(), items.first().cloned()),
        (Shape::Map(_), Value::Object(members)) => match members.iter().next() {
            Some((key, value)) => (key.clone(), Some(value.clone())),
            None => (String::new(), None),
        },
        _ => return,
    };
    let Some(item) = item else { return };
    let depth = |pointer: &str| (pointer.matches('/').count(), pointer.len());
    let known = found.get(&name);
    if known.is_none_or(|known| depth(at) < depth(&known.pointer)) {
        let pointer = at.to_owned();
        found.insert(
            name,
            Found {
                pointer,
                case,
                field,
                item,
                key,
            },
        );
    }
}

/// A value of this type that is not empty.
fn sample(schema: &'static Schema, of: &Type) -> Value {
    match &of.shape {
        Shape::Scalar(Scalar::Bool) => true.into(),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float64) => 1.into(),
        Shape::Scalar(Scalar::Time) => "2026-01-02T03:04:05Z".into(),
        Shape::Scalar(Scalar::MicroTime) => "2026-01-02T03:04:05.000000Z".into(),
        Shape::Scalar(Scalar::Duration) => "1s".into(),
        Shape::Scalar(Scalar::Quantity) => "1".into(),
        Shape::Scalar(Scalar::Bytes) => "YQ==".into(),
        Shape::Scalar(_) => match of.values.first() {
            Some(value) => value.clone().into(),
            None => "a".into(),
        },
        Shape::List(of) => json!([sample(schema, of)]),
        Shape::Map(of) => json!({ "a": sample(schema, of) }),
        Shape::Struct(id) => {
            let mut members = Map::new();
            for field in schema.get(*id).into_iter().flat_map(|of| of.fields()) {
                if let Shape::Scalar(_) = field.of.shape {
                    members.insert(field.name.clone(), sample(schema, &field.of));
                }
            }
            members.into()
        }
        Shape::Object | Shape::Any => json!({}),
    }
}

/// The type of a built-in kind.
fn type_of(kind: &ResourceDefinition) -> (&'static Schema, StructId) {
    let schema: &'static Schema = &TYPES;
    (schema, schema.find(kind.object_type().name()).unwrap())
}

/// A way to a struct.
struct Way {
    kind: usize,
    schema: &'static Schema,
    id: StructId,
    pointer: String,
}

/// Each list and map of the types of these kinds, in the order of their names. The paths that no
/// body has go through the first item of lists and the member "a" of maps.
pub fn places() -> Vec<Place> {
    let kinds = kinds();
    let cases = cases(&kinds);
    let mut found = BTreeMap::new();
    for (number, case) in cases.iter().enumerate() {
        let at = type_of(&case.kind);
        read(at, (number, &case.body), "", &mut found);
    }
    let mut places = BTreeMap::new();
    let (mut seen, mut ways) = (HashSet::new(), VecDeque::new());
    for (kind, row) in kinds.iter().enumerate() {
        let (schema, id) = type_of(row);
        let pointer = String::new();
        ways.push_back(Way {
            kind,
            schema,
            id,
            pointer,
        });
    }
    while let Some(way) = ways.pop_front() {
        let of = way.schema.get(way.id).unwrap();
        if !seen.insert(format!("{}.{}", of.package, of.name)) {
            continue;
        }
        for field in of.fields() {
            let name = format!("{}.{}.{}", of.package, of.name, field.name);
            let mut pointer = format!("{}/{}", way.pointer, field.name);
            if matches!(field.of.shape, Shape::List(_) | Shape::Map(_)) {
                let place = match found.get(&name) {
                    Some(found) => recorded(&name, found, &cases[found.case]),
                    None => made(&name, field, &pointer, (&way, &kinds, &cases)),
                };
                places.insert(name, place);
            }
            if let Some(id) = inner(&field.of, &mut pointer) {
                ways.push_back(Way { id, pointer, ..way });
            }
        }
    }
    places.into_values().collect()
}

/// Every path to a list or map of every kind. No type is gone through twice on the way.
pub fn paths() -> Vec<Place> {
    let kinds = kinds();
    let cases = cases(&kinds);
    let mut found = BTreeMap::new();
    for (number, case) in cases.iter().enumerate() {
        let at = type_of(&case.kind);
        read(at, (number, &case.body), "", &mut found);
    }
    let mut paths = Vec::new();
    for (kind, row) in kinds.iter().enumerate() {
        let (schema, id) = type_of(row);
        let pointer = String::new();
        let mut ways = vec![(
            Way {
                kind,
                schema,
                id,
                pointer,
            },
            Vec::new(),
        )];
        while let Some((way, mut above)) = ways.pop() {
            let of = way.schema.get(way.id).unwrap();
            above.push(way.id);
            for field in of.fields() {
                let name = format!("{}.{}.{}", of.package, of.name, field.name);
                let mut pointer = format!("{}/{}", way.pointer, field.name);
                if matches!(field.of.shape, Shape::List(_) | Shape::Map(_)) {
                    let mut place = made(&name, field, &pointer, (&way, &kinds, &cases));
                    if let Some(found) = found.get(&name) {
                        place.item.clone_from(&found.item);
                        place.key.clone_from(&found.key);
                    }
                    paths.push(place);
                }
                if let Some(id) = inner(&field.of, &mut pointer)
                    && !above.contains(&id)
                {
                    ways.push((Way { id, pointer, ..way }, above.clone()));
                }
            }
        }
    }
    paths
}

/// The struct of a field, in the first items of lists and the members "a" of maps.
fn inner(of: &Type, pointer: &mut String) -> Option<StructId> {
    match &of.shape {
        Shape::List(of) => {
            *pointer += "/0";
            inner(of, pointer)
        }
        Shape::Map(of) => {
            *pointer += "/a";
            inner(of, pointer)
        }
        Shape::Struct(id) => Some(*id),
        _ => None,
    }
}

fn recorded(name: &str, found: &Found, case: &Case) -> Place {
    let Case {
        kind,
        subresource,
        before,
        body,
    } = case;
    Place {
        name: name.to_owned(),
        kind: Arc::clone(kind),
        subresource: subresource.clone(),
        before: before.clone(),
        body: body.clone(),
        pointer: found.pointer.clone(),
        item: found.item.clone(),
        key: found.key.clone(),
        field: found.field,
        beside: None,
    }
}

fn made(
    name: &str,
    field: &'static Field,
    pointer: &str,
    (way, kinds, cases): (&Way, &[Arc<ResourceDefinition>], &[Case]),
) -> Place {
    let kind = &kinds[way.kind];
    let is_plain = |case: &&Case| Arc::ptr_eq(&case.kind, kind) && case.before.is_none();
    let body = cases.iter().find(is_plain).unwrap().body.clone();
    let is_status = pointer.starts_with("/status/") && kind.subresource("status").is_some();
    let of = match &field.of.shape {
        Shape::List(of) | Shape::Map(of) => of,
        _ => &field.of,
    };
    Place {
        name: name.to_owned(),
        kind: Arc::clone(kind),
        before: is_status.then(|| body.clone()),
        subresource: if is_status {
            "status".to_owned()
        } else {
            String::new()
        },
        body,
        pointer: pointer.to_owned(),
        item: sample(way.schema, of),
        key: "a".to_owned(),
        field,
        beside: None,
    }
}
