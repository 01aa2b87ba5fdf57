//! The text of the result of a JSON patch or merge patch, which errors show (API-156).
//!
//! kube-apiserver patches the text of an object, whose members are in the order in which the type
//! declares them. It prints the objects that a patch reaches again, with members sorted by name.
//! Everything else keeps its text.

use std::collections::BTreeMap;
use std::fmt;

use json_patch::PatchOperation;
use serde_json::{Map, Value};

use crate::go_json;
use crate::schema::{ObjectType, Schema, Shape, StructId, Type};

/// The parts of a document that a patch reaches.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// Whether the patch reaches everything below.
    is_whole: bool,
    parts: BTreeMap<String, Reached>,
}

impl Reached {
    /// Returns the parts that operations reach.
    pub(super) fn by_operations(operations: &[Option<PatchOperation>]) -> Reached {
        let mut reached = Reached::default();
        for operation in operations.iter().flatten() {
            if let PatchOperation::Move(moved) = operation {
                reached.along(moved.from.as_str());
            }
            let part = reached.along(operation.path().as_str());
            part.is_whole |= match operation {
                PatchOperation::Test(test) => test.value.is_object(),
                _ => false,
            };
        }
        reached
    }

    /// Returns the parts of a document that a merge patch reaches.
    pub(super) fn by_merge(document: &Map<String, Value>, patch: &Map<String, Value>) -> Reached {
        let part = |(name, change): (&String, &Value)| {
            let reached = match (document.get(name), change) {
                (Some(Value::Object(below)), Value::Object(change)) => {
                    Reached::by_merge(below, change)
                }
                _ => Reached {
                    is_whole: true,
                    parts: BTreeMap::new(),
                },
            };
            (name.clone(), reached)
        };
        Reached {
            is_whole: false,
            parts: patch.iter().map(part).collect(),
        }
    }

    /// Returns whether the patch reaches the value at these names, in any item of a list.
    pub(super) fn is_within(&self, names: &[String]) -> bool {
        let Some((first, rest)) = names.split_first().filter(|_| !self.is_whole) else {
            return true;
        };
        self.parts.iter().any(|(part, below)| {
            let is_item = part == "-" || part.bytes().all(|byte| byte.is_ascii_digit());
            part == first && below.is_within(rest) || is_item && below.is_within(names)
        })
    }

    /// Returns the part at the end of a JSON pointer. All parts on the way count as reached.
    fn along(&mut self, pointer: &str) -> &mut Reached {
        pointer.split('/').skip(1).fold(self, |reached, token| {
            let name = token.replace("~1", "/").replace("~0", "~");
            reached.parts.entry(name).or_default()
        })
    }
}

/// A document of a type, formatted as after a patch that reached these parts.
pub(super) struct PatchedText<'s> {
    pub document: &'s Value,
    pub of: &'s ObjectType,
    pub reached: &'s Reached,
}

impl fmt::Display for PatchedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A document without a type of Go was never printed by one.
        let is_struct =
            |(schema, id): &(&Schema, StructId)| schema.get(*id).is_some_and(|of| !of.is_open);
        let found = self.of.found().filter(is_struct);
        let of = found.map(|(schema, id)| (schema, Of::Struct(id)));
        print(self.document, of, Some(self.reached), f)
    }
}

#[derive(Clone, Copy)]
enum Of<'t> {
    Struct(StructId),
    Type(&'t Type),
}

/// Prints a value. The type is `None` if unknown. Without parts in `reached` the patch did not
/// reach the value.
fn print(
    value: &Value,
    of: Option<(&Schema, Of<'_>)>,
    reached: Option<&Reached>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            if reached.is_none_or(|reached| !reached.is_whole && reached.parts.is_empty()) {
                members.sort_by_key(|(name, _)| position(of, name));
            }
            f.write_str("{")?;
            for (place, (name, value)) in members.into_iter().enumerate() {
                let comma = if place == 0 { "" } else { "," };
                write!(f, "{comma}{}:", Scalar(&Value::String(name.clone())))?;
                print(value, member(of, name), part(reached, name), f)?;
            }
            f.write_str("}")
        }
        Value::Array(items) => {
            f.write_str("[")?;
            for (place, item) in items.iter().enumerate() {
                let comma = if place == 0 { "" } else { "," };
                f.write_str(comma)?;
                print(item, item_of(of), part(reached, &place.to_string()), f)?;
            }
            f.write_str("]")
        }
        scalar => write!(f, "{}", Scalar(scalar)),
    }
}

fn part<'r>(reached: Option<&'r Reached>, name: &str) -> Option<&'r Reached> {
    let reached = reached?;
    let part = reached.parts.get(name);
    part.or_else(|| reached.is_whole.then_some(reached))
}

/// Returns the position of a member among those that its type declares. Kind and apiVersion come
/// first.
fn position(of: Option<(&Schema, Of<'_>)>, name: &str) -> Option<usize> {
    let (schema, of) = of?;
    let field = schema.get(struct_id(of)?)?.field(name);
    match (field, name) {
        (Some(field), _) => Some(field.position + 2),
        (None, "kind") => Some(0),
        (None, "apiVersion") => Some(1),
        (None, _) => None,
    }
}

fn struct_id(of: Of<'_>) -> Option<StructId> {
    match of {
        Of::Struct(id) => Some(id),
        Of::Type(of) => match of.shape {
            Shape::Struct(id) => Some(id),
            _ => None,
        },
    }
}

/// Returns the type of a member of a struct or map.
fn member<'s>(of: Option<(&'s Schema, Of<'s>)>, name: &str) -> Option<(&'s Schema, Of<'s>)> {
    let (schema, one) = of?;
    if let Some(id) = struct_id(one) {
        let field = schema.get(id)?.field(name)?;
        return Some((schema, Of::Type(&field.of)));
    }
    match one {
        Of::Type(Type {
            shape: Shape::Map(item),
            ..
        }) => Some((schema, Of::Type(item))),
        _ => None,
    }
}

fn item_of<'s>(of: Option<(&'s Schema, Of<'s>)>) -> Option<(&'s Schema, Of<'s>)> {
    match of? {
        (
            schema,
            Of::Type(Type {
                shape: Shape::List(item),
                ..
            }),
        ) => Some((schema, Of::Type(item))),
        _ => None,
    }
}

/// A text, number, boolean or null, formatted as in Go.
struct Scalar<'v>(&'v Value);

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        go_json::write_json(&mut text, self.0);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}
