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
    text: Text,
}

/// The place of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Path,
    Query,
}

/// The description of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Text {
    Own(Cow<'static, str>),
    /// That of the field of this name in a type of `meta.v1`.
    OfField(&'static str),
}

impl Parameter {
    /// Returns the description.
    pub(super) fn description<'s>(&'s self, descriptions: &'s Descriptions) -> &'s str {
        match &self.text {
            Text::Own(text) => text,
            Text::OfField(options) => {
                let options = descriptions.of(&schemas::meta_name(options));
                let found = options.and_then(|options| options.field(&self.name));
                found.unwrap_or_default()
            }
        }
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

/// Creates a parameter of queries, which is a field of these options.
const fn query(name: &'static str, kind: &'static str, options: &'static str) -> Parameter {
    Parameter {
        name: Cow::Borrowed(name),
        place: Place::Query,
        kind,
        text: Text::OfField(options),
    }
}

const fn in_path(name: &'static str, description: &'static str) -> Parameter {
    text(name, Place::Path, description)
}

/// Creates a parameter with a text and a description of its own.
const fn text(name: &'static str, place: Place, description: &'static str) -> Parameter {
    Parameter {
        name: Cow::Borrowed(name),
        place,
        kind: "string",
        text: Text::Own(Cow::Borrowed(description)),
    }
}

/// The namespace in a path.
pub(super) const NAMESPACE: Parameter = in_path(
    "namespace",
    "object name and auth scope, such as for teams and projects",
);

/// The rest of the path after a proxy subresource.
pub(super) const PATH: Parameter = in_path("path", "The requested path.");

/// Whether the response is indented.
pub(super) const PRETTY: Parameter = text(
    "pretty",
    Place::Query,
    "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent \
     indicates a browser or command-line HTTP tool (curl and wget).",
);

/// The oldest version that a client wants to see.
pub(super) const VERSION: Parameter = query("resourceVersion", "string", "ListOptions");

const DRY_RUN: Parameter = query("dryRun", "string", "DeleteOptions");

const FIELD_VALIDATION: Parameter = query("fieldValidation", "string", "CreateOptions");

/// The options of create and update.
pub(super) static WRITE: [Parameter; 4] = [
    DRY_RUN,
    query("fieldManager", "string", "CreateOptions"),
    FIELD_VALIDATION,
    PRETTY,
];

/// The options of patch.
pub(super) static PATCH: [Parameter; 5] = [
    DRY_RUN,
    query("fieldManager", "string", "PatchOptions"),
    FIELD_VALIDATION,
    query("force", "boolean", "PatchOptions"),
    PRETTY,
];

/// The options of delete.
pub(super) static DELETE: [Parameter; 6] = [
    DRY_RUN,
    query("gracePeriodSeconds", "integer", "DeleteOptions"),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "DeleteOptions",
    ),
    query("orphanDependents", "boolean", "DeleteOptions"),
    query("propagationPolicy", "string", "DeleteOptions"),
    PRETTY,
];

/// The options of list. The last two are for watches only.
pub(super) static LIST: [Parameter; 12] = [
    query("continue", "string", "ListOptions"),
    query("fieldSelector", "string", "ListOptions"),
    query("labelSelector", "string", "ListOptions"),
    query("limit", "integer", "ListOptions"),
    PRETTY,
    VERSION,
    query("resourceVersionMatch", "string", "ListOptions"),
    query("sendInitialEvents", "boolean", "ListOptions"),
    query("shardSelector", "string", "ListOptions"),
    query("timeoutSeconds", "integer", "ListOptions"),
    query("allowWatchBookmarks", "boolean", "ListOptions"),
    query("watch", "boolean", "ListOptions"),
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
        text: Text::Own(format!("name of the {}", kind.kind).into()),
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
            text: Text::Own(format!("{} of {}.", field.name, options.kind).into()),
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
