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
    /// Our own words, unless Kubernetes says something of the option in `DeleteOptions`.
    description: Cow<'static, str>,
}

/// Where a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Path,
    Query,
}

impl Parameter {
    /// What is said of it.
    pub(super) fn description<'s>(&'s self, descriptions: &'s Descriptions) -> &'s str {
        let has_said = DELETE.contains(self);
        let options = || descriptions.of(&schemas::meta_name("DeleteOptions"));
        let said = has_said.then(options).flatten();
        let said = said.and_then(|options| options.field(&self.name));
        said.unwrap_or(&self.description)
    }

    /// `path` or `query`.
    pub(super) fn place_name(&self) -> &'static str {
        match self.place {
            Place::Path => "path",
            Place::Query => "query",
        }
    }

    /// Whether every request has it.
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

/// The path behind a proxy.
pub(super) const PATH: Parameter = in_path("path", "The path that is asked for.");

/// Whether answers are indented.
pub(super) const PRETTY: Parameter = query("pretty", "string", "Whether the answer is indented.");

const DRY_RUN: Parameter = query("dryRun", "string", "With the value All nothing is stored.");

const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "What becomes of unknown and duplicate fields: Ignore, Warn or Strict.",
);

/// The options of creations and updates.
pub(super) static WRITE: [Parameter; 4] = [
    DRY_RUN,
    query("fieldManager", "string", "Who changes the fields."),
    FIELD_VALIDATION,
    PRETTY,
];

/// The options of patches.
pub(super) static PATCH: [Parameter; 5] = [
    DRY_RUN,
    query(
        "fieldManager",
        "string",
        "Who changes the fields. Applying demands it.",
    ),
    FIELD_VALIDATION,
    query(
        "force",
        "boolean",
        "Whether applying takes fields that others own.",
    ),
    PRETTY,
];

/// The options of deletions.
pub(super) static DELETE: [Parameter; 6] = [
    DRY_RUN,
    query(
        "gracePeriodSeconds",
        "integer",
        "Seconds that the object is left.",
    ),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Whether an object that can't be read is deleted without regard to anything.",
    ),
    query(
        "orphanDependents",
        "boolean",
        "Use propagationPolicy instead.",
    ),
    query("propagationPolicy", "string", "What becomes of dependents."),
    PRETTY,
];

/// The options of lists, of which those at the end are for watches alone.
pub(super) static LIST: [Parameter; 12] = [
    query("continue", "string", "Where the page begins."),
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
    query("limit", "integer", "How many objects a page has."),
    PRETTY,
    query("resourceVersion", "string", "The state that is asked for."),
    query(
        "resourceVersionMatch",
        "string",
        "How resourceVersion is meant.",
    ),
    query(
        "sendInitialEvents",
        "boolean",
        "Whether a watch begins with the state.",
    ),
    query(
        "shardSelector",
        "string",
        "Selects by hashes. Nothing is selected by it yet.",
    ),
    query("timeoutSeconds", "integer", "How long the request lasts."),
    query(
        "allowWatchBookmarks",
        "boolean",
        "Whether a watch sends bookmarks.",
    ),
    query(
        "watch",
        "boolean",
        "Whether changes are wanted instead of a list.",
    ),
];

/// How many of [`LIST`] mean something for deletions.
const OF_SELECTION: usize = 10;

/// The options of deletions of collections.
pub(super) fn delete_collection() -> Vec<Parameter> {
    let selection = LIST.iter().take(OF_SELECTION);
    let own = DELETE.iter().filter(|known| **known != PRETTY);
    selection.chain(own).cloned().collect()
}

/// The name in a path about an object. `kind` is that of bodies and answers.
pub(super) fn name(kind: &ResourceDefinition) -> Parameter {
    Parameter {
        description: format!("name of the {}", kind.kind).into(),
        ..in_path("name", "")
    }
}

/// The options of a connection, which are the fields of a type.
pub(super) fn of_connection(options: &ResourceDefinition) -> Vec<Parameter> {
    let found = options.object_type.found();
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

/// The type of values in queries, if they can be there. Lists are the same parameter several times.
fn of_type(of: &Type) -> Option<&'static str> {
    match &of.shape {
        Shape::List(item) => of_type(item),
        Shape::Scalar(Scalar::String) => Some("string"),
        Shape::Scalar(Scalar::Bool) => Some("boolean"),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64) => Some("integer"),
        _ => None,
    }
}
