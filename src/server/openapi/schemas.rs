//! The members of kinds, as far as they are known without schemas.

use serde_json::{Map, Value, json};

use crate::api::resource::{MemberType, ResourceDefinition};

/// How documents of a format refer to their schemas.
#[derive(Clone, Copy)]
pub(super) struct References {
    /// The text before the name of a schema.
    pub place: &'static str,
    /// Whether a reference with a description must be wrapped (API-44).
    pub wraps: bool,
}

impl References {
    /// A bare reference.
    pub(super) fn to(self, name: &str) -> Value {
        json!({"$ref": format!("{}{name}", self.place)})
    }

    fn described(self, name: &str, description: &str) -> Value {
        let mut reference = if self.wraps {
            json!({"allOf": [self.to(name)]})
        } else {
            self.to(name)
        };
        reference["description"] = description.into();
        reference
    }
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The name of a kind's schema: `io.k8s.api.apps.v1.Deployment` (API-44).
pub(super) fn name(definition: &ResourceDefinition) -> String {
    let group = match definition.group.as_str() {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!(
        "io.k8s.api.{group}.{}.{}",
        definition.version, definition.kind
    )
}

/// The name of the schema of lists of a kind.
pub(super) fn list_name(definition: &ResourceDefinition) -> String {
    format!("{}List", name(definition))
}

/// The name of a schema of `meta.k8s.io`.
pub(super) fn meta_name(kind: &str) -> String {
    format!("{META}{kind}")
}

/// All schemas that documents about these resources need.
pub(super) fn all(
    definitions: &[&ResourceDefinition],
    references: References,
) -> Map<String, Value> {
    let mut schemas = Map::new();
    for definition in definitions {
        schemas.insert(name(definition), kind(definition, references));
        schemas.insert(list_name(definition), list(definition, references));
    }
    for (name, schema) in meta(references) {
        schemas.insert(meta_name(name), schema);
    }
    schemas
}

fn identified(schema: &mut Value, group: &str, version: &str, kind: &str) {
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": group, "version": version, "kind": kind}]);
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

fn kind(definition: &ResourceDefinition, references: References) -> Value {
    let mut members = type_members();
    let metadata =
        references.described(&meta_name("ObjectMeta"), "Metadata that all objects have.");
    members.insert("metadata".to_owned(), metadata);
    for (path, member_type) in &definition.member_types {
        add_member(&mut members, path, *member_type);
    }
    let mut schema = json!({
        "type": "object",
        "description": format!("An object of the kind {}.", definition.kind),
        "properties": members,
    });
    identified(
        &mut schema,
        &definition.group,
        &definition.version,
        &definition.kind,
    );
    schema
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

fn list(definition: &ResourceDefinition, references: References) -> Value {
    let mut members = type_members();
    let metadata = references.described(&meta_name("ListMeta"), "Metadata of the list.");
    members.insert("metadata".to_owned(), metadata);
    members.insert(
        "items".to_owned(),
        json!({
            "type": "array",
            "description": "The objects of the list.",
            "items": references.to(&name(definition)),
        }),
    );
    let kind = format!("{}List", definition.kind);
    let mut schema = json!({
        "type": "object",
        "description": format!("A list of objects of the kind {}.", definition.kind),
        "required": ["items"],
        "properties": members,
    });
    identified(&mut schema, &definition.group, &definition.version, &kind);
    schema
}

fn meta(references: References) -> Vec<(&'static str, Value)> {
    vec![
        ("ObjectMeta", object_meta(references)),
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

fn object_meta(references: References) -> Value {
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
            "items": references.to(&meta_name(schema)),
        })
    };
    let time = |description: &str| references.described(&meta_name("Time"), description);
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

fn delete_options() -> Value {
    let mut schema = json!({
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
    });
    identified(&mut schema, "", "v1", "DeleteOptions");
    schema
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
    let mut schema = json!({
        "type": "object",
        "description": "An answer that is no object.",
        "properties": members,
    });
    identified(&mut schema, "", "v1", "Status");
    schema
}
