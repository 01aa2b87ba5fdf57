//! The capabilities of a path of the API, as in Kubernetes' package `rest`.
//!
//! This folder owns the traits between handlers and storages. A [`RestStorage`] serves each path,
//! found by group, version, resource and subresource ([`super::Catalog::endpoint`]). Each
//! capability is a separate trait, which takes a request and returns an object, a list, a watch or
//! a `Status`. Handlers know only these traits. Routes, discovery and 405 follow from the
//! capabilities that a storage has.
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
pub use connection::simulated;
pub use connection::{
    CommandStreams, ConnectionStore, KubeletRequest, NodeAddresses, ProxiedServer, Upstreams,
};
pub use eviction::EvictionStore;
pub use subresource::SubresourceStore;

/// The result of a capability, or the Status that refuses the request.
pub type Answering<'a, T> = BoxFuture<'a, Result<T, Box<Status>>>;

/// The storage of a path.
pub trait RestStorage: Send + Sync {
    /// Returns the resource of the path. For a subresource it is the parent's resource.
    fn resource(&self) -> &Arc<ResourceDefinition>;

    /// Returns the subresource of the path.
    fn subresource(&self) -> Option<&str> {
        None
    }

    /// Returns the kind of request bodies.
    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        self.resource()
    }

    /// Returns the kind of responses.
    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        self.resource()
    }

    /// Returns whether its objects can be shown as Tables. Paths that can only be created at have
    /// none.
    fn has_tables(&self) -> bool {
        self.getter().is_some()
    }

    /// Returns the `storageVersionHash` of discovery, if the path stores objects (API-26).
    fn storage_version_hash(&self) -> Option<String> {
        None
    }

    /// Returns the size of an object in bytes of JSON, or 0 if it cannot be known without waiting.
    fn held_bytes(&self, _at: NamespacedName<'_>) -> usize {
        0
    }

    /// GET of an object.
    fn getter(&self) -> Option<&dyn Getter> {
        None
    }

    /// GET of an object as it was at an earlier revision.
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

    /// Connections to something that is not an object: logs, streams, proxies.
    fn connecter(&self) -> Option<&dyn Connecter> {
        None
    }
}

/// Reads an object.
pub trait Getter: Send + Sync {
    /// Returns the object, not older than this version (API-121).
    ///
    /// # Errors
    /// 404 if it is absent, 504 for a version in the future.
    fn get<'a>(
        &'a self,
        at: NamespacedName<'a>,
        resource_version: &'a str,
    ) -> Answering<'a, Arc<CachedObject>>;
}

/// Reads the history of an object. Kubernetes has no such capability.
pub trait Historian: Send + Sync {
    /// Returns the object as it was at a revision.
    ///
    /// # Errors
    /// 404 if it was absent then, 410 for a compacted revision, 504 for one in the future.
    fn get_at<'a>(
        &'a self,
        at: NamespacedName<'a>,
        revision: Revision,
    ) -> Answering<'a, Arc<CachedObject>>;

    /// Returns a part of its history, by default from the beginning of the retained history.
    ///
    /// # Errors
    /// 410 if the history was compacted while it was read.
    fn history<'a>(
        &'a self,
        at: NamespacedName<'a>,
        span: Option<HistorySpan>,
    ) -> Answering<'a, ObjectHistory>;
}

/// Lists objects.
pub trait Lister: Send + Sync {
    /// Returns a page of the selected objects, of one namespace or all (storage.md 2).
    ///
    /// # Errors
    /// 400 for an invalid version or token, 410 for compacted state, 429 while a cache fills.
    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
        selection: Arc<Selection>,
    ) -> Answering<'a, ObjectList>;

    /// Returns the count and sizes of the objects that such a list reads, if they are known without
    /// waiting (RG-14).
    fn known_stats(&self, _namespace: Option<&str>, _selection: &Selection) -> Option<Stats> {
        None
    }
}

/// Watches objects.
pub trait Watcher: Send + Sync {
    /// Opens a watch on the calling thread. Call [`ListOptions::default_watch`] on the options
    /// first.
    ///
    /// # Errors
    /// A [`WatchRefusal`].
    fn watch<'a>(
        &'a self,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
        selection: Arc<Selection>,
        audience: Audience,
    ) -> LocalBoxFuture<'a, Result<RunningWatch, WatchRefusal>>;
}

/// The result of a create.
pub enum Created {
    /// An object of [`RestStorage::response_kind`].
    Object(Arc<CachedObject>),
    /// A Status of success.
    Status(Box<Status>),
}

