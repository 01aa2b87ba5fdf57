//! OpenAPI schemas of kinds and of meta types, as far as they are known without real schemas.

use serde_json::{Map, Value, json};

use super::{MemberType, PlaceholderSchema};
use crate::api::group_version_kind::GroupVersionKind;

/// How a document refers to the schema of a meta type (`ObjectMeta`), with a description if there
/// is one.
pub type MetaReference<'r> = &'r dyn Fn(&str, Option<&str>) -> Value;

impl PlaceholderSchema {
    /// The schema of objects of a kind.
    pub fn openapi(&self, kind: GroupVersionKind<'_>, meta: MetaReference<'_>) -> Value {
        let mut members = type_members();
        let metadata = meta("ObjectMeta", Some("Metadata that all objects have."));
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
    let metadata = meta("ListMeta", Some("Metadata of the list."));
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

/// The schemas of the meta types, by their kinds.
pub fn meta_types(meta: MetaReference<'_>) -> Vec<(&'static str, Value)> {
    vec![
        ("ObjectMeta", object_meta(meta)),
        ("ListMeta", list_meta()),
        ("OwnerReference", owner_reference()),
        ("ManagedFieldsEntry", managed_fields_entry()),
        ("DeleteOptions", delete_options()),
        ("Status", status()),
        (
            "Time",
            json!({
                "type": "string",
                "format": "date-time",
                "description": "A time in the form of RFC 3339.",
            }),
        ),
    ]
}

fn object_meta(meta: MetaReference<'_>) -> Value {
    let texts = |description: &str| {
        json!({
            "type": "object",
            "description": description,
            "additionalProperties": {"type": "string"},
        })
    };
    let list = |schema: &str, description: &str| {
        json!({
            "type": "array",
            "description": description,
            "items": meta(schema, None),
        })
    };
    let time = |description: &str| meta("Time", Some(description));
    let number = |description: &str| json!({"type": "integer", "format": "int64", "description": description});
    json!({
        "type": "object",
        "description": "Metadata that all objects have.",
        "properties": {
            "annotations": texts("Texts for tools; nothing selects by them."),
            "creationTimestamp": time("When the server stored the object first."),
            "deletionGracePeriodSeconds": number("Seconds that a deletion leaves the object."),
            "deletionTimestamp": time("Since when, or until when, the object is being deleted."),
            "finalizers": {
                "type": "array",
                "description": "Who has to act before the object can go.",
                "items": {"type": "string"},
            },
            "generateName": text("What the server makes a name from when there is none."),
            "generation": number("Counts the changes of what is wanted."),
            "labels": texts("Texts that selectors select by."),
            "managedFields": list("ManagedFieldsEntry", "Who manages which fields."),
            "name": text("The object's name, which never changes."),
            "namespace": text("The namespace that the name is unique in."),
            "ownerReferences": list("OwnerReference", "Objects that this one goes with."),
            "resourceVersion": text("Names the state of the object; compare for equality only."),
            "selfLink": text("Not used any more."),
            "uid": text("Tells objects of the same name apart."),
        },
    })
}

fn list_meta() -> Value {
    json!({
        "type": "object",
        "description": "Metadata of lists.",
        "properties": {
            "continue": text("Where the next page begins, when there is one."),
            "remainingItemCount": {
                "type": "integer",
                "format": "int64",
                "description": "Objects after this page, where that is known.",
            },
            "resourceVersion": text("The state that the list shows; watches begin with it."),
            "selfLink": text("Not used any more."),
        },
    })
}

fn owner_reference() -> Value {
    json!({
        "type": "object",
        "description": "An object that another one goes with.",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": text("Group and version of the owner."),
            "blockOwnerDeletion": {
                "type": "boolean",
                "description": "Whether the owner waits for this object when it goes.",
            },
            "controller": {
                "type": "boolean",
                "description": "Whether the owner manages this object; one owner at most does.",
            },
            "kind": text("Kind of the owner."),
            "name": text("Name of the owner."),
            "uid": text("UID of the owner."),
        },
    })
}

fn managed_fields_entry() -> Value {
    json!({
        "type": "object",
        "description": "The fields that a manager manages.",
        "properties": {
            "apiVersion": text("The version that the fields are named in."),
            "fieldsType": text("The form of the fields."),
            "fieldsV1": open("The fields."),
            "manager": text("Who manages them."),
            "operation": text("How they came to be managed."),
            "subresource": text("The subresource they were written through."),
            "time": {
                "type": "string",
                "format": "date-time",
                "description": "When the entry changed last.",
            },
        },
    })
}

fn meta_kind(kind: &str) -> GroupVersionKind<'_> {
    GroupVersionKind {
        group: "",
        version: "v1",
        kind,
    }
}

fn delete_options() -> Value {
    json!({
        "type": "object",
        "description": "How to delete.",
        "properties": {
            "apiVersion": text("Version of the options."),
            "dryRun": {
                "type": "array",
                "description": "With the one value All nothing is stored.",
                "items": {"type": "string"},
            },
            "gracePeriodSeconds": {
                "type": "integer",
                "format": "int64",
                "description": "Seconds that the object is left.",
            },
            "kind": text("DeleteOptions."),
            "orphanDependents": {
                "type": "boolean",
                "description": "Use propagationPolicy instead.",
            },
            "preconditions": open("What must hold of the object."),
            "propagationPolicy": text("What becomes of dependents."),
        },
        "x-kubernetes-group-version-kind": [meta_kind("DeleteOptions")],
    })
}

fn status() -> Value {
    let mut members = type_members();
    for (name, description) in [
        ("message", "For people."),
        ("reason", "For programs."),
        ("status", "Success or Failure."),
    ] {
        members.insert(name.to_owned(), text(description));
    }
    members.insert("metadata".to_owned(), open("Metadata of the answer."));
    members.insert("details".to_owned(), open("What it is about."));
    members.insert(
        "code".to_owned(),
        json!({"type": "integer", "format": "int32", "description": "The HTTP status code."}),
    );
    json!({
        "type": "object",
        "description": "An answer that is no object.",
        "properties": members,
        "x-kubernetes-group-version-kind": [meta_kind("Status")],
    })
}
