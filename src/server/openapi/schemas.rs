//! The schemas of a document: their names, their content, and references to them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub(super) use super::context::{References, SchemaContext, Versions, meta_name, schema_name};
use super::custom;
use crate::api::resource::ResourceDefinition;
use crate::kinds::types::TYPES;
use crate::schema::{Names, OpenApiVersion, Part, Schema, Struct, StructId};

/// Returns the name of a kind's schema: `io.k8s.api.apps.v1.Deployment` (API-44).
pub(super) fn name(definition: &ResourceDefinition) -> String {
    if let Some((schema, id)) = known(definition)
        && let Some(of) = schema.get(id)
    {
        return schema_name(&of.package, &of.name);
    }
    custom::name(definition, &definition.kind)
}

/// Returns the name of the schema of a kind's list.
fn list_name(definition: &ResourceDefinition) -> String {
    match is_typed(definition) {
        true => format!("{}List", name(definition)),
        false => custom::name(definition, &definition.list_kind()),
    }
}

/// A type that operations refer to.
#[derive(Clone, Copy)]
pub(super) enum Root<'d> {
    /// A kind.
    Kind(&'d ResourceDefinition),
    /// The list of a kind.
    List(&'d ResourceDefinition),
    /// A type of `meta.v1`.
    Meta(&'static str),
    /// The response of `/version`.
    Version,
}

impl Root<'_> {
    /// Returns the name of the schema.
    pub(super) fn name(&self) -> String {
        match self {
            Root::Kind(definition) => name(definition),
            Root::List(definition) => list_name(definition),
            Root::Meta(kind) => meta_name(kind),
            Root::Version => schema_name("version", "Info"),
        }
    }
}

/// The types that a custom resource refers to.
const META_PARTS: [&str; 2] = ["ObjectMeta", "ListMeta"];

/// The source of a schema.
#[derive(Clone, Copy)]
pub(super) enum Source<'d> {
    /// A known type.
    Type(&'d Schema, Part<'d>),
    /// A custom resource.
    Custom(&'d ResourceDefinition),
    /// The list of a custom resource.
    CustomList(&'d ResourceDefinition),
    /// The response of `/version`.
    Version,
}

impl Source<'_> {
    /// Writes the schema, which has this name.
    pub(super) fn schema(&self, name: &str, context: &SchemaContext<'_>) -> Value {
        match self {
            Source::Type(schema, part) => {
                let mut written = schema.openapi(name, *part, context);
                if let Part::Struct(of) = part
                    && is_of_all_versions(of)
                {
                    written["x-kubernetes-group-version-kind"] = context.versions.kinds(&of.name);
                }
                written
            }
            Source::Custom(definition) => custom::kind(definition, context),
            Source::CustomList(definition) => custom::list(definition, context),
            Source::Version => version(context),
        }
    }

    /// Whether the schema belongs to one document, or differs between documents.
    pub(super) fn depends_on_document(&self) -> bool {
        match self {
            Source::Type(_, Part::Struct(of)) => is_of_all_versions(of),
            Source::Custom(_) | Source::CustomList(_) => true,
            Source::Type(..) | Source::Version => false,
        }
    }
}

/// Whether a type is a kind of every version.
fn is_of_all_versions(of: &Struct) -> bool {
    of.package == "meta.v1" && matches!(&*of.name, "DeleteOptions" | "WatchEvent")
}

/// Returns the sources of all schemas that these types need, by name.
pub(super) fn all<'d>(
    roots: impl Iterator<Item = Root<'d>>,
    context: &SchemaContext<'_>,
) -> BTreeMap<String, Source<'d>> {
    let mut sources = BTreeMap::new();
    let mut add = |schema: &'d Schema, id| {
        schema.add_parts(id, context, &mut sources, |part| Source::Type(schema, part));
    };
    let mut others: Vec<(Root<'d>, Source<'d>)> = Vec::new();
    for root in roots {
        let found = match root {
            Root::Kind(definition) => known(definition),
            Root::List(definition) => known(definition).and_then(|(schema, _)| {
                let list = definition.object_type().list();
                list.map(|id| (schema, id))
            }),
            Root::Meta(kind) => TYPES
                .find(&format!("meta.v1.{kind}"))
                .map(|id| (&**TYPES, id)),
            Root::Version => None,
        };
        match (found, root) {
            (Some((schema, id)), _) => add(schema, id),
            (None, Root::Kind(definition)) => others.push((root, Source::Custom(definition))),
            (None, Root::List(definition)) => {
                others.push((root, Source::CustomList(definition)));
            }
            (None, Root::Version) => others.push((root, Source::Version)),
            (None, Root::Meta(_)) => {}
        }
    }
    if others.iter().any(|(root, _)| matches!(root, Root::Kind(_))) {
        let parts = META_PARTS.map(|kind| TYPES.find(&format!("meta.v1.{kind}")));
        parts.into_iter().flatten().for_each(|id| add(&TYPES, id));
    }
    let others = others.into_iter();
    sources.extend(others.map(|(root, source)| (root.name(), source)));
    sources
}

/// Whether Kubernetes defines the type of a kind.
pub(super) fn is_typed(definition: &ResourceDefinition) -> bool {
    known(definition).is_some()
}

/// Returns the type of a kind, unless it is open.
fn known(definition: &ResourceDefinition) -> Option<(&Schema, StructId)> {
    let (schema, id) = definition.object_type().found()?;
    (!schema.get(id)?.is_open).then_some((schema, id))
}

/// The fields of the response of `/version`, and whether they are required.
const VERSION: [(&str, bool); 13] = [
    ("major", true),
    ("minor", true),
    ("emulationMajor", false),
    ("emulationMinor", false),
    ("minCompatibilityMajor", false),
    ("minCompatibilityMinor", false),
    ("gitVersion", true),
    ("gitCommit", true),
    ("gitTreeState", true),
    ("buildDate", true),
    ("goVersion", true),
    ("compiler", true),
    ("platform", true),
];

/// Writes the schema of the response of `/version`.
fn version(context: &SchemaContext<'_>) -> Value {
    let description = context.description(&Root::Version.name());
    let field = |(name, is_required): (&str, bool)| {
        let mut schema = json!({"type": "string"});
        if is_required && context.version() == OpenApiVersion::V3 {
            schema["default"] = "".into();
        }
        if let Some(text) = description.of_field(name) {
            schema["description"] = text.into();
        }
        (name.to_owned(), schema)
    };
    let required = VERSION.iter().filter(|(_, is_required)| *is_required);
    let required: Vec<&str> = required.map(|(name, _)| *name).collect();
    let mut schema = json!({
        "type": "object",
        "required": required,
        "properties": Value::Object(VERSION.map(field).into_iter().collect()),
    });
    if let Some(text) = description.of_type() {
        schema["description"] = text.into();
    }
    schema
}
