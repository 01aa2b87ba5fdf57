//! The paths of a plain resource, with a capability for each verb of its definition.

use std::sync::Arc;

use actors::engine::Revision;
use actors::object::CachedObject;
use futures_util::future::{FutureExt, LocalBoxFuture};

use super::{
    Answering, CollectionDeleter, Created, Creater, Deleter, Getter, Historian, Lister,
    RestStorage, Updater, Watcher,
};
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, ListOptions, WriteOptions};
use crate::api::resource::{ResourceDefinition, Verb};
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::registry::catalog::storage_version_hash;
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::{
    Audience, Deletion, RegistryStore, UpdateSource, WatchRefusal, Written,
};
use crate::storage::{HistorySpan, ObjectHistory, ObjectList, RunningWatch, Stats};

impl RegistryStore {
    fn with(&self, verb: Verb) -> Option<&RegistryStore> {
        self.definition().verbs.contains(&verb).then_some(self)
    }
}

impl RestStorage for RegistryStore {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        self.definition()
    }

    fn storage_version_hash(&self) -> Option<String> {
        let resource = self.stored_resource();
        let hash = || storage_version_hash(&resource.stored_as);
        resource.shows_hash.then(hash)
    }

    fn held_bytes(&self, at: NamespacedName<'_>) -> usize {
        RegistryStore::held_bytes(self, at)
    }

    fn getter(&self) -> Option<&dyn Getter> {
        self.with(Verb::Get).map(|store| store as _)
    }

    fn historian(&self) -> Option<&dyn Historian> {
        self.with(Verb::Get).map(|store| store as _)
    }

    fn lister(&self) -> Option<&dyn Lister> {
        self.with(Verb::List).map(|store| store as _)
    }

    fn watcher(&self) -> Option<&dyn Watcher> {
        self.with(Verb::Watch).map(|store| store as _)
    }

    fn creater(&self) -> Option<&dyn Creater> {
        self.with(Verb::Create).map(|store| store as _)
    }

    fn updater(&self) -> Option<&dyn Updater> {
        self.with(Verb::Update).map(|store| store as _)
    }

    fn patcher(&self) -> Option<&dyn Updater> {
        self.with(Verb::Patch).map(|store| store as _)
    }

    fn deleter(&self) -> Option<&dyn Deleter> {
        self.with(Verb::Delete).map(|store| store as _)
    }

    fn collection_deleter(&self) -> Option<&dyn CollectionDeleter> {
        self.with(Verb::DeleteCollection).map(|store| store as _)
    }
}

impl Getter for RegistryStore {
    fn get<'a>(
        &'a self,
        at: NamespacedName<'a>,
        resource_version: &'a str,
    ) -> Answering<'a, Arc<CachedObject>> {
        RegistryStore::get(self, at, resource_version).boxed()
    }
}

impl Historian for RegistryStore {
    fn get_at<'a>(
        &'a self,
        at: NamespacedName<'a>,
        revision: Revision,
    ) -> Answering<'a, Arc<CachedObject>> {
        RegistryStore::get_at(self, at, revision).boxed()
    }

    fn history<'a>(
        &'a self,
        at: NamespacedName<'a>,
        span: Option<HistorySpan>,
    ) -> Answering<'a, ObjectHistory> {
        RegistryStore::history(self, at, span).boxed()
    }
}

impl Lister for RegistryStore {
    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
        selection: Arc<Selection>,
    ) -> Answering<'a, ObjectList> {
        RegistryStore::list(self, namespace, options, selection).boxed()
    }

    fn known_stats(&self, namespace: Option<&str>, selection: &Selection) -> Option<Stats> {
        RegistryStore::known_stats(self, namespace, selection)
    }
}

impl Watcher for RegistryStore {
    fn watch<'a>(
        &'a self,
        namespace: Option<&'a str>,
        options: &'a ListOptions,
        selection: Arc<Selection>,
        audience: Audience,
    ) -> LocalBoxFuture<'a, Result<RunningWatch, WatchRefusal>> {
        RegistryStore::watch(self, namespace, options, selection, audience).boxed_local()
    }
}

impl Creater for RegistryStore {
    fn create<'a>(
        &'a self,
        context: &'a RequestContext,
        namespace: Option<&'a str>,
        object: Object,
        options: &'a WriteOptions,
    ) -> Answering<'a, Created> {
        async move {
            let creating = RegistryStore::create(self, context, namespace, object, options);
            creating.await.map(Created::Object)
        }
        .boxed()
    }
}

impl Updater for RegistryStore {
    fn update<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        source: UpdateSource,
        options: &'a WriteOptions,
    ) -> Answering<'a, Written> {
        RegistryStore::update(self, context, at, None, source, options).boxed()
    }
}

impl Deleter for RegistryStore {
    fn begin(
        &self,
        context: &RequestContext,
        name: Option<&str>,
        options: &DeleteOptions,
    ) -> Result<(), Box<Status>> {
        let kind = &self.definition().behaviour;
        let is_default =
            options.propagation_policy.is_none() && options.orphan_dependents.is_none();
        let warning = kind.rules().propagation_warning.as_deref();
        if let Some(warning) = warning.filter(|_| is_default) {
            context.warnings.add(warning);
        }
        match name.and_then(|name| Some((name, kind.deletion_refusal(name)?))) {
            Some((name, why)) => Err(Box::new(Status::forbidden(self.definition(), name, &why))),
            None => Ok(()),
        }
    }

    fn delete<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        options: &'a DeleteOptions,
    ) -> Answering<'a, Deletion> {
        RegistryStore::delete(self, context, at, options).boxed()
    }
}

impl CollectionDeleter for RegistryStore {
    fn workers(&self) -> usize {
        self.delete_collection_workers()
    }
}
