//! Paths and their operations, independent of the document format (API-42, API-45, API-46).

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Map, Value};

use super::naming::{self, Naming};
use super::parameters::{self, Parameter};
use super::schemas::{self, Root};
use crate::api::group_version_kind::GroupVersionKind;
use crate::api::resource::ResourceDefinition;
use crate::registry::RestStorage;
use crate::registry::catalog::{GroupVersion, ServedResource};
use crate::registry::rest::Connecter;
use crate::server::encoding::{MediaTypeRef, PROTOBUF};
use crate::server::negotiation::{APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH};

/// A path with its operations.
pub(super) struct Path<'d> {
    /// For example `/api/v1/namespaces/{namespace}/configmaps/{name}`.
    pub template: String,
    /// The parameters that all operations share.
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
    /// The group version: `core_v1`.
    pub tag: String,
    /// `x-kubernetes-action`.
    pub action: Option<&'static str>,
    /// A description for people.
    pub description: String,
    /// The parameters in the path and the query, sorted by name.
    pub parameters: Vec<Parameter>,
    /// The media types of request bodies.
    pub consumes: Vec<&'static str>,
    /// The request body, if there is one.
    pub body: Option<Body<'d>>,
    /// The media types of responses.
    pub produces: Vec<&'static str>,
    /// The status codes of success.
    pub codes: &'static [u16],
    /// The schema of responses.
    pub answer: Answer<'d>,
    /// The kind of the objects.
    pub kind: Option<GroupVersionKind<'d>>,
}

/// A request body.
pub(super) struct Body<'d> {
    pub schema: Root<'d>,
    pub is_required: bool,
}

/// The schema of a response.
pub(super) enum Answer<'d> {
    Schema(Root<'d>),
    /// A string of any content.
    Text,
}

impl<'d> Operation<'d> {
    /// Returns the schemas that the operation refers to.
    fn roots(&self) -> impl Iterator<Item = &Root<'d>> {
        let answer = match &self.answer {
            Answer::Schema(root) => Some(root),
            Answer::Text => None,
        };
        self.body.iter().map(|body| &body.schema).chain(answer)
    }
}

/// Returns the schemas that the operations of these paths refer to.
pub(super) fn roots<'p, 'd>(paths: &'p [Path<'d>]) -> impl Iterator<Item = &'p Root<'d>> {
    let operations = paths.iter().flat_map(|path| &path.operations);
    operations.flat_map(Operation::roots)
}

/// Returns the reason phrase of a status code.
pub(super) fn reason(code: u16) -> &'static str {
    let known = http::StatusCode::from_u16(code).ok();
    known
        .and_then(|code| code.canonical_reason())
        .unwrap_or_default()
}

/// Writes a path item. The two functions write parameters and operations in the format of the
/// document.
pub(super) fn item(
    path: &Path<'_>,
    mut parameter: impl FnMut(&Parameter) -> Value,
    written: impl Fn(&Operation<'_>, Vec<Value>) -> Value,
) -> Value {
    let mut item = Map::new();
    if !path.parameters.is_empty() {
        let parameters = path.parameters.iter().map(&mut parameter).collect();
        item.insert("parameters".to_owned(), parameters);
    }
    for operation in &path.operations {
        let parameters = operation.parameters.iter().map(&mut parameter).collect();
        let operation_written = written(operation, parameters);
        item.insert(operation.method.to_owned(), operation_written);
    }
    Value::Object(item)
}

/// Returns the paths of a version's resources, sorted.
pub(super) fn of_version(version: &GroupVersion) -> Vec<Path<'_>> {
    let mut paths = BTreeMap::new();
    for resource in version.announced() {
        let storages = [&resource.storage].into_iter();
        for storage in storages.chain(&resource.subresources) {
            of_storage(&**storage, &mut paths);
        }
    }
    let paths = paths.into_iter();
    paths
        .map(|(template, operations)| path(template, operations))
        .collect()
}

/// Whether Kubernetes defines the type of a resource's objects.
pub(super) fn is_typed(resource: &ServedResource) -> bool {
    schemas::is_typed(resource.storage.resource())
}

