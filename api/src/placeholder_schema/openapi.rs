//! OpenAPI schemas of kinds whose type is not known.

use serde_json::{Map, Value, json};

use super::{MemberType, PlaceholderSchema};
use crate::group_version_kind::GroupVersionKind;

/// How a document refers to the schema of a meta type (`ObjectMeta`), with a description.
pub type MetaReference<'r> = &'r dyn Fn(&str, &str) -> Value;

impl PlaceholderSchema {
    /// The schema of objects of a kind.
    pub fn openapi(&self, kind: GroupVersionKind<'_>, meta: MetaReference<'_>) -> Value {
        let mut members = type_members();
        let metadata = meta("ObjectMeta", "Metadata that all objects have.");
        members.insert("metadata".to_owned(), metadata);
        for (path, member_type) in &self.members {
            add_member(&mut members, path, *member_type);
        }
        json!({
            "type": "object",
            "description": format!("An object of the kind {}.", kind.kind),
            "properties": members,
            "x-kubernetes-group-version-kind": [kind],
        })
    }
}

/// The schema of lists of a kind. `item` refers to the schema of its objects.
pub fn list(kind: GroupVersionKind<'_>, item: Value, meta: MetaReference<'_>) -> Value {
    let mut members = type_members();
    let metadata = meta("ListMeta", "Metadata of the list.");
    members.insert("metadata".to_owned(), metadata);
    members.insert(
        "items".to_owned(),
        json!({
            "type": "array",
            "description": "The objects of the list.",
            "items": item,
        }),
    );
    let list = format!("{}List", kind.kind);
    json!({
        "type": "object",
        "description": format!("A list of objects of the kind {}.", kind.kind),
        "required": ["items"],
        "properties": members,
        "x-kubernetes-group-version-kind": [GroupVersionKind { kind: &list, ..kind }],
    })
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// An object without known members.
fn open(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

fn type_members() -> Map<String, Value> {
    let mut members = Map::new();
    let api_version = "Group and version of the schema that the object is written in.";
    members.insert("apiVersion".to_owned(), text(api_version));
    members.insert("kind".to_owned(), text("What the object is."));
    members
}

/// Adds a member by its dotted path. Its parents have been added before.
fn add_member(members: &mut Map<String, Value>, path: &str, member_type: MemberType) {
    let Some((above, rest)) = path.split_once('.') else {
        members.insert(path.to_owned(), member(path, member_type));
        return;
    };
    let Some(Value::Object(above)) = members.get_mut(above) else {
        return;
    };
    // Some of its members are known now.
    above.remove("x-kubernetes-preserve-unknown-fields");
    let below = above.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(below) = below {
        add_member(below, rest, member_type);
    }
}

fn member(name: &str, member_type: MemberType) -> Value {
    let description = format!("The member {name}.");
    let mut schema = match member_type {
        MemberType::Object => open(&description),
        MemberType::StringMap => {
            json!({"type": "object", "additionalProperties": {"type": "string"}})
        }
        MemberType::Base64Map => json!({
            "type": "object",
            "additionalProperties": {"type": "string", "format": "byte"},
        }),
        MemberType::String => json!({"type": "string"}),
        MemberType::Bool => json!({"type": "boolean"}),
        MemberType::List => json!({
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }),
        MemberType::Int32 => json!({"type": "integer", "format": "int32"}),
        MemberType::Int64 => json!({"type": "integer", "format": "int64"}),
        MemberType::Time | MemberType::MicroTime => {
            json!({"type": "string", "format": "date-time"})
        }
    };
    schema["description"] = description.into();
    schema
}
