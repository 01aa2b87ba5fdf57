//! A subresource that reads its object and writes a part of it. `status` and `finalize` show the
//! whole object, `scale` shows a Scale (API-223).

use std::sync::Arc;

use actors::engine::{Key, Revision};
use actors::object::CachedObject;
use futures_util::future::FutureExt;

use super::{Answering, Getter, Historian, RestStorage, Updater};
use crate::api::options::WriteOptions;
use crate::api::resource::{ResourceDefinition, Subresource, Verb};
use crate::api::status::Status;
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::{RegistryStore, UpdateSource, Written};
use crate::storage::codec::Codec;
use crate::storage::{HistorySpan, ObjectHistory};

/// A subresource of a store's objects. Its [`EndpointRules`](crate::api::resource::EndpointRules)
/// decide which fields an update may change.
pub struct SubresourceStore {
    store: Arc<RegistryStore>,
    subresource: Subresource,
    /// The codec of Scales, if the subresource shows objects as Scales.
    codec: Option<Codec>,
}

impl SubresourceStore {
    /// Creates the subresource for the objects of a store.
    pub fn new(store: Arc<RegistryStore>, subresource: Subresource) -> SubresourceStore {
        SubresourceStore {
            codec: subresource.kind.clone().map(Codec::new),
            store,
            subresource,
        }
    }

    /// Returns the kind of requests and responses.
    fn kind(&self) -> &Arc<ResourceDefinition> {
        let own = self.subresource.kind.as_ref();
        own.unwrap_or_else(|| self.store.definition())
    }

    /// Returns an object as clients see it at this path.
    fn shown(&self, object: Arc<CachedObject>) -> Result<Arc<CachedObject>, Box<Status>> {
        let Some(codec) = &self.codec else {
            return Ok(object);
        };
        let scale = self.store.scale_of(&object)?;
        let shown = codec.wire(&Key::new(object.key()), &scale, object.revision);
        shown
            .map(Arc::new)
            .map_err(|error| Box::new(Status::internal(error)))
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

    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        self.kind()
    }

    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        self.kind()
    }

    fn has_tables(&self) -> bool {
        self.subresource.has_tables
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
        async move { self.shown(self.store.get(at, resource_version).await?) }.boxed()
    }
}

impl Historian for SubresourceStore {
    fn get_at<'a>(
        &'a self,
        at: NamespacedName<'a>,
        revision: Revision,
    ) -> Answering<'a, Arc<CachedObject>> {
        async move { self.shown(self.store.get_at(at, revision).await?) }.boxed()
    }

    fn history<'a>(
        &'a self,
        at: NamespacedName<'a>,
        span: Option<HistorySpan>,
    ) -> Answering<'a, ObjectHistory> {
        async move {
            let mut history = self.store.history(at, span).await?;
            for object in history.changes.iter_mut().flat_map(|one| &mut one.object) {
                let show = |object| self.shown(object).map_err(|status| status.message.clone());
                *object = object.clone().and_then(show);
            }
            Ok(history)
        }
        .boxed()
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
        async move {
            let part = Some(&self.subresource);
            let updating = self.store.update(context, at, part, source, options);
            let Written { object, created } = updating.await?;
            let object = self.shown(object)?;
            Ok(Written { object, created })
        }
        .boxed()
    }
}