/// Creates a path with these operations. Parameters that all of them share move to the path.
pub(super) fn path(template: String, mut operations: Vec<Operation<'_>>) -> Path<'_> {
    let mut shared: Vec<Parameter> = Vec::new();
    if let Some((first, others)) = operations.split_first() {
        let is_shared =
            |parameter: &&Parameter| others.iter().all(|of| of.parameters.contains(parameter));
        shared.extend(first.parameters.iter().filter(is_shared).cloned());
    }
    for operation in &mut operations {
        operation
            .parameters
            .retain(|parameter| !shared.contains(parameter));
    }
    Path {
        template,
        parameters: shared,
        operations,
    }
}

/// Operations by the path template.
type Paths<'d> = BTreeMap<String, Vec<Operation<'d>>>;

/// The verb of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    List,
    Watch,
    WatchList,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// The scope of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// One namespace, or the cluster for a cluster-scoped resource.
    Own,
    /// All namespaces.
    Everywhere,
}

fn of_storage<'d>(storage: &'d dyn RestStorage, paths: &mut Paths<'d>) {
    let resource = storage.resource();
    let root = naming::root(&resource.group, &resource.version);
    let plural = &resource.plural;
    let namespace = match resource.is_namespaced() {
        true => "namespaces/{namespace}/",
        false => "",
    };
    let collection = format!("{root}/{namespace}{plural}");
    let everywhere = format!("{root}/{plural}");
    let of = OfStorage {
        storage,
        naming: Naming::of(resource),
    };
    let mut add = |template: String, verb, place| {
        let operations: &mut Vec<_> = paths.entry(template).or_default();
        operations.push(of.operation(verb, place));
    };
    if let Some(subresource) = storage.subresource() {
        let template = format!("{collection}/{{name}}/{subresource}");
        for verb in of.verbs_of_objects() {
            add(template.clone(), verb, Place::Own);
        }
        if let Some(connecter) = storage.connecter() {
            of.connect(connecter, &template, paths);
        }
        return;
    }
    for verb in of.verbs_of_collections() {
        add(collection.clone(), verb, Place::Own);
    }
    for verb in of.verbs_of_objects() {
        add(format!("{collection}/{{name}}"), verb, Place::Own);
    }
    if resource.is_namespaced() && storage.lister().is_some() {
        add(everywhere, Verb::List, Place::Everywhere);
    }
    if storage.watcher().is_some() && schemas::is_typed(resource) {
        let watched = format!("{root}/watch/{namespace}{plural}");
        add(format!("{watched}/{{name}}"), Verb::Watch, Place::Own);
        add(watched, Verb::WatchList, Place::Own);
        if resource.is_namespaced() {
            let everywhere = format!("{root}/watch/{plural}");
            add(everywhere, Verb::WatchList, Place::Everywhere);
        }
    }
}

/// A storage and the names of its operations.
struct OfStorage<'d> {
    storage: &'d dyn RestStorage,
    naming: Naming,
}

impl<'d> OfStorage<'d> {
    fn verbs_of_collections(&self) -> Vec<Verb> {
        let storage = self.storage;
        let verbs = [
            (Verb::List, storage.lister().is_some()),
            (Verb::Create, storage.creater().is_some()),
            (
                Verb::DeleteCollection,
                storage.collection_deleter().is_some(),
            ),
        ];
        let served = verbs.into_iter().filter(|(_, is_served)| *is_served);
        served.map(|(verb, _)| verb).collect()
    }

    fn verbs_of_objects(&self) -> Vec<Verb> {
        let storage = self.storage;
        let verbs = [
            (Verb::Get, storage.getter().is_some()),
            (Verb::Create, storage.named_creater().is_some()),
            (Verb::Update, storage.updater().is_some()),
            (Verb::Patch, storage.patcher().is_some()),
            (Verb::Delete, storage.deleter().is_some()),
        ];
        let served = verbs.into_iter().filter(|(_, is_served)| *is_served);
        served.map(|(verb, _)| verb).collect()
    }

    /// Returns the parameters of the path and the query, sorted by name.
    fn parameters(
        &self,
        has_name: bool,
        place: Place,
        query: impl IntoIterator<Item = Parameter>,
    ) -> Vec<Parameter> {
        let mut all: Vec<Parameter> = query.into_iter().collect();
        if has_name {
            all.push(parameters::name(self.subject()));
        }
        if place == Place::Own && self.storage.resource().is_namespaced() {
            all.push(parameters::NAMESPACE);
        }
        all.sort();
        all
    }

