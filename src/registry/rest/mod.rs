//! What a path of the API can do, as a value: the counterpart of Kubernetes' package `rest`.
//!
//! A [`RestStorage`] stands behind each path, found by group, version, resource and subresource
//! ([`super::Catalog::endpoint`]). It offers what it can do as capabilities, each a trait of its
//! own. Handlers know these traits and nothing else; routes, discovery and 405 follow from which
//! of them are there.
//!
//! A plain resource is a [`super::RegistryStore`] ([`plain`]). A subresource that is a part of its
//! object is a [`SubresourceStore`]. What is no stored object, such as a review or a connection to
//! a pod, implements the traits by itself.

mod plain;
mod subresource;

use std::sync::Arc;

use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::future::{BoxFuture, LocalBoxFuture};
use http::Method;

use super::context::RequestContext;
use super::store::{Audience, Deletion, WatchRefusal, Written};
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, ListOptions, Query, WriteOptions};
use crate::api::patch::Patch;
use crate::api::resource::{ResourceDefinition, Verb};
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::storage::{ObjectList, RunningWatch};

pub use subresource::SubresourceStore;

/// An object by the names in its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespacedName<'n> {
    /// Its namespace; `None` for objects of the cluster.
    pub namespace: Option<&'n str>,
    /// Its name.
    pub name: &'n str,
}

impl<'n> NamespacedName<'n> {
    /// The object of that name in a namespace.
    pub const fn in_namespace(namespace: &'n str, name: &'n str) -> NamespacedName<'n> {
        NamespacedName {
            namespace: Some(namespace),
            name,
        }
    }

    /// The object of the cluster of that name.
    pub const fn in_cluster(name: &'n str) -> NamespacedName<'n> {
        NamespacedName {
            namespace: None,
            name,
        }
    }
}

/// What a capability answers, or the refusal that the client gets.
pub type Answering<'a, T> = BoxFuture<'a, Result<T, Box<Status>>>;

/// What stands behind a path.
pub trait RestStorage: Send + Sync {
    /// The resource of the path; that of the parent for a subresource.
    fn resource(&self) -> &Arc<ResourceDefinition>;

    /// The subresource of the path.
    fn subresource(&self) -> Option<&str> {
        None
    }

    /// The kind that bodies of requests are of.
    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        self.resource()
    }

    /// The kind that answers are of.
    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        self.resource()
    }

    /// `storageVersionHash` of discovery, where objects of the path's own are stored (API-26).
    fn storage_version_hash(&self) -> Option<String> {
        None
    }

    /// How many bytes of JSON an object is, as far as that is known without waiting; else 0.
    fn held_bytes(&self, _at: NamespacedName<'_>) -> usize {
        0
    }

    /// GET of an object.
    fn getter(&self) -> Option<&dyn Getter> {
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
    fn patcher(&self) -> Option<&dyn Patcher> {
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

    /// What is no object: logs, streams, proxies.
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

/// Lists objects.
pub trait Lister: Send + Sync {
    /// A page of the objects that are selected, of one namespace or all (storage.md 2).
    ///
    /// # Errors
    /// 400 for text that is no version or token, 410 for a past that is gone, 429 while a cache
    /// fills.
    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
        selection: Arc<Selection>,
    ) -> Answering<'a, ObjectList>;
}

/// Watches objects.
pub trait Watcher: Send + Sync {
    /// Opens a watch on the calling thread. The options are taken as they are after
    /// [`ListOptions::default_watch`].
    ///
    /// # Errors
    /// A [`WatchRefusal`] that says how to tell it.
    fn watch<'a>(
        &'a self,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
        selection: Arc<Selection>,
        audience: Audience,
    ) -> LocalBoxFuture<'a, Result<RunningWatch, WatchRefusal>>;
}

/// Creates objects whose name is in the body.
pub trait Creater: Send + Sync {
    /// Creates an object of [`RestStorage::request_kind`] and answers one of
    /// [`RestStorage::response_kind`].
    ///
    /// # Errors
    /// 409 when the name is taken, 422 for what is invalid, what admission refuses (http.md 3.2).
    fn create<'a>(
        &'a self,
        context: &'a RequestContext,
        namespace: Option<&'a str>,
        object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Arc<CachedObject>>;
}

/// Creates what belongs to the object that the path names.
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
    ) -> Answering<'a, Arc<CachedObject>>;
}

/// Replaces objects.
pub trait Updater: Send + Sync {
    /// Stores this object in the place of another.
    ///
    /// # Errors
    /// 404 when there is none and it may not be created so, 409 for a stale version or another uid,
    /// 422 for what is invalid, what admission refuses (http.md 3.3).
    fn update<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Written>;
}

/// Changes objects by patches.
pub trait Patcher: Send + Sync {
    /// Stores what the patch makes of the object, whatever that is by then (API-151).
    ///
    /// # Errors
    /// As [`Updater::update`], and 422 for a patch that can't be applied (http.md 4.1).
    fn patch<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        patch: Patch,
        options: &'a WriteOptions,
    ) -> Answering<'a, Written>;
}

/// Deletes objects, perhaps not at once.
pub trait Deleter: Send + Sync {
    /// Removes an object or marks it for removal.
    ///
    /// # Errors
    /// 404 when it is absent, 409 for preconditions, what admission refuses (http.md 3.4).
    fn delete<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        options: &'a DeleteOptions,
    ) -> Answering<'a, Deletion>;
}

/// Deletes what a list shows, an item at a time (http.md 3.5).
pub trait CollectionDeleter: Lister + Deleter {}

/// What a connection to an object carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// The media type.
    pub content_type: &'static str,
    /// What is answered.
    pub body: Bytes,
}

/// Connects to what an object stands for.
pub trait Connecter: Send + Sync {
    /// The methods it takes.
    fn methods(&self) -> &[Method];

    /// Connects; `path` is what follows the subresource, without slashes around it.
    ///
    /// # Errors
    /// 404 when there is no such object, and what stands in the way of a connection.
    fn connect<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        path: &'a str,
        query: &'a Query,
    ) -> Answering<'a, Connected>;
}

impl dyn RestStorage + '_ {
    /// Whether a request with this verb is served.
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

    /// The verbs that discovery shows, sorted: a connection is named by the methods it takes.
    pub fn verbs(&self) -> Vec<Verb> {
        let methods = self.connecter().map_or(&[][..], Connecter::methods);
        let named = |verb| methods.iter().any(|method| of_method(method) == Some(verb));
        let served = |verb: &Verb| self.serves(*verb) || named(*verb);
        Verb::ALL.into_iter().filter(served).collect()
    }
}

/// What a method on an object's path does.
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

/// The storages behind the paths of a stored resource: its own, and one for each subresource.
pub fn endpoints(store: &Arc<super::RegistryStore>) -> Vec<Arc<dyn RestStorage>> {
    let mut endpoints: Vec<Arc<dyn RestStorage>> = vec![Arc::clone(store) as _];
    for subresource in &store.definition().subresources {
        let storage = SubresourceStore::new(Arc::clone(store), subresource.clone());
        endpoints.push(Arc::new(storage));
    }
    endpoints
}
