//! The schemas of a document: their names, and how documents refer to them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use descriptions::Descriptions;
use serde_json::{Value, json};

use crate::api::group_version_kind::GroupVersionKind;
use crate::api::resource::ResourceDefinition;
use crate::kinds::types::TYPES;
use crate::schema::{Description, Names, OpenApiVersion, Part, Schema, StructId};

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

    /// A reference beside which a description stands.
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

/// What the schemas of a document are written with.
#[derive(Clone, Copy)]
pub(super) struct Words<'t> {
    /// How they refer to each other.
    pub references: References,
    /// What is said of types.
    pub descriptions: &'t Descriptions<'t>,
}

impl Names for Words<'_> {
    fn version(&self) -> OpenApiVersion {
        match self.references.wraps {
            true => OpenApiVersion::V3,
            false => OpenApiVersion::V2,
        }
    }

    fn name(&self, package: &str, name: &str) -> String {
        schema_name(package, name)
    }

    fn reference(&self, name: &str) -> Value {
        self.references.to(name)
    }

    fn description(&self, schema: &str) -> Box<dyn Description + '_> {
        let of_item = || {
            let item = schema.strip_suffix("List")?;
            let kind = item.rsplit('.').next().unwrap_or(item).to_owned();
            let item = self.descriptions.of(item)?;
            Some(Said::OfList { item, kind })
        };
        let said = self.descriptions.of(schema).map(Said::OfType);
        Box::new(said.or_else(of_item).unwrap_or(Said::Nothing))
    }
}

/// What is said of a type.
enum Said<'t> {
    Nothing,
    OfType(descriptions::Description<'t>),
    /// The table has no types of lists. All that is to be said follows from the kind of items.
    OfList {
        item: descriptions::Description<'t>,
        kind: String,
    },
}

impl Description for Said<'_> {
    fn of_type(&self) -> Option<Cow<'_, str>> {
        match self {
            Said::Nothing => None,
            Said::OfType(of) => Some(of.of_type.into()),
            Said::OfList { kind, .. } => Some(list_text(kind).into()),
        }
    }

    fn of_field(&self, name: &str) -> Option<Cow<'_, str>> {
        match (self, name) {
            (Said::Nothing, _) => None,
            (Said::OfType(of), _) => of.field(name).map(Cow::from),
            (Said::OfList { .. }, "metadata") => Some(LIST_METADATA.into()),
            (Said::OfList { .. }, "items") => Some(LIST_ITEMS.into()),
            // apiVersion and kind.
            (Said::OfList { item, .. }, _) => item.field(name).map(Cow::from),
        }
    }
}

const LIST_METADATA: &str = "Metadata of the list.";
const LIST_ITEMS: &str = "The objects of the list.";

fn list_text(kind: &str) -> String {
    format!("{kind}List is a list of objects of the kind {kind}.")
}

/// The name of the schema of a type (API-44).
pub(super) fn schema_name(package: &str, name: &str) -> String {
    let place = match package {
        "meta.v1" => "io.k8s.apimachinery.pkg.apis",
        "apiextensions.v1" => "io.k8s.apiextensions-apiserver.pkg.apis",
        "apiregistration.v1" => "io.k8s.kube-aggregator.pkg.apis",
        "resource" => "io.k8s.apimachinery.pkg.api",
        "intstr" => "io.k8s.apimachinery.pkg.util",
        "runtime" => "io.k8s.apimachinery.pkg",
        _ => "io.k8s.api",
    };
    format!("{place}.{package}.{name}")
}

/// The name of a kind's schema: `io.k8s.api.apps.v1.Deployment` (API-44).
pub(super) fn name(definition: &ResourceDefinition) -> String {
    if let Some((schema, id)) = known(definition)
        && let Some(of) = schema.get(id)
    {
        return schema_name(&of.package, &of.name);
    }
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
    schema_name("meta.v1", kind)
}

/// The kinds that operations name beside those of resources.
const META_KINDS: [&str; 2] = ["DeleteOptions", "Status"];

/// The types that kinds without a known type consist of.
const META_PARTS: [&str; 2] = ["ObjectMeta", "ListMeta"];

/// What a schema is made of.
pub(super) enum Source<'d> {
    /// A type and where it is from.
    Type(&'d Schema, Part<'d>),
    /// A kind of which little is known.
    Unknown(&'d ResourceDefinition),
    /// Its lists.
    UnknownList(&'d ResourceDefinition),
}

impl Source<'_> {
    /// The schema, which has this name.
    pub(super) fn schema(&self, name: &str, words: &Words<'_>) -> Value {
        match self {
            Source::Type(schema, part) => schema.openapi(name, *part, words),
            Source::Unknown(definition) => unknown(definition, words.references),
            Source::UnknownList(definition) => unknown_list(definition, words.references),
        }
    }
}

/// What documents about these resources need schemas of, by their names.
pub(super) fn all<'d>(
    definitions: &[&'d ResourceDefinition],
    words: &Words<'_>,
) -> BTreeMap<String, Source<'d>> {
    let mut sources = BTreeMap::new();
    let mut add = |schema: &'d Schema, id| {
        schema.add_parts(id, words, &mut sources, |part| Source::Type(schema, part));
    };
    let meta_kinds = META_KINDS.iter().chain(&META_PARTS);
    for id in meta_kinds.filter_map(|kind| TYPES.find(&format!("meta.v1.{kind}"))) {
        add(&TYPES, id);
    }
    for definition in definitions {
        if let Some((schema, id)) = known(definition) {
            let list = definition.object_type.list();
            list.into_iter().chain([id]).for_each(|id| add(schema, id));
        }
        for part in &definition.subresources {
            if let Some((schema, id)) = known(part.kind(definition)) {
                add(schema, id);
            }
        }
    }
    for definition in definitions
        .iter()
        .filter(|definition| known(definition).is_none())
    {
        sources.insert(list_name(definition), Source::UnknownList(definition));
        sources.insert(name(definition), Source::Unknown(definition));
    }
    sources
}

/// The type of a kind, unless it has any members.
fn known(definition: &ResourceDefinition) -> Option<(&'static Schema, StructId)> {
    let (schema, id) = definition.object_type.found()?;
    (!schema.get(id)?.is_open).then_some((schema, id))
}

/// The schema of a kind of which little is known.
fn unknown(definition: &ResourceDefinition, references: References) -> Value {
    let kind = definition.group_version_kind();
    let metadata = meta_name("ObjectMeta");
    json!({
        "type": "object",
        "description": format!("An object of the kind {}.", kind.kind),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": references.described(&metadata, "Metadata that all objects have."),
        },
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-group-version-kind": [kind],
    })
}

/// The schema of its lists.
fn unknown_list(definition: &ResourceDefinition, references: References) -> Value {
    let kind = definition.group_version_kind();
    let list_kind = format!("{}List", kind.kind);
    let of_list = GroupVersionKind {
        kind: &list_kind,
        ..kind
    };
    let items = references.to(&name(definition));
    json!({
        "type": "object",
        "description": list_text(kind.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": references.described(&meta_name("ListMeta"), LIST_METADATA),
            "items": {"type": "array", "items": items, "description": LIST_ITEMS},
        },
        "x-kubernetes-group-version-kind": [of_list],
    })
}