    /// Returns the kind that an operation is about. A scale of a custom resource is described as
    /// one of its objects, although it has a kind of its own (CRD-110).
    fn subject(&self) -> &'d ResourceDefinition {
        match self.is_typed() {
            true => self.storage.response_kind(),
            false => self.storage.resource(),
        }
    }

    fn body(&self, verb: Verb) -> Option<Body<'d>> {
        let (schema, is_required) = match verb {
            Verb::Create | Verb::Update => (Root::Kind(self.storage.request_kind()), true),
            Verb::Patch => (Root::Meta("Patch"), true),
            Verb::Delete => (Root::Meta("DeleteOptions"), false),
            Verb::DeleteCollection if self.is_typed() => (Root::Meta("DeleteOptions"), false),
            _ => return None,
        };
        Some(Body {
            schema,
            is_required,
        })
    }

    fn answer(&self, verb: Verb) -> Root<'d> {
        let kind = self.storage.response_kind();
        match verb {
            Verb::List => Root::List(kind),
            Verb::Watch | Verb::WatchList => Root::Meta("WatchEvent"),
            // kube-apiserver documents a Status for namespaces, although it returns the object.
            Verb::Delete if kind.rules().returns_deleted && !kind.is("", "namespaces") => {
                Root::Kind(kind)
            }
            Verb::Delete | Verb::DeleteCollection => Root::Meta("Status"),
            _ => Root::Kind(kind),
        }
    }

    fn is_typed(&self) -> bool {
        schemas::is_typed(self.storage.resource())
    }

    fn consumes(&self, verb: Verb) -> Vec<&'static str> {
        let is_strategic = |name: &&str| self.is_typed() || *name != STRATEGIC_PATCH;
        match verb {
            Verb::Patch => [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
                .into_iter()
                .filter(is_strategic)
                .collect(),
            _ if self.is_typed() => vec![ANY],
            _ => self.names(),
        }
    }

    fn produces(&self, verb: Verb) -> Vec<&'static str> {
        let mut names = self.names();
        if matches!(verb, Verb::List | Verb::Watch | Verb::WatchList) && self.is_typed() {
            names.extend(MediaTypeRef::streams());
        }
        names
    }

    fn names(&self) -> Vec<&'static str> {
        let is_possible = |name: &&str| self.is_typed() || *name != PROTOBUF;
        MediaTypeRef::names().filter(is_possible).collect()
    }

    fn operation(&self, verb: Verb, place: Place) -> Operation<'d> {
        let (method, prefix, action): (_, _, _) = match verb {
            Verb::Get => ("get", "read", "get"),
            Verb::List => ("get", "list", "list"),
            Verb::Watch => ("get", "watch", "watch"),
            Verb::WatchList => ("get", "watch", "watchlist"),
            Verb::Create => ("post", "create", "post"),
            Verb::Update => ("put", "replace", "put"),
            Verb::Patch => ("patch", "patch", "patch"),
            Verb::Delete => ("delete", "delete", "delete"),
            Verb::DeleteCollection => ("delete", "delete", "deletecollection"),
        };
        let has_name = match verb {
            Verb::Create => self.storage.subresource().is_some(),
            Verb::List | Verb::WatchList | Verb::DeleteCollection => false,
            _ => true,
        };
        let query = match verb {
            Verb::Get if self.is_typed() => vec![parameters::PRETTY],
            Verb::Get => vec![parameters::PRETTY, parameters::VERSION],
            Verb::List | Verb::Watch | Verb::WatchList => parameters::LIST.to_vec(),
            Verb::Create | Verb::Update => parameters::WRITE.to_vec(),
            Verb::Patch => parameters::PATCH.to_vec(),
            Verb::Delete => parameters::DELETE.to_vec(),
            Verb::DeleteCollection if self.is_typed() => parameters::delete_collection(),
            Verb::DeleteCollection => parameters::LIST.to_vec(),
        };
        let codes: &[u16] = match verb {
            Verb::Create => &[200, 201, 202],
            Verb::Patch if !self.is_typed() => &[200],
            Verb::Update | Verb::Patch => &[200, 201],
            Verb::Delete => &[200, 202],
            _ => &[200],
        };
        let collection = match verb {
            Verb::DeleteCollection => "Collection",
            _ => "",
        };
        let list = match verb {
            Verb::WatchList => "List",
            _ => "",
        };
        let everywhere = match place {
            Place::Own => "",
            Place::Everywhere => "ForAllNamespaces",
        };
        let resource = self.storage.resource();
        let named = self.naming.of_kind(prefix, collection, place == Place::Own);
        let subresource = self.storage.subresource().unwrap_or_default();
        let of_part = naming::capitalized(subresource);
        Operation {
            method,
            id: format!("{named}{of_part}{list}{everywhere}"),
            tag: self.naming.tag.clone(),
            action: Some(action),
            description: match verb {
                Verb::List if self.storage.watcher().is_none() || !self.is_typed() => {
                    format!("list objects of kind {}", resource.kind)
                }
                verb => description(verb, &resource.kind, subresource),
            },
            parameters: self.parameters(has_name, place, query),
            consumes: self.consumes(verb),
            body: self.body(verb),
            produces: self.produces(verb),
            codes,
            answer: Answer::Schema(self.answer(verb)),
            kind: Some(self.subject().group_version_kind()),
        }
    }

    /// Adds the paths of a connect subresource: its own, and the one for paths below it, if there
    /// are any.
    fn connect(&self, connecter: &'d dyn Connecter, template: &str, paths: &mut Paths<'d>) {
        let options = connecter.options();
        let query = options.map(parameters::of_connection).unwrap_or_default();
        for method in connecter.methods() {
            let operation = |path| self.connection(method, query.iter().cloned().chain(path));
            let own = paths.entry(template.to_owned()).or_default();
            own.push(operation(None));
            if connecter.takes_paths() {
                let mut below = operation(Some(parameters::PATH));
                below.id.push_str("WithPath");
                let template = format!("{template}/{{path}}");
                paths.entry(template).or_default().push(below);
            }
        }
    }

    fn connection(&self, method: &Method, query: impl Iterator<Item = Parameter>) -> Operation<'d> {
        let storage = self.storage;
        let (resource, kind) = (storage.resource(), storage.response_kind());
        let subresource = storage.subresource().unwrap_or_default();
        let of_part = naming::capitalized(subresource);
        // A subresource that returns a part of the object, such as a log, is documented as a read.
        let is_read = resource.kind == kind.kind;
        let (prefix, verb_of_id) = match is_read {
            true => ("read", String::new()),
            false => (
                "connect",
                naming::capitalized(&method.as_str().to_lowercase()),
            ),
        };
        let (produces, pretty) = match is_read {
            true => {
                let names = ["text/plain"].into_iter().chain(self.names());
                (names.collect(), Some(parameters::PRETTY))
            }
            false => (vec![ANY], None),
        };
        let named = self.naming.of_kind(prefix, &verb_of_id, true);
        Operation {
            method: naming::method(method),
            id: format!("{named}{of_part}"),
            tag: self.naming.tag.clone(),
            action: Some(if is_read { "get" } else { "connect" }),
            description: match is_read {
                true => description(Verb::Get, &resource.kind, subresource),
                false => format!(
                    "connect {method} requests to {subresource} of {}",
                    resource.kind
                ),
            },
            parameters: self.parameters(true, Place::Own, query.chain(pretty)),
            consumes: vec![ANY],
            body: None,
            produces,
            codes: &[200],
            answer: Answer::Text,
            kind: Some(kind.group_version_kind()),
        }
    }
}

