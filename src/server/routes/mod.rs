//! The URL space: all paths that exist, and the errors for others (API-10, API-12, API-128).
//!
//! This folder owns the mapping from requests to handlers. It takes a [`RequestInfo`] and the
//! catalog, and returns a [`Route`] or a [`Miss`]. It must not know bodies, users or how a verb is
//! carried out.

use std::sync::Arc;

use http::Method;

use super::health::Root;
use crate::api::large::LARGE_BYTES;
use crate::api::request_info::RequestInfo;
use crate::api::resource::Verb;
use crate::registry::rest::of_method;
use crate::registry::{Catalog, NamespacedName, RestStorage};

/// The destination of a request.
pub enum Route {
    /// `/`: the list of paths (API-13).
    Index,
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz`, or one of their checks by name.
    Health(Root, String),
    /// `/metrics`.
    Metrics,
    /// `/metrics/slis`.
    Slis,
    /// `/statusz`.
    Statusz,
    /// `/flagz`.
    Flagz,
    /// `/api`.
    LegacyVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/{version}`, `/apis/{group}/{version}`.
    Resources {
        /// The group, empty for the core group.
        group: String,
        /// The version.
        version: String,
    },
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`: the list of documents.
    OpenApiV3Index,
    /// `/openapi/v3/{group version}`.
    OpenApiV3(String),
    /// `/taffrail/v1/compact`.
    Compact,
    /// `/taffrail/v1/storage/rewrite`.
    StorageRewrite,
    /// `/taffrail/v1/backup`.
    Backup,
    /// `/taffrail/v1/inspect`.
    Inspect,
    /// `/taffrail/v1/history/{path of an object}`, with the path.
    History(String),
    /// `/taffrail/v1/revision`.
    Revision,
    /// `/.well-known/openid-configuration`.
    IssuerConfiguration,
    /// `/openid/v1/jwks`.
    IssuerKeys,
    /// `/taffrail/v1/token/rotate`.
    RotateToken,
    /// A path below `/taffrail/v1/test`. Only a server for tests has such paths.
    Test(TestPath),
    /// Objects.
    Resource(Target),
}

/// A path below `/taffrail/v1/test`, with its method. The handler knows which ones there are, so
/// that a server without these paths answers as for any unknown path.
pub struct TestPath {
    /// The method.
    pub method: Method,
    /// The rest of the path, without a slash at its beginning.
    pub path: String,
}

/// The object or collection of a request, and the verb.
#[derive(Clone)]
pub struct Target {
    /// The storage of the path.
    pub storage: Arc<dyn RestStorage>,
    /// The namespace, if the path has one.
    pub namespace: Option<String>,
    /// The name, if the path has one.
    pub name: String,
    /// The path after a connect subresource.
    pub path: String,
    /// The verb.
    pub verb: Verb,
}

impl Target {
    /// Returns the namespace and name, as the registry takes them.
    pub fn object(&self) -> NamespacedName<'_> {
        NamespacedName {
            namespace: self.namespace.as_deref(),
            name: &self.name,
        }
    }

    /// Whether the object is so large that changing it would block an HTTP thread.
    pub fn is_large(&self) -> bool {
        self.storage.held_bytes(self.object()) > LARGE_BYTES
    }
}

/// The reason why a request has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The path does not exist. The response is text.
    Page,
    /// The OpenAPI document does not exist. The response has no body.
    Document,
    /// The group is served but does not have the resource. The response is a Status.
    Resource,
    /// The path does not support the method. The response is a Status.
    Method,
}

/// Finds the route of a request.
///
/// # Errors
/// [`Miss`]
pub fn route(method: &Method, info: &RequestInfo, catalog: &Catalog) -> Result<Route, Miss> {
    if info.path.starts_with("//") {
        return Err(Miss::Page);
    }
    if info.is_resource {
        return resource(method, info, catalog).map(Route::Resource);
    }
    let path = info.path.trim_matches('/');
    let is_exact = info.path.len() <= path.len() + 1 && info.path.starts_with('/');
    // Only discovery paths may end with a slash.
    if !is_exact && !matches!(first_of(path), "api" | "apis" | "version") {
        return Err(Miss::Page);
    }
    let parts: Vec<&str> = path.split('/').collect();
    if let Some((root, check)) = Root::of_path(path) {
        return Ok(Route::Health(root, check.to_owned()));
    }
    match parts.as_slice() {
        [""] | ["index.html"] => Ok(Route::Index),
        ["metrics"] => probed(method, Route::Metrics),
        ["metrics", "slis"] => probed(method, Route::Slis),
        ["statusz"] => probed(method, Route::Statusz),
        ["flagz"] => probed(method, Route::Flagz),
        ["version"] => read(method, Route::Version),
        ["api"] => read(method, Route::LegacyVersions),
        ["apis"] | ["apis", _] if info.path.ends_with("//") => Err(Miss::Page),
        ["apis"] => read(method, Route::Groups),
        ["apis", group] if catalog.has_group(group) => {
            read(method, Route::Group((*group).to_owned()))
        }
        ["api", version] => version_of(method, "", version, catalog),
        ["apis", group, version] => version_of(method, group, version, catalog),
        [".well-known", "openid-configuration"] => read(method, Route::IssuerConfiguration),
        ["openid", "v1", "jwks"] => read(method, Route::IssuerKeys),
        ["openapi", "v2"] => Ok(Route::OpenApiV2),
        ["openapi", "v3"] => Ok(Route::OpenApiV3Index),
        ["openapi", "v3", ..] => {
            let key = path.trim_start_matches("openapi/v3/").to_owned();
            Ok(Route::OpenApiV3(key))
        }
        ["taffrail", "v1", "compact"] if method == Method::POST => Ok(Route::Compact),
        ["taffrail", "v1", "compact"] => Err(Miss::Method),
        ["taffrail", "v1", "storage", "rewrite"] if method == Method::POST => {
            Ok(Route::StorageRewrite)
        }
        ["taffrail", "v1", "storage", "rewrite"] => Err(Miss::Method),
        ["taffrail", "v1", "history", ..] => {
            let object = path.trim_start_matches("taffrail/v1/history");
            read(method, Route::History(object.to_owned()))
        }
        ["taffrail", "v1", "inspect"] => read(method, Route::Inspect),
        ["taffrail", "v1", "revision"] => read(method, Route::Revision),
        ["taffrail", "v1", "backup"] => read(method, Route::Backup),
        ["taffrail", "v1", "token", "rotate"] if method == Method::POST => Ok(Route::RotateToken),
        ["taffrail", "v1", "token", "rotate"] => Err(Miss::Method),
        ["taffrail", "v1", "test", rest @ ..] => Ok(Route::Test(TestPath {
            method: method.clone(),
            path: rest.join("/"),
        })),
        _ => Err(Miss::Page),
    }
}

/// Returns the route of `/apis/{group}`, if the group is one of those that `is_listed` knows.
pub fn listed_group(
    method: &Method,
    info: &RequestInfo,
    is_listed: impl Fn(&str) -> bool,
) -> Option<Result<Route, Miss>> {
    let group = info.path.strip_prefix("/apis/")?;
    let group = group.strip_suffix('/').unwrap_or(group);
    let is_one = !group.is_empty() && !group.contains('/') && is_listed(group);
    is_one.then(|| read(method, Route::Group(group.to_owned())))
}

/// Returns the group of a path below `/apis`.
pub fn group_of(info: &RequestInfo) -> Option<&str> {
    let group = info.path.strip_prefix("/apis/")?.split('/').next();
    group.filter(|group| !group.is_empty())
}

fn first_of(path: &str) -> &str {
    path.split_once('/').map_or(path, |(first, _)| first)
}

/// Returns the route of a path that probes use, which also allows HEAD (API-128).
fn probed(method: &Method, route: Route) -> Result<Route, Miss> {
    if method == Method::HEAD {
        return Ok(route);
    }
    read(method, route)
}

fn read(method: &Method, route: Route) -> Result<Route, Miss> {
    if method == Method::GET {
        Ok(route)
    } else {
        Err(Miss::Method)
    }
}

fn version_of(
    method: &Method,
    group: &str,
    version: &str,
    catalog: &Catalog,
) -> Result<Route, Miss> {
    if !catalog.has_group(group) {
        return Err(Miss::Page);
    }
    if !catalog.has_version(group, version) {
        return Err(Miss::Resource);
    }
    let (group, version) = (group.to_owned(), version.to_owned());
    read(method, Route::Resources { group, version })
}

fn resource(method: &Method, info: &RequestInfo, catalog: &Catalog) -> Result<Target, Miss> {
    if !catalog.has_group(&info.group) {
        return Err(Miss::Page);
    }
    let RequestInfo {
        group,
        version,
        resource,
        subresource,
        ..
    } = info;
    let storage = catalog
        .endpoint(group, version, resource, subresource)
        .filter(|storage| is_reachable(info, &***storage) && exists(info, &***storage))
        .ok_or(Miss::Resource)?;
    let verb = verb(method, info, &**storage).ok_or(Miss::Method)?;
    // kube-apiserver routes only reads on paths for all namespaces (API-10).
    let is_everywhere = storage.resource().is_namespaced() && !info.is_below_namespace;
    let writes = matches!(verb, Verb::Create | Verb::DeleteCollection);
    if is_everywhere && writes {
        return Err(Miss::Method);
    }
    Ok(Target {
        storage: Arc::clone(storage),
        namespace: info.is_below_namespace.then(|| info.namespace.clone()),
        name: if info.is_named {
            info.name.clone()
        } else {
            String::new()
        },
        path: match info.path.ends_with('/') {
            true => format!("{}/", info.rest.join("/")),
            false => info.rest.join("/"),
        },
        verb,
    })
}

/// Whether a path is about one object. The name before a subresource may be empty; its storage then
/// refuses the request.
fn is_of_one(info: &RequestInfo) -> bool {
    info.is_named || !info.subresource.is_empty()
}

/// Whether a path of this form can lead to the storage.
fn is_reachable(info: &RequestInfo, storage: &dyn RestStorage) -> bool {
    let is_namespaced = storage.resource().is_namespaced();
    let names_one_without_namespace = is_namespaced && is_of_one(info) && !info.is_below_namespace;
    // Subresources cannot be watched, so they have no deprecated watch path.
    let is_watched_part = info.is_watch_path && storage.subresource().is_some();
    info.verb != "proxy"
        && (info.rest.is_empty() || storage.connecter().is_some())
        && (is_namespaced || !info.is_below_namespace)
        && !names_one_without_namespace
        && !is_watched_part
}

/// Whether any method is served on paths of this form.
fn exists(info: &RequestInfo, storage: &dyn RestStorage) -> bool {
    if storage.connecter().is_some() {
        return true;
    }
    let is_everywhere = storage.resource().is_namespaced() && !info.is_below_namespace;
    match is_of_one(info) {
        _ if info.is_watch_path => storage.watcher().is_some(),
        true => {
            storage.named_creater().is_some()
                || [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete]
                    .into_iter()
                    .any(|verb| storage.serves(verb))
        }
        false if is_everywhere => storage.lister().is_some(),
        false => [Verb::List, Verb::Create, Verb::DeleteCollection]
            .into_iter()
            .any(|verb| storage.serves(verb)),
    }
}

/// Returns the verb of the request, if the storage supports it.
fn verb(method: &Method, info: &RequestInfo, storage: &dyn RestStorage) -> Option<Verb> {
    if let Some(connecter) = storage.connecter() {
        let takes = connecter.methods().contains(method);
        return (takes && is_of_one(info)).then_some(Verb::Connect);
    }
    let (verb, is_served) = match (method, is_of_one(info)) {
        (&Method::GET, _) if info.is_watch_path => (Verb::Watch, storage.watcher().is_some()),
        _ if info.is_watch_path => return None,
        // Without a watcher it becomes a list, whose handler refuses `watch=true` with its own
        // error.
        (&Method::GET, false) if info.verb == "watch" && storage.watcher().is_some() => {
            (Verb::Watch, true)
        }
        (&Method::GET, false) => (Verb::List, storage.lister().is_some()),
        (&Method::POST, false) => (Verb::Create, storage.creater().is_some()),
        (&Method::POST, true) => (Verb::Create, storage.named_creater().is_some()),
        (&Method::DELETE, false) => {
            let deleter = storage.collection_deleter();
            (Verb::DeleteCollection, deleter.is_some())
        }
        (_, false) => return None,
        (method, true) => {
            let verb = of_method(method)?;
            (verb, storage.serves(verb))
        }
    };
    is_served.then_some(verb)
}

#[cfg(test)]
mod tests;
