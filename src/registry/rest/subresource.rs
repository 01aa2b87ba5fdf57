//! A subresource that reads its whole object and writes a part of it: `status`, `finalize`.

use std::sync::Arc;

use actors::engine::Revision;
use actors::object::CachedObject;
use futures_util::future::FutureExt;

use super::{Answering, Getter, Historian, RestStorage, Updater};
use crate::api::options::WriteOptions;
use crate::api::resource::{ResourceDefinition, Subresource, Verb};
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::{RegistryStore, UpdateSource, Written};
use crate::storage::{HistorySpan, ObjectHistory};

/// A part of a store's objects, with its own path. The subresource's
/// [`UpdateStrategy`](crate::api::resource::UpdateStrategy) decides what an update may change.
pub struct SubresourceStore {
    store: Arc<RegistryStore>,
    subresource: Subresource,
}

impl SubresourceStore {
    /// Creates the subresource for the objects of a store.
    pub fn new(store: Arc<RegistryStore>, subresource: Subresource) -> SubresourceStore {
        SubresourceStore { store, subresource }
    }

    fn with(&self, verb: Verb) -> Option<&SubresourceStore> {
        self.subresource.verbs.contains(&verb).then_some(self)
    }
}

impl RestStorage for SubresourceStore {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        self.store.definition()
    }

    fn subresource(&self) -> Option<&str> {
        Some(&self.subresource.name)
    }

    fn held_bytes(&self, at: NamespacedName<'_>) -> usize {
        self.store.held_bytes(at)
    }

    fn getter(&self) -> Option<&dyn Getter> {
        self.with(Verb::Get).map(|part| part as _)
    }

    fn historian(&self) -> Option<&dyn Historian> {
        self.with(Verb::Get).map(|part| part as _)
    }

    fn updater(&self) -> Option<&dyn Updater> {
        self.with(Verb::Update).map(|part| part as _)
    }

    fn patcher(&self) -> Option<&dyn Updater> {
        self.with(Verb::Patch).map(|part| part as _)
    }
}

impl Getter for SubresourceStore {
    fn get<'a>(
        &'a self,
        at: NamespacedName<'a>,
        resource_version: &'a str,
    ) -> Answering<'a, Arc<CachedObject>> {
        self.store.get(at, resource_version).boxed()
    }
}

impl Historian for SubresourceStore {
    fn get_at<'a>(
        &'a self,
        at: NamespacedName<'a>,
        revision: Revision,
    ) -> Answering<'a, Arc<CachedObject>> {
        self.store.get_at(at, revision).boxed()
    }

    fn history<'a>(
        &'a self,
        at: NamespacedName<'a>,
        span: Option<HistorySpan>,
    ) -> Answering<'a, ObjectHistory> {
        self.store.history(at, span).boxed()
    }
}

impl Updater for SubresourceStore {
    fn update<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        source: UpdateSource,
        options: &'a WriteOptions,
    ) -> Answering<'a, Written> {
        let part = Some(&self.subresource);
        self.store
            .update(context, at, part, source, options)
            .boxed()
    }
}
