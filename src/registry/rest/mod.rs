//! The capabilities of a path of the API, as in Kubernetes' package `rest`.
//!
//! This folder owns the traits between handlers and storages. A [`RestStorage`] serves each path,
//! found by group, version, resource and subresource ([`super::Catalog::endpoint`]). Each
//! capability is a separate trait. Requests enter through these traits, objects, lists, watches or
//! a `Status` leave. Handlers know only these traits. Routes, discovery and 405 follow from the
//! available traits.
//!
//! A plain resource is a [`super::RegistryStore`] ([`plain`]). A subresource that is part of its
//! object, or shows it as a Scale, is a [`SubresourceStore`]. Everything that is not a stored
//! object, such as a review or a connection to a pod, implements the traits itself. This folder
//! must not know routes or wire encodings.

mod binding;
mod connection;
mod eviction;
mod plain;
mod subresource;

use std::sync::Arc;

use actors::engine::Revision;
use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::future::{BoxFuture, LocalBoxFuture};
use http::Method;

use super::context::RequestContext;
use super::namespaced_name::NamespacedName;
use super::store::{Audience, Deletion, UpdateSource, WatchRefusal, Written};
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, ListOptions, Query, WriteOptions};
use crate::api::resource::{ResourceDefinition, Verb};
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::kinds::definitions;
use crate::storage::{HistorySpan, ObjectHistory, ObjectList, RunningWatch, Stats};

pub use binding::BindingStore;
pub use connection::ConnectionStore;
pub use eviction::EvictionStore;
pub use subresource::SubresourceStore;

/// The answer of a capability, or the refusal for the client.
pub type Answering<'a, T> = BoxFuture<'a, Result<T, Box<Status>>>;

/// The storage of a path.
pub trait RestStorage: Send + Sync {
    /// The resource of the path. For a subresource it is the parent's resource.
    fn resource(&self) -> &Arc<ResourceDefinition>;

    /// The subresource of the path.
    fn subresource(&self) -> Option<&str> {
        None
    }

    /// The kind of request bodies.
    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        self.resource()
    }

    /// The kind of answers.
    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        self.resource()
    }

    /// Whether its objects can be Tables. What can only be created has none.
    fn has_tables(&self) -> bool {
        self.getter().is_some()
    }

    /// `storageVersionHash` of discovery, if the path stores objects (API-26).
    fn storage_version_hash(&self) -> Option<String> {
        None
    }

    /// The size of an object in bytes of JSON if it is known without waiting, else 0.
    fn held_bytes(&self, _at: NamespacedName<'_>) -> usize {
        0
    }

    /// GET of an object.
    fn getter(&self) -> Option<&dyn Getter> {
        None
    }

    /// GET of an object as it was.
    fn historian(&self) -> Option<&dyn Historian> {
        None
    }

    /// GET of a collection.
    fn lister(&self) -> Option<&dyn Lister> {
        None
    }

    /// GET of a collection with `watch=true`.
    fn watcher(&self) -> Option<&dyn Watcher> {
        None
    }

    /// POST on a collection.
    fn creater(&self) -> Option<&dyn Creater> {
        None
    }

    /// POST on an object's path, as on `pods/{name}/eviction`.
    fn named_creater(&self) -> Option<&dyn NamedCreater> {
        None
    }

    /// PUT.
    fn updater(&self) -> Option<&dyn Updater> {
        None
    }

    /// PATCH.
    fn patcher(&self) -> Option<&dyn Updater> {
        None
    }

    /// DELETE of an object.
    fn deleter(&self) -> Option<&dyn Deleter> {
        None
    }

    /// DELETE of a collection.
    fn collection_deleter(&self) -> Option<&dyn CollectionDeleter> {
        None
    }

    /// Connections to things that are not objects: logs, streams, proxies.
    fn connecter(&self) -> Option<&dyn Connecter> {
        None
    }
}

