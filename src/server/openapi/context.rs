//! The context in which schemas are written: the format of the document, the versions that it is
//! about, the names of types, and their descriptions.

use std::borrow::Cow;

use descriptions::Descriptions;
use serde_json::{Value, json};

use super::versions;
use crate::schema::{Description, Names, OpenApiVersion};

/// The form of references to schemas in a format.
#[derive(Clone, Copy)]
pub(super) struct References {
    /// The text before the name of a schema.
    pub place: &'static str,
    /// Whether a reference with a description is wrapped in `allOf`, because OpenAPI 3.0 ignores
    /// the siblings of `$ref` (API-44).
    pub wraps: bool,
}

impl References {
    /// Returns a plain reference.
    pub(super) fn to(self, name: &str) -> Value {
        json!({"$ref": format!("{}{name}", self.place)})
    }

    /// Returns a reference with a description.
    pub(super) fn described(self, name: &str, description: &str) -> Value {
        let mut reference = if self.wraps {
            json!({"allOf": [self.to(name)]})
        } else {
            self.to(name)
        };
        reference["description"] = description.into();
        reference
    }
}

/// The context in which schemas of a document are written.
#[derive(Clone, Copy)]
pub(super) struct SchemaContext<'t> {
    /// The form of references.
    pub references: References,
    /// The descriptions of types.
    pub descriptions: &'t Descriptions,
    /// The versions that the document is about.
    pub versions: Versions<'t>,
}

/// The versions that a document is about. Some types, such as DeleteOptions, are kinds of all
/// versions.
#[derive(Clone, Copy)]
pub(super) enum Versions<'t> {
    /// All versions that Kubernetes knows, whether they are served or not.
    All,
    /// One version, by group and version.
    One(&'t str, &'t str),
    /// A version of custom resources, whose documents list all versions that clients know.
    Custom,
}

impl<'t> Versions<'t> {
    /// Returns the kinds of this name in these versions.
    pub(super) fn kinds(self, kind: &str) -> Value {
        let all: Vec<(&str, &str)> = match self {
            Versions::All => versions::ALL.to_vec(),
            Versions::Custom => versions::of_clients().collect(),
            Versions::One("", version) => vec![("", version)],
            Versions::One(group, version) => vec![("", "v1"), (group, version)],
        };
        let kind = |(group, version)| json!({"group": group, "version": version, "kind": kind});
        all.into_iter().map(kind).collect()
    }
}

impl Names for SchemaContext<'_> {
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
            Some(TypeDescription::OfList { item, kind })
        };
        let found = self.descriptions.of(schema).map(TypeDescription::OfType);
        Box::new(found.or_else(of_item).unwrap_or(TypeDescription::Nothing))
    }
}

/// The description of a type.
enum TypeDescription<'t> {
    Nothing,
    OfType(descriptions::Description<'t>),
    /// A list type. The table of descriptions has none, so the text is made from the kind of its
    /// items.
    OfList {
        item: descriptions::Description<'t>,
        kind: String,
    },
}

impl Description for TypeDescription<'_> {
    fn of_type(&self) -> Option<Cow<'_, str>> {
        match self {
            TypeDescription::Nothing => None,
            TypeDescription::OfType(of) => Some(of.of_type.into()),
            TypeDescription::OfList { kind, .. } => Some(list_text(kind).into()),
        }
    }

    fn of_field(&self, name: &str) -> Option<Cow<'_, str>> {
        match (self, name) {
            (TypeDescription::Nothing, _) => None,
            (TypeDescription::OfType(of), _) => of.field(name).map(Cow::from),
            (TypeDescription::OfList { .. }, "metadata") => Some(LIST_METADATA.into()),
            (TypeDescription::OfList { .. }, "items") => Some(LIST_ITEMS.into()),
            // apiVersion and kind.
            (TypeDescription::OfList { item, .. }, _) => item.field(name).map(Cow::from),
        }
    }
}

const LIST_METADATA: &str = "Metadata of the list.";
const LIST_ITEMS: &str = "The objects of the list.";

fn list_text(kind: &str) -> String {
    format!("{kind}List is a list of objects of the kind {kind}.")
}

/// Returns the name of a type's schema (API-44).
pub(super) fn schema_name(package: &str, name: &str) -> String {
    let place = match package {
        "meta.v1" => "io.k8s.apimachinery.pkg.apis",
        "apiextensions.v1" => "io.k8s.apiextensions-apiserver.pkg.apis",
        "apiregistration.v1" => "io.k8s.kube-aggregator.pkg.apis",
        "resource" => "io.k8s.apimachinery.pkg.api",
        "intstr" => "io.k8s.apimachinery.pkg.util",
        "runtime" | "version" => "io.k8s.apimachinery.pkg",
        _ => "io.k8s.api",
    };
    format!("{place}.{package}.{name}")
}

/// Returns the name of a schema of `meta.k8s.io`.
pub(super) fn meta_name(kind: &str) -> String {
    schema_name("meta.v1", kind)
}
