//! The parameters of paths and queries.

use std::borrow::Cow;

use descriptions::Descriptions;

use super::schemas;
use crate::api::resource::ResourceDefinition;
use crate::schema::{Scalar, Shape, Type};

/// A parameter of a path or a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parameter {
    pub name: Cow<'static, str>,
    pub place: Place,
    /// `string`, `integer` or `boolean`.
    pub kind: &'static str,
    /// Our own text. Fields of DeleteOptions show their description in Kubernetes instead.
    description: Cow<'static, str>,
}

/// The place of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Path,
    Query,
}

impl Parameter {
    /// Returns the description.
    pub(super) fn description<'s>(&'s self, descriptions: &'s Descriptions) -> &'s str {
        let is_option = DELETE.contains(self);
        let options = || descriptions.of(&schemas::meta_name("DeleteOptions"));
        let found = is_option.then(options).flatten();
        let found = found.and_then(|options| options.field(&self.name));
        found.unwrap_or(&self.description)
    }

    /// Returns `path` or `query`.
    pub(super) fn place_name(&self) -> &'static str {
        match self.place {
            Place::Path => "path",
            Place::Query => "query",
        }
    }

    /// Whether the parameter is required. Those in the path are.
    pub(super) fn is_required(&self) -> bool {
        self.place == Place::Path
    }
}

const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name: Cow::Borrowed(name),
        place: Place::Query,
        kind,
        description: Cow::Borrowed(description),
    }
}

const fn in_path(name: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name: Cow::Borrowed(name),
        place: Place::Path,
        kind: "string",
        description: Cow::Borrowed(description),
    }
}

/// The namespace in a path.
pub(super) const NAMESPACE: Parameter = in_path("namespace", "The namespace.");

/// The rest of the path after a proxy subresource.
pub(super) const PATH: Parameter = in_path("path", "The requested path.");

/// Whether the response is indented.
pub(super) const PRETTY: Parameter = query("pretty", "string", "Whether the response is indented.");

const DRY_RUN: Parameter = query("dryRun", "string", "With the value All, nothing is stored.");

const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "How unknown and duplicate fields are handled: Ignore, Warn or Strict.",
);

/// The options of create and update.
pub(super) static WRITE: [Parameter; 4] = [
    DRY_RUN,
    query("fieldManager", "string", "The name of the field manager."),
    FIELD_VALIDATION,
    PRETTY,
];

/// The options of patch.
pub(super) static PATCH: [Parameter; 5] = [
    DRY_RUN,
    query(
        "fieldManager",
        "string",
        "The name of the field manager. Server-side apply requires it.",
    ),
    FIELD_VALIDATION,
    query(
        "force",
        "boolean",
        "Whether server-side apply takes over fields that other managers own.",
    ),
    PRETTY,
];

/// The options of delete.
pub(super) static DELETE: [Parameter; 6] = [
    DRY_RUN,
    query(
        "gracePeriodSeconds",
        "integer",
        "The seconds before the object is deleted.",
    ),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Whether an unreadable object is deleted without any checks.",
    ),
    query(
        "orphanDependents",
        "boolean",
        "Use propagationPolicy instead.",
    ),
    query("propagationPolicy", "string", "How dependents are deleted."),
    PRETTY,
];

/// The options of list. The last two are for watches only.
pub(super) static LIST: [Parameter; 12] = [
    query(
        "continue",
        "string",
        "The token of the page, from the previous response.",
    ),
    query(
        "fieldSelector",
        "string",
        "Restricts the list of returned objects by their fields.",
    ),
    query(
        "labelSelector",
        "string",
        "Restricts the list of returned objects by their labels.",
    ),
    query(
        "limit",
        "integer",
        "The maximum number of objects in the response.",
    ),
    PRETTY,
    query(
        "resourceVersion",
        "string",
        "The resourceVersion of the requested state.",
    ),
    query(
        "resourceVersionMatch",
        "string",
        "How resourceVersion is matched.",
    ),
    query(
        "sendInitialEvents",
        "boolean",
        "Whether a watch begins with the existing objects.",
    ),
    query(
        "shardSelector",
        "string",
        "Selects objects by hash. Not implemented, so it has no effect.",
    ),
    query(
        "timeoutSeconds",
        "integer",
        "The maximum duration of the request in seconds.",
    ),
    query(
        "allowWatchBookmarks",
        "boolean",
        "Whether a watch sends bookmarks.",
    ),
    query(
        "watch",
        "boolean",
        "Whether to watch changes instead of returning a list.",
    ),
];

/// The number of options in [`LIST`] that also apply to deletecollection.
const OF_SELECTION: usize = 10;

/// Returns the options of deletecollection.
pub(super) fn delete_collection() -> Vec<Parameter> {
    let selection = LIST.iter().take(OF_SELECTION);
    let own = DELETE.iter().filter(|known| **known != PRETTY);
    selection.chain(own).cloned().collect()
}

/// Returns the parameter for the name of an object of this kind.
pub(super) fn name(kind: &ResourceDefinition) -> Parameter {
    Parameter {
        description: format!("name of the {}", kind.kind).into(),
        ..in_path("name", "")
    }
}

/// Returns the options of a connect subresource, which are the fields of a type.
pub(super) fn of_connection(options: &ResourceDefinition) -> Vec<Parameter> {
    let found = options.object_type().found();
    let of = found.and_then(|(schema, id)| schema.get(id));
    let fields = of.into_iter().flat_map(|of| of.fields());
    let parameters = fields.filter_map(|field| {
        Some(Parameter {
            name: field.name.clone().into(),
            kind: of_type(&field.of)?,
            description: format!("{} of {}.", field.name, options.kind).into(),
            ..query("", "", "")
        })
    });
    parameters.collect()
}

/// Returns the type of a query parameter, if it can be one. Lists are repeated parameters.
fn of_type(of: &Type) -> Option<&'static str> {
    match &of.shape {
        Shape::List(item) => of_type(item),
        Shape::Scalar(Scalar::String) => Some("string"),
        Shape::Scalar(Scalar::Bool) => Some("boolean"),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64) => Some("integer"),
        _ => None,
    }
}
