//! Paths and their operations, independent of the document format (API-42, API-45, API-46).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schemas;
use crate::api::resource::{ResourceDefinition, Subresource, Verb};
use crate::server::negotiation::{self, APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH};

/// A path with its operations.
pub(super) struct Path<'d> {
    /// For example `/api/v1/namespaces/{namespace}/configmaps/{name}`.
    pub template: String,
    /// Parameters of the path itself.
    pub parameters: Vec<Parameter>,
    /// The operations at the path.
    pub operations: Vec<Operation<'d>>,
}

/// An operation at a path.
pub(super) struct Operation<'d> {
    /// The method in lower case.
    pub method: &'static str,
    /// For example `patchCoreV1NamespacedConfigMap`.
    pub id: String,
    /// `x-kubernetes-action`.
    pub action: &'static str,
    /// A description for people.
    pub description: String,
    /// Query parameters.
    pub parameters: Vec<Parameter>,
    /// Media types and schema of the body, or `None` without a body.
    pub body: Option<(&'static [&'static str], Option<String>)>,
    /// Status code and schema of the response.
    pub answers: (u16, String),
    /// The kind that it is about.
    pub kind: &'d ResourceDefinition,
}

/// A parameter of a path or a query.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub kind: &'static str,
    pub in_path: bool,
    pub description: &'static str,
}

const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        kind,
        in_path: false,
        description,
    }
}

const fn in_path(name: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        kind: "string",
        in_path: true,
        description,
    }
}

const NAMESPACE: Parameter = in_path("namespace", "The namespace.");
const NAME: Parameter = in_path("name", "The object's name.");
const PRETTY: Parameter = query("pretty", "string", "Whether the answer is indented.");
const DRY_RUN: Parameter = query("dryRun", "string", "With the value All nothing is stored.");
const RESOURCE_VERSION: Parameter =
    query("resourceVersion", "string", "The state that is asked for.");

const WRITE: [Parameter; 4] = [
    PRETTY,
    DRY_RUN,
    query("fieldManager", "string", "Who changes the fields."),
    query(
        "fieldValidation",
        "string",
        "What becomes of unknown and duplicate fields: Ignore, Warn or Strict.",
    ),
];

const DELETE: [Parameter; 5] = [
    PRETTY,
    DRY_RUN,
    query(
        "gracePeriodSeconds",
        "integer",
        "Seconds that the object is left.",
    ),
    query(
        "orphanDependents",
        "boolean",
        "Use propagationPolicy instead.",
    ),
    query("propagationPolicy", "string", "What becomes of dependents."),
];

const LIST: [Parameter; 11] = [
    PRETTY,
    query(
        "allowWatchBookmarks",
        "boolean",
        "Whether a watch sends bookmarks.",
    ),
    query("continue", "string", "Where the page begins."),
    query("fieldSelector", "string", "Selects by fields."),
    query("labelSelector", "string", "Selects by labels."),
    query("limit", "integer", "How many objects a page has."),
    RESOURCE_VERSION,
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
    query("timeoutSeconds", "integer", "How long the request lasts."),
    query(
        "watch",
        "boolean",
        "Whether changes are wanted instead of a list.",
    ),
];

const BODIES: &[&str] = &negotiation::BODIES;
const PATCHES: &[&str] = &[APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH];

/// The paths of all these resources, by their templates.
pub(super) fn paths<'d>(definitions: &[&'d ResourceDefinition]) -> BTreeMap<String, Path<'d>> {
    let paths = definitions.iter().flat_map(|definition| of(definition));
    paths.map(|path| (path.template.clone(), path)).collect()
}

/// A path in the format of a document. Two functions write parameters and operations in it.
pub(super) fn item(
    path: &Path<'_>,
    parameter: fn(&Parameter) -> Value,
    written: fn(&Operation<'_>) -> Value,
) -> Value {
    let mut item = Map::new();
    if !path.parameters.is_empty() {
        let parameters = path.parameters.iter().map(parameter).collect();
        item.insert("parameters".to_owned(), parameters);
    }
    for operation in &path.operations {
        item.insert(operation.method.to_owned(), written(operation));
    }
    Value::Object(item)
}

/// All paths of a resource.
pub(super) fn of(definition: &ResourceDefinition) -> Vec<Path<'_>> {
    let root = match definition.group.as_str() {
        "" => format!("/api/{}", definition.version),
        group => format!("/apis/{group}/{}", definition.version),
    };
    let plural = &definition.plural;
    let (collection, above) = if definition.is_namespaced() {
        (
            format!("{root}/namespaces/{{namespace}}/{plural}"),
            vec![NAMESPACE],
        )
    } else {
        (format!("{root}/{plural}"), vec![])
    };
    let mut named = above.clone();
    named.insert(0, NAME);
    let mut paths = vec![
        Path {
            template: collection.clone(),
            parameters: above,
            operations: with_verbs(
                definition,
                None,
                &[Verb::List, Verb::Create, Verb::DeleteCollection],
            ),
        },
        Path {
            template: format!("{collection}/{{name}}"),
            parameters: named.clone(),
            operations: with_verbs(
                definition,
                None,
                &[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete],
            ),
        },
    ];
    if definition.is_namespaced() {
        let mut everywhere = with_verbs(definition, None, &[Verb::List]);
        for operation in &mut everywhere {
            let Naming {
                group,
                version,
                kind,
                ..
            } = naming(definition);
            operation.id = format!("list{group}{version}{kind}ForAllNamespaces");
        }
        paths.push(Path {
            template: format!("{root}/{plural}"),
            parameters: vec![],
            operations: everywhere,
        });
    }
    for subresource in &definition.subresources {
        paths.push(Path {
            template: format!("{collection}/{{name}}/{}", subresource.name),
            parameters: named.clone(),
            operations: with_verbs(
                definition,
                Some(subresource),
                &[Verb::Get, Verb::Update, Verb::Patch],
            ),
        });
    }
    paths
}