/// Any media type.
const ANY: &str = "*/*";

/// Returns the description of an operation, in the words of kube-apiserver.
fn description(verb: Verb, kind: &str, subresource: &str) -> String {
    let specified = match subresource {
        "" => format!("the specified {kind}"),
        _ => format!("{subresource} of the specified {kind}"),
    };
    let article = article(kind);
    match verb {
        Verb::Get => format!("read {specified}"),
        Verb::Update => format!("replace {specified}"),
        Verb::Patch => format!("partially update {specified}"),
        Verb::Create if subresource.is_empty() => format!("create {article}{kind}"),
        Verb::Create => format!("create {subresource} of {article}{kind}"),
        Verb::Delete => format!("delete {article}{kind}"),
        Verb::DeleteCollection => format!("delete collection of {kind}"),
        Verb::List => format!("list or watch objects of kind {kind}"),
        Verb::WatchList => format!(
            "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter \
             with a list operation instead."
        ),
        Verb::Watch => format!(
            "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter \
             with a list operation instead, filtered to a single item with the 'fieldSelector' \
             parameter."
        ),
    }
}

/// Returns the article of a kind, with a space. Plurals have none.
fn article(kind: &str) -> &'static str {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return "";
    }
    let vowels = ['a', 'e', 'i', 'o', 'u'];
    match kind.to_lowercase().starts_with(vowels) {
        true => "an ",
        false => "a ",
    }
}