/// Creates objects with the name in the body.
pub trait Creater: Send + Sync {
    /// Creates an object of [`RestStorage::request_kind`].
    ///
    /// # Errors
    /// 409 for an existing name, 422 for an invalid object, and refusals of admission (http.md
    /// 3.2).
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
    /// Creates an object of [`RestStorage::request_kind`] for the object in the path.
    ///
    /// # Errors
    /// Those of [`Creater::create`], and 404 if the object in the path does not exist.
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
    /// Updates the current object with the source (API-151).
    ///
    /// # Errors
    /// 404 if the object is absent and cannot be created this way, 409 for a stale version or
    /// another uid, 422 for an invalid object or a patch that cannot be applied, and refusals of
    /// admission (http.md 3.3, 4.1).
    fn update<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        source: UpdateSource,
        options: &'a WriteOptions,
    ) -> Answering<'a, Written>;
}

/// Deletes objects, at once or after their finalizers and grace periods.
pub trait Deleter: Send + Sync {
    /// Checks a DELETE before any object is read. `name` is `None` for a collection.
    ///
    /// # Errors
    /// 403 for an object that cannot be deleted on its own (API-109).
    fn begin(
        &self,
        _context: &RequestContext,
        _name: Option<&str>,
        _options: &DeleteOptions,
    ) -> Result<(), Box<Status>> {
        Ok(())
    }

    /// Removes an object or marks it for deletion.
    ///
    /// # Errors
    /// 404 if it is absent, 409 for failed preconditions, and refusals of admission (http.md 3.4).
    fn delete<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        options: &'a DeleteOptions,
    ) -> Answering<'a, Deletion>;
}

/// Deletes the objects of a list one by one (http.md 3.5).
pub trait CollectionDeleter: Lister + Deleter {
    /// Returns the number of objects that are deleted concurrently, at least one (RG-12).
    fn workers(&self) -> usize;
}

/// Where a connection leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connected {
    /// To nothing. The response is empty.
    Nothing,
    /// To the log of a container.
    Log {
        /// The request to the kubelet.
        request: KubeletRequest,
        /// Whether the log is sent as it grows.
        follow: bool,
        /// Whether the certificate of the kubelet is not checked.
        skips_verification: bool,
    },
    /// To a stream of the kubelet, by an upgrade.
    Stream {
        /// The request to the kubelet.
        request: KubeletRequest,
        /// The streams of a command.
        streams: CommandStreams,
    },
    /// To a server that gets the request itself.
    Proxy {
        /// The server.
        server: ProxiedServer,
        /// The path there, decoded, if admission has changed that of the URL.
        path: Option<String>,
    },
}

/// Connects to what an object represents.
pub trait Connecter: Send + Sync {
    /// Returns the supported methods.
    fn methods(&self) -> &[Method];

    /// Returns the kind whose fields are query parameters, if there is one.
    fn options(&self) -> Option<&ResourceDefinition> {
        None
    }

    /// Returns whether paths below the subresource are served.
    fn takes_paths(&self) -> bool {
        false
    }

    /// Checks a request and says where it leads. `path` is the rest of the URL after the
    /// subresource, without slashes at its ends.
    ///
    /// # Errors
    /// 404 if the object does not exist, and other reasons to refuse the connection.
    fn connect<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        path: &'a str,
        query: &'a Query,
    ) -> Answering<'a, Connected>;
}

impl dyn RestStorage + '_ {
    /// Returns whether requests with this verb are served.
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

    /// Returns the verbs for discovery, sorted. A connection has the verbs of its methods.
    pub fn verbs(&self) -> Vec<Verb> {
        let methods = self.connecter().map_or(&[][..], Connecter::methods);
        // linear: there are few methods.
        let named = |verb| methods.iter().any(|method| of_method(method) == Some(verb));
        let served = |verb: &Verb| self.serves(*verb) || named(*verb);
        Verb::ALL.into_iter().filter(served).collect()
    }
}

/// Returns the verb of a method on an object's path.
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

/// Returns the storages of a stored resource's paths: its own, and one for each subresource.
pub fn endpoints(store: &Arc<super::RegistryStore>) -> Vec<Arc<dyn RestStorage>> {
    let mut endpoints: Vec<Arc<dyn RestStorage>> = vec![Arc::clone(store) as _];
    for subresource in &store.definition().subresources {
        let storage = SubresourceStore::new(Arc::clone(store), subresource.clone());
        endpoints.push(Arc::new(storage));
    }
    endpoints
}

/// Returns the storages of paths that do not belong to a stored resource, for a daemon with these
/// stores. Nodes are reached at addresses of the preferred types.
pub fn unstored(
    stores: &[Arc<super::RegistryStore>],
    preferred: Arc<[String]>,
) -> Vec<Arc<dyn RestStorage>> {
    let find = |group, plural| {
        // linear: called for a few resources, at the start.
        let found = stores
            .iter()
            .find(|store| store.definition().is(group, plural));
        found.cloned()
    };
    let nodes = NodeAddresses::new(find("", "nodes"), preferred);
    let upstreams = Upstreams::new(nodes, find("", "endpoints"), find("", "pods"));
    let paths_of = |store| ConnectionStore::paths(store, &upstreams);
    let connections = stores.iter().flat_map(paths_of);
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
