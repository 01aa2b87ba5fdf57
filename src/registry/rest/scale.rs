//! The subresource `scale`, which shows an object as a Scale (API-223).

use std::sync::Arc;

use actors::engine::{Key, Revision};
use actors::object::CachedObject;
use futures_util::future::FutureExt;

use super::{Answering, Getter, Historian, RestStorage, Updater};
use crate::api::options::WriteOptions;
use crate::api::resource::{ResourceDefinition, Scaling, Subresource, Verb};
use crate::api::status::Status;
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::{RegistryStore, UpdateSource, Written};
use crate::storage::codec::Codec;
use crate::storage::{HistorySpan, ObjectHistory};

/// The Scales of a store's objects. What is written of a Scale is written of its object.
pub struct ScaleStore {
    store: Arc<RegistryStore>,
    subresource: Subresource,
    scaling: Scaling,
    /// Makes the wire form of Scales.
    codec: Codec,
}

impl ScaleStore {
    /// Creates the subresource for the objects of a store.
    pub fn new(
        store: Arc<RegistryStore>,
        subresource: Subresource,
        scaling: Scaling,
    ) -> ScaleStore {
        ScaleStore {
            codec: Codec::new(Arc::clone(&scaling.kind)),
            store,
            subresource,
            scaling,
        }
    }

    fn with(&self, verb: Verb) -> Option<&ScaleStore> {
        self.subresource.verbs.contains(&verb).then_some(self)
    }

    /// The Scale of an object.
    fn scale(&self, object: &CachedObject) -> Result<Arc<CachedObject>, Box<Status>> {
        let scale = self.store.scale_of(object, &self.scaling)?;
        let key = Key::new(object.key());
        let shown = self.codec.wire(&key, &scale, object.revision);
        shown
            .map(Arc::new)
            .map_err(|error| Box::new(Status::internal(error)))
    }
}

impl RestStorage for ScaleStore {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        self.store.definition()
    }

    fn subresource(&self) -> Option<&str> {
        Some(&self.subresource.name)
    }

    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        &self.scaling.kind
    }

    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        &self.scaling.kind
    }

    fn held_bytes(&self, at: NamespacedName<'_>) -> usize {
        self.store.held_bytes(at)
    }

    fn getter(&self) -> Option<&dyn Getter> {
        self.with(Verb::Get).map(|scales| scales as _)
    }

    fn historian(&self) -> Option<&dyn Historian> {
        self.with(Verb::Get).map(|scales| scales as _)
    }

    fn updater(&self) -> Option<&dyn Updater> {
        self.with(Verb::Update).map(|scales| scales as _)
    }

    fn patcher(&self) -> Option<&dyn Updater> {
        self.with(Verb::Patch).map(|scales| scales as _)
    }
}

impl Getter for ScaleStore {
    fn get<'a>(
        &'a self,
        at: NamespacedName<'a>,
        resource_version: &'a str,
    ) -> Answering<'a, Arc<CachedObject>> {
        async move { self.scale(&*self.store.get(at, resource_version).await?) }.boxed()
    }
}

impl Historian for ScaleStore {
    fn get_at<'a>(
        &'a self,
        at: NamespacedName<'a>,
        revision: Revision,
    ) -> Answering<'a, Arc<CachedObject>> {
        async move { self.scale(&*self.store.get_at(at, revision).await?) }.boxed()
    }

    fn history<'a>(
        &'a self,
        at: NamespacedName<'a>,
        span: Option<HistorySpan>,
    ) -> Answering<'a, ObjectHistory> {
        async move {
            let mut history = self.store.history(at, span).await?;
            for object in history.changes.iter_mut().flat_map(|one| &mut one.object) {
                let scale = |object: Arc<CachedObject>| {
                    self.scale(&object).map_err(|status| status.message.clone())
                };
                *object = object.clone().and_then(scale);
            }
            Ok(history)
        }
        .boxed()
    }
}

impl Updater for ScaleStore {
    fn update<'a>(
        &'a self,
        context: &'a RequestContext,
        at: NamespacedName<'a>,
        source: UpdateSource,
        options: &'a WriteOptions,
    ) -> Answering<'a, Written> {
        async move {
            let part = Some(&self.subresource);
            let updating = self.store.update(context, at, part, source, options);
            let Written { object, created } = updating.await?;
            let object = self.scale(&object)?;
            Ok(Written { object, created })
        }
        .boxed()
    }
}