/// Reads an object.
pub trait Getter: Send + Sync {
    /// The object, not older than this version (API-121).
    ///
    /// # Errors
    /// 404 when it is absent, 504 for a version in the future.
    fn get<'a>(
        &'a self,
        at: NamespacedName<'a>,
        resource_version: &'a str,
    ) -> Answering<'a, Arc<CachedObject>>;
}

/// Reads the past of an object. Kubernetes has no such capability.
pub trait Historian: Send + Sync {
    /// The object as it was at a revision.
    ///
    /// # Errors
    /// 404 when it was absent then, 410 for a compacted revision, 504 for one in the future.
    fn get_at<'a>(
        &'a self,
        at: NamespacedName<'a>,
        revision: Revision,
    ) -> Answering<'a, Arc<CachedObject>>;

    /// A piece of what became of it, from the beginning of the history that is kept if no part of
    /// it is named.
    ///
    /// # Errors
    /// 410 when history was compacted while it was read.
    fn history<'a>(
        &'a self,
        at: NamespacedName<'a>,
        span: Option<HistorySpan>,
    ) -> Answering<'a, ObjectHistory>;
}

/// Lists objects.
pub trait Lister: Send + Sync {
    /// A page of the selected objects, of one namespace or all (storage.md 2).
    ///
    /// # Errors
    /// 400 for an invalid version or token, 410 for compacted state, 429 while a cache fills.
    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
        selection: Arc<Selection>,
    ) -> Answering<'a, ObjectList>;

    /// Count and sizes of what such a list looks at, if they are known without waiting (RG-14).
    fn known_stats(&self, _namespace: Option<&str>, _selection: &Selection) -> Option<Stats> {
        None
    }
}

/// Watches objects.
pub trait Watcher: Send + Sync {
    /// Opens a watch on the calling thread. Apply [`ListOptions::default_watch`] to the options
    /// first.
    ///
    /// # Errors
    /// A [`WatchRefusal`], which decides how the client is told.
    fn watch<'a>(
        &'a self,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
        selection: Arc<Selection>,
        audience: Audience,
    ) -> LocalBoxFuture<'a, Result<RunningWatch, WatchRefusal>>;
}

/// What a creation answers.
pub enum Created {
    /// An object of [`RestStorage::response_kind`].
    Object(Arc<CachedObject>),
    /// That it succeeded.
    Status(Box<Status>),
}

/// Creates objects with the name in the body.
pub trait Creater: Send + Sync {
    /// Creates an object of [`RestStorage::request_kind`].
    ///
    /// # Errors
    /// 409 for an existing name, 422 for an invalid object, refusals of admission (http.md 3.2).
    fn create<'a>(
        &'a self,
        context: &'a RequestContext,
        namespace: Option<&'a str>,
        object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Created>;
}

/// Creates something for the object in the path.
pub trait NamedCreater: Send + Sync {
    /// As [`Creater::create`].
    ///
    /// # Errors
    /// As [`Creater::create`], and 404 when there is no such object.
    fn create_named<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Created>;
}

/// Changes objects: by another object (PUT) or by a patch (PATCH).
pub trait Updater: Send + Sync {
    /// Stores what the source makes of the current object (API-151).
    ///
    /// # Errors
    /// 404 when it is absent and can't be created this way, 409 for a stale version or another uid,
    /// 422 for an invalid object or a patch that can't be applied, refusals of admission (http.md
    /// 3.3, 4.1).
    fn update<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        source: UpdateSource,
        options: &'a WriteOptions,
    ) -> Answering<'a, Written>;
}

/// Deletes objects, at once or later.
pub trait Deleter: Send + Sync {
    /// What a request to delete meets first, whether there are objects or not. It names one, or it
    /// is about a collection.
    ///
    /// # Errors
    /// 403 for an object that can't be deleted by itself (API-109).
    fn begin(
        &self,
        _context: &RequestContext,
        _name: Option<&str>,
        _options: &DeleteOptions,
    ) -> Result<(), Box<Status>> {
        Ok(())
    }

