//! The whole URL space on one page: what there is, and what is said where nothing is (API-10,
//! API-12, API-128).

use std::sync::Arc;

use http::Method;
use smol_str::SmolStr;

use super::health::Root;
use super::heavy::HEAVY_BYTES;
use super::request_info::RequestInfo;
use crate::api::resource::{Subresource, Verb};
use crate::registry::{Catalog, RegistryStore};

/// Where a request goes.
pub enum Route {
    /// `/`: the list of paths (API-13).
    Index,
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz`, and a check of theirs by name.
    Health(Root, String),
    /// `/metrics`.
    Metrics,
    /// `/api`.
    LegacyVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/{version}`, `/apis/{group}/{version}`.
    Resources {
        /// Group, empty for the core group.
        group: String,
        /// Version.
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
    /// Objects.
    Resource(Target),
}

/// Objects that a request is about, and what it does with them.
#[derive(Clone)]
pub struct Target {
    /// Their store.
    pub store: Arc<RegistryStore>,
    /// Namespace of a namespaced resource, when the path has one.
    pub namespace: Option<String>,
    /// Name, when the path has one.
    pub name: String,
    /// Subresource.
    pub subresource: Option<SmolStr>,
    /// What to do.
    pub verb: Verb,
}

impl Target {
    /// The object of an update, as the registry names it.
    pub fn place(&self) -> crate::registry::store::Target<'_> {
        crate::registry::store::Target {
            namespace: self.namespace.as_deref(),
            name: &self.name,
            subresource: self.subresource.as_deref(),
        }
    }

    /// Whether the object is so large that a change of it would hold up an HTTP thread.
    pub fn is_heavy(&self) -> bool {
        let held = self.store.held_bytes(self.namespace.as_deref(), &self.name);
        held > HEAVY_BYTES
    }
}

/// A request that goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// No such path: text.
    Page,
    /// No such resource in a group that is served: a Status.
    Resource,
    /// Not with this method: a Status.
    Method,
}

/// Finds the route of a request.
///
/// # Errors
/// [`Miss`]
pub fn route(method: &Method, info: &RequestInfo, catalog: &Catalog) -> Result<Route, Miss> {
    if info.is_resource {
        return resource(method, info, catalog).map(Route::Resource);
    }
    let path = info.path.trim_matches('/');
    let is_exact = info.path.len() <= path.len() + 1 && info.path.starts_with('/');
    // Only discovery is found with a slash behind it too.
    if !is_exact && !matches!(first_of(path), "api" | "apis" | "version") {
        return Err(Miss::Page);
    }
    let parts: Vec<&str> = path.split('/').collect();
    if let Some((root, check)) = Root::of_path(path) {
        return probed(method, Route::Health(root, check.to_owned()));
    }
    match parts.as_slice() {
        [""] | ["index.html"] => probed(method, Route::Index),
        ["metrics"] => probed(method, Route::Metrics),
        ["version"] => read(method, Route::Version),
        ["api"] => read(method, Route::LegacyVersions),
        ["apis"] => read(method, Route::Groups),
        ["apis", group] if catalog.has_group(group) => {
            read(method, Route::Group((*group).to_owned()))
        }
        ["api", version] => version_of(method, "", version, catalog),
        ["apis", group, version] => version_of(method, group, version, catalog),
        ["openapi", "v2"] => read(method, Route::OpenApiV2),
        ["openapi", "v3"] => read(method, Route::OpenApiV3Index),
        ["openapi", "v3", ..] => {
            let key = path.trim_start_matches("openapi/v3/").to_owned();
            read(method, Route::OpenApiV3(key))
        }
        ["taffrail", "v1", "compact"] if method == Method::POST => Ok(Route::Compact),
        ["taffrail", "v1", "compact"] => Err(Miss::Method),
        ["taffrail", "v1", "storage", "rewrite"] if method == Method::POST => {
            Ok(Route::StorageRewrite)
        }
        ["taffrail", "v1", "storage", "rewrite"] => Err(Miss::Method),
        _ => Err(Miss::Page),
    }
}

fn first_of(path: &str) -> &str {
    path.split_once('/').map_or(path, |(first, _)| first)
}

/// A path that probes ask for: HEAD works too (API-128).
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
    let store = catalog
        .find(&info.group, &info.version, &info.resource)
        .filter(|store| is_reachable(info, store))
        .ok_or(Miss::Resource)?;
    let subresource = subresource(info, &store)?;
    let verb = verb(method, info).ok_or(Miss::Method)?;
    let definition = store.definition();
    let verbs = subresource.map_or(&definition.verbs, |part| &part.verbs);
    // All namespaces at once can be read, not written (API-10).
    let is_everywhere = definition.is_namespaced() && !info.is_below_namespace;
    let writes = matches!(verb, Verb::Create | Verb::DeleteCollection);
    if !verbs.contains(&verb) || (is_everywhere && writes) {
        return Err(Miss::Method);
    }
    Ok(Target {
        namespace: info.is_below_namespace.then(|| info.namespace.clone()),
        name: if info.is_named {
            info.name.clone()
        } else {
            String::new()
        },
        subresource: subresource.map(|part| SmolStr::new(&part.name)),
        verb,
        store,
    })
}

/// Whether a path of this shape can lead to objects of the resource.
fn is_reachable(info: &RequestInfo, store: &RegistryStore) -> bool {
    let is_namespaced = store.definition().is_namespaced();
    let names_one_without_namespace = is_namespaced && info.is_named && !info.is_below_namespace;
    info.verb != "proxy"
        && info.rest.is_empty()
        && (is_namespaced || !info.is_below_namespace)
        && !names_one_without_namespace
}

fn subresource<'s>(
    info: &RequestInfo,
    store: &'s RegistryStore,
) -> Result<Option<&'s Subresource>, Miss> {
    if info.subresource.is_empty() {
        return Ok(None);
    }
    // A subresource can't be watched, and so has no old watch path.
    match store.definition().subresource(&info.subresource) {
        Some(subresource) if !info.is_watch_path => Ok(Some(subresource)),
        _ => Err(Miss::Resource),
    }
}

fn verb(method: &Method, info: &RequestInfo) -> Option<Verb> {
    if info.is_watch_path {
        return (method == Method::GET).then_some(Verb::Watch);
    }
    Some(match (method, info.is_named) {
        (&Method::GET, true) => Verb::Get,
        (&Method::GET, false) if info.verb == "watch" => Verb::Watch,
        (&Method::GET, false) => Verb::List,
        (&Method::POST, false) => Verb::Create,
        (&Method::PUT, true) => Verb::Update,
        (&Method::PATCH, true) => Verb::Patch,
        (&Method::DELETE, true) => Verb::Delete,
        (&Method::DELETE, false) => Verb::DeleteCollection,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