fn with_verbs<'d>(
    definition: &'d ResourceDefinition,
    subresource: Option<&'d Subresource>,
    wanted: &[Verb],
) -> Vec<Operation<'d>> {
    let verbs = subresource.map_or(&definition.verbs, |part| &part.verbs);
    let wanted = wanted.iter().filter(|verb| verbs.contains(verb));
    wanted
        .filter_map(|verb| operation(definition, *verb, subresource))
        .collect()
}

/// The parts of an operation's id (API-46).
struct Naming {
    group: String,
    version: String,
    namespaced: &'static str,
    kind: String,
}

fn naming(definition: &ResourceDefinition) -> Naming {
    let group = match definition.group.as_str() {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    Naming {
        group: capitalized(group),
        version: capitalized(&definition.version),
        namespaced: if definition.is_namespaced() {
            "Namespaced"
        } else {
            ""
        },
        kind: definition.kind.clone(),
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn operation<'d>(
    definition: &'d ResourceDefinition,
    verb: Verb,
    subresource: Option<&'d Subresource>,
) -> Option<Operation<'d>> {
    let kind_of_bodies = subresource.map_or(definition, |part| part.kind(definition));
    let subresource = subresource.map_or("", |part| &part.name);
    let one = || schemas::name(kind_of_bodies);
    let status = || schemas::meta_name("Status");
    let options = Some(schemas::meta_name("DeleteOptions"));
    let (method, prefix, action) = match verb {
        Verb::Get => ("get", "read", "get"),
        Verb::List => ("get", "list", "list"),
        Verb::Create => ("post", "create", "post"),
        Verb::Update => ("put", "replace", "put"),
        Verb::Patch => ("patch", "patch", "patch"),
        Verb::Delete => ("delete", "delete", "delete"),
        Verb::DeleteCollection => ("delete", "deleteCollection", "deletecollection"),
        Verb::Connect | Verb::Watch => return None,
    };
    let description = description(verb, &definition.kind, subresource);
    let (parameters, body, answers): (Vec<Parameter>, _, _) = match verb {
        Verb::Get => (vec![PRETTY, RESOURCE_VERSION], None, (200, one())),
        Verb::List => (LIST.to_vec(), None, (200, schemas::list_name(definition))),
        Verb::Create => (WRITE.to_vec(), Some((BODIES, Some(one()))), (201, one())),
        Verb::Update => (WRITE.to_vec(), Some((BODIES, Some(one()))), (200, one())),
        Verb::Patch => (WRITE.to_vec(), Some((PATCHES, None)), (200, one())),
        Verb::Delete => (DELETE.to_vec(), Some((BODIES, options)), (200, status())),
        _ => {
            let listing = LIST.iter().filter(|parameter| parameter.name != "pretty");
            let both = DELETE.iter().chain(listing).copied().collect();
            (
                both,
                Some((BODIES, options)),
                (200, schemas::list_name(definition)),
            )
        }
    };
    let Naming {
        group,
        version,
        namespaced,
        kind,
    } = naming(definition);
    let sub = capitalized(subresource);
    Some(Operation {
        method,
        id: format!("{prefix}{group}{version}{namespaced}{kind}{sub}"),
        action,
        description,
        parameters,
        body,
        answers,
        kind: kind_of_bodies,
    })
}

/// What an operation does, in the words of kube-apiserver.
fn description(verb: Verb, kind: &str, subresource: &str) -> String {
    let specified = match subresource {
        "" => format!("the specified {kind}"),
        _ => format!("{subresource} of the specified {kind}"),
    };
    match verb {
        Verb::Get => format!("read {specified}"),
        Verb::Update => format!("replace {specified}"),
        Verb::Patch => format!("partially update {specified}"),
        Verb::Create if subresource.is_empty() => format!("create {}{kind}", article(kind)),
        Verb::Create => format!("create {subresource} of {}{kind}", article(kind)),
        Verb::Delete => format!("delete {}{kind}", article(kind)),
        Verb::DeleteCollection => format!("delete collection of {kind}"),
        Verb::List => format!("list or watch objects of kind {kind}"),
        Verb::Connect | Verb::Watch => String::new(),
    }
}

/// The article before a kind, with the space between them. Plurals have none.
fn article(kind: &str) -> &'static str {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return "";
    }
    match kind.starts_with(['A', 'E', 'I', 'O', 'U']) {
        true => "an ",
        false => "a ",
    }
}