    /// Removes an object or marks it for removal.
    ///
    /// # Errors
    /// 404 when it is absent, 409 for preconditions, refusals of admission (http.md 3.4).
    fn delete<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        options: &'a DeleteOptions,
    ) -> Answering<'a, Deletion>;
}

/// Deletes the objects of a list, each by itself (http.md 3.5).
pub trait CollectionDeleter: Lister + Deleter {
    /// How many objects are deleted at a time, at least one (RG-12).
    fn workers(&self) -> usize;
}

/// The response of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// The media type.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
}

/// Connects to the thing that an object represents.
pub trait Connecter: Send + Sync {
    /// The supported methods.
    fn methods(&self) -> &[Method];

    /// The kind whose fields are the parameters of the query, if there is one.
    fn options(&self) -> Option<&ResourceDefinition> {
        None
    }

    /// Whether paths below the subresource are served.
    fn takes_paths(&self) -> bool {
        false
    }

    /// Connects. `path` is the text after the subresource, without slashes around it. `None` if
    /// there is nothing to say.
    ///
    /// # Errors
    /// 404 when there is no such object, and any failure of the connection.
    fn connect<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        path: &'a str,
        query: &'a Query,
    ) -> Answering<'a, Option<Connected>>;
}

impl dyn RestStorage + '_ {
    /// Whether requests with this verb are served.
    pub fn serves(&self, verb: Verb) -> bool {
        match verb {
            Verb::Connect => self.connecter().is_some(),
            Verb::Create => self.creater().is_some() || self.named_creater().is_some(),
            Verb::Delete => self.deleter().is_some(),
            Verb::DeleteCollection => self.collection_deleter().is_some(),
            Verb::Get => self.getter().is_some(),
            Verb::List => self.lister().is_some(),
            Verb::Patch => self.patcher().is_some(),
            Verb::Update => self.updater().is_some(),
            Verb::Watch => self.watcher().is_some(),
        }
    }

    /// The verbs in discovery, sorted. A connection is listed with the verbs of its methods.
    pub fn verbs(&self) -> Vec<Verb> {
        let methods = self.connecter().map_or(&[][..], Connecter::methods);
        // linear: there are few methods.
        let named = |verb| methods.iter().any(|method| of_method(method) == Some(verb));
        let served = |verb: &Verb| self.serves(*verb) || named(*verb);
        Verb::ALL.into_iter().filter(served).collect()
    }
}

/// The verb of a method on an object's path.
pub fn of_method(method: &Method) -> Option<Verb> {
    Some(match *method {
        Method::GET => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return None,
    })
}

/// The storages of a stored resource's paths: its own, and one for each subresource.
pub fn endpoints(store: &Arc<super::RegistryStore>) -> Vec<Arc<dyn RestStorage>> {
    let mut endpoints: Vec<Arc<dyn RestStorage>> = vec![Arc::clone(store) as _];
    for subresource in &store.definition().subresources {
        let storage = SubresourceStore::new(Arc::clone(store), subresource.clone());
        endpoints.push(Arc::new(storage));
    }
    endpoints
}

/// The paths that do not belong to a stored resource, for a daemon with these stores.
pub fn unstored(stores: &[Arc<super::RegistryStore>]) -> Vec<Arc<dyn RestStorage>> {
    let find = |group, plural| {
        // linear: asked for a few resources, at the start.
        let found = stores
            .iter()
            .find(|store| store.definition().is(group, plural));
        found.cloned()
    };
    let connections = stores.iter().flat_map(ConnectionStore::paths);
    let mut paths: Vec<Arc<dyn RestStorage>> =
        connections.map(|path| Arc::new(path) as _).collect();
    if let Some(pods) = find("", "pods") {
        let budgets = find("policy", "poddisruptionbudgets");
        let bindings = BindingStore::paths(&pods, definitions::core::bindings());
        paths.extend(bindings.map(|path| Arc::new(path) as Arc<dyn RestStorage>));
        let kind = definitions::policy::evictions();
        paths.push(Arc::new(EvictionStore::new(pods, budgets, kind)));
    }
    paths
}
