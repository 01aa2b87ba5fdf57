//! The storage of a version into which stored objects are converted by somebody who must be waited
//! for, such as a webhook (HK-77 to HK-82).
//!
//! This folder owns where such a conversion takes place: around the writes of the stored version
//! ([`writes`]), and between the engine and the reads of the other version ([`engine`]). So
//! everything above sees one version, as if it were the stored one. It must not know who converts
//! ([`Converter`]). The stored version, its cache and all work of the server itself go on without
//! it: nobody is asked before a client asks for the other version.

mod engine;
mod former;
mod memo;
mod writes;

pub use former::over_former_versions;

use std::sync::Arc;

use actors::engine::{Event, Key, Origin, Revision};
use actors::object::{CachedObject, Decode, DecodeError};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, LocalBoxFuture};

use super::codec::{Codec, TypeName};
use super::keys::Keys;
use super::transformer::Identity;
use super::underlying::{StoredDecoder, Underlying};
use super::{
    DeleteRequest, GetRequest, HistoryRequest, ListRequest, NewObject, ObjectHistory, ObjectList,
    ResourceStorage, RunningWatch, Stats, Storage, StorageError, StorageErrorKind, StoredResource,
    UpdateFunction, UpdateRequest, ValidateDeletion, VersionUse, WatchRequest, WriteOutcome,
};
use crate::api::deep::{self, Roomy};
use crate::api::object::Object;
use crate::api::resource::{Converter, ResourceDefinition};
use crate::api::status::Status;
use engine::{ConvertedEngine, ValueConversion};
use writes::{Converting, ConvertingCheck};

/// Returns the storages of another version of a stored resource that has a converter. `store` is
/// the one without a cache below `storages`.
pub fn converted(
    storages: &ResourceStorage,
    converter: &Arc<dyn Converter>,
    store: &Arc<Underlying>,
    definition: &Arc<ResourceDefinition>,
) -> ResourceStorage {
    let version = Arc::new(ShownVersion {
        converter: Arc::clone(converter),
        stored: store.decoder.codec.clone(),
        shown: Codec::new(Arc::clone(definition)),
        keys: store.keys.clone(),
    });
    let shown = Shown {
        version: Arc::clone(&version),
        decoder: Arc::clone(&store.decoder),
    };
    let engine = ConvertedEngine::new(Arc::clone(&store.engine), shown);
    let resource = &storages.resource;
    let codec = version.shown.clone();
    let decoder =
        StoredDecoder::measured_as(&resource.group, &resource.plural, codec, Arc::new(Identity));
    let reads = store.reading(Arc::new(engine), Arc::new(decoder));
    let over = |below: &Arc<dyn Storage>| Converted {
        version: Arc::clone(&version),
        below: Arc::clone(below),
        reads: reads.clone(),
    };
    ResourceStorage {
        resource: Arc::new(StoredResource {
            hub: Arc::clone(definition),
            stored_as: TypeName::of(definition),
            ..StoredResource::clone(resource)
        }),
        storage: Arc::new(over(&storages.storage)),
        dry_run: Arc::new(over(&storages.dry_run)),
        obeyed: None,
        converter: Some(Arc::clone(converter)),
        base: Some(Arc::new(storages.clone())),
    }
}

/// Converts each stored value to another version.
struct Shown {
    version: Arc<ShownVersion>,
    /// Decodes the stored version.
    decoder: Arc<StoredDecoder>,
}

impl ValueConversion for Shown {
    type Pending = Arc<CachedObject>;

    /// Writes go to the stored version.
    const WRITES: bool = false;

    fn pending(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<Option<Arc<CachedObject>>, DecodeError> {
        let object = self.decoder.decode(key, revision, value)?;
        Ok(Some(Arc::new(object)))
    }

    fn pending_event(&self, event: &Event) -> Result<Option<Arc<CachedObject>>, DecodeError> {
        self.decoder.decode_event(event).map(Some)
    }

    fn convert<'c>(
        &'c self,
        pending: Vec<&'c Arc<CachedObject>>,
        is_list: bool,
    ) -> BoxFuture<'c, Result<Vec<Bytes>, String>> {
        async move {
            let version = &self.version;
            let mut objects = Vec::with_capacity(pending.len());
            for object in pending {
                objects.push(version.object(object).await?);
            }
            let converted = version.converted(objects, is_list).await?;
            let encoded = converted.iter().map(|object| version.shown.encode(object));
            Ok(encoded.map(Bytes::from).collect())
        }
        .boxed()
    }
}

/// A version of a resource that is stored in another one.
struct ShownVersion {
    converter: Arc<dyn Converter>,
    /// The codec of the stored version.
    stored: Codec,
    /// The codec of this version.
    shown: Codec,
    keys: Keys,
}

impl ShownVersion {
    /// Returns a stored object as the converter gets it: without its version.
    async fn object(&self, cached: &CachedObject) -> Result<Object, String> {
        let object = deep::retry(|| self.stored.object_of(cached)).await;
        let mut object = object.map_err(|error| error.to_string())?;
        object.set_meta("resourceVersion", "");
        Ok(object)
    }

    /// Converts stored objects to this version, in order.
    async fn converted(&self, objects: Vec<Object>, is_list: bool) -> Result<Vec<Object>, String> {
        let (from, to) = (self.stored.definition(), self.shown.definition());
        self.converter.convert(objects, from, to, is_list).await
    }

    /// Converts a stored object to this version. Deep objects have room, also where no request is
    /// carried out.
    async fn show(&self, cached: &CachedObject) -> Result<Arc<CachedObject>, Box<Status>> {
        Roomy::new(self.show_here(cached)).await
    }

    async fn show_here(&self, cached: &CachedObject) -> Result<Arc<CachedObject>, Box<Status>> {
        let failed = |text: String| Box::new(Status::unknown(text));
        let object = self.object(cached).await.map_err(failed)?;
        let converting = self.converted(vec![object], false);
        let converted = converting.await.map_err(failed)?.pop();
        let Some(object) = converted else {
            return Err(failed("a conversion returned no object".to_owned()));
        };
        let key = actors::engine::Key::new(cached.key());
        let shown = self.shown.wire(&key, &object, cached.revision);
        let shown = shown.map_err(|error| Box::new(Status::internal(error)))?;
        Ok(Arc::new(shown))
    }

    /// Converts an object of this version to the stored one.
    async fn store(&self, new: NewObject) -> Result<NewObject, Box<Status>> {
        let mut object = new.object;
        let version = object.resource_version().to_owned();
        object.set_meta("resourceVersion", "");
        let (from, to) = (self.shown.definition(), self.stored.definition());
        let converting = self.converter.convert(vec![object], from, to, false);
        let failed = |text: String| Box::new(Status::unknown(text));
        let converted = converting.await.map_err(failed)?.pop();
        let Some(mut object) = converted else {
            return Err(failed("a conversion returned no object".to_owned()));
        };
        object.set_meta("resourceVersion", &version);
        Ok(NewObject { object, ..new })
    }

    fn refused(&self, key: &str, status: Box<Status>) -> StorageError {
        let key = self.keys.object(key).map(|key| key.to_string());
        StorageError {
            key: key.unwrap_or_default(),
            kind: StorageErrorKind::Refused(status),
        }
    }
}

/// The storage of a version that is stored in another one.
struct Converted {
    version: Arc<ShownVersion>,
    /// The storage of the stored version.
    below: Arc<dyn Storage>,
    /// Reads of many objects, over an engine with values of this version.
    reads: Underlying,
}

impl Converted {
    async fn show(
        &self,
        key: &str,
        object: &CachedObject,
    ) -> Result<Arc<CachedObject>, StorageError> {
        let shown = self.version.show(object).await;
        shown.map_err(|status| self.version.refused(key, status))
    }

    async fn show_found(
        &self,
        key: &str,
        found: Option<Arc<CachedObject>>,
    ) -> Result<Option<Arc<CachedObject>>, StorageError> {
        match found {
            Some(object) => Ok(Some(self.show(key, &object).await?)),
            None => Ok(None),
        }
    }

    async fn show_outcome(
        &self,
        key: &str,
        outcome: WriteOutcome,
    ) -> Result<WriteOutcome, StorageError> {
        Ok(match outcome {
            WriteOutcome::Done(object) => WriteOutcome::Done(self.show(key, &object).await?),
            WriteOutcome::Left => WriteOutcome::Left,
        })
    }
}

impl Storage for Converted {
    fn create<'s>(
        &'s self,
        key: &'s str,
        new: NewObject,
        origin: Origin,
    ) -> BoxFuture<'s, Result<Arc<CachedObject>, StorageError>> {
        async move {
            let new = self.version.store(new).await;
            let new = new.map_err(|status| self.version.refused(key, status))?;
            let created = self.below.create(key, new, origin).await?;
            self.show(key, &created).await
        }
        .boxed()
    }

    fn delete<'s>(
        &'s self,
        request: DeleteRequest,
        validate: &'s mut dyn ValidateDeletion,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        async move {
            let key = request.key.clone();
            let mut check = ConvertingCheck {
                version: &self.version,
                check: validate,
            };
            // A suggestion has this version.
            let request = DeleteRequest {
                suggestion: None,
                ..request
            };
            let outcome = self.below.delete(request, &mut check).await?;
            self.show_outcome(&key, outcome).await
        }
        .boxed()
    }

    fn delete_unreadable<'s>(
        &'s self,
        key: &'s str,
        origin: Origin,
    ) -> BoxFuture<'s, Result<bool, StorageError>> {
        self.below.delete_unreadable(key, origin)
    }

    fn get(
        &self,
        request: GetRequest,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        async move {
            let key = request.key.clone();
            let found = self.below.get(request).await?;
            self.show_found(&key, found).await
        }
        .boxed()
    }

    fn get_at(
        &self,
        key: String,
        revision: Revision,
    ) -> BoxFuture<'_, Result<Option<Arc<CachedObject>>, StorageError>> {
        async move {
            let found = self.below.get_at(key.clone(), revision).await?;
            self.show_found(&key, found).await
        }
        .boxed()
    }

    fn history(
        &self,
        request: HistoryRequest,
    ) -> BoxFuture<'_, Result<ObjectHistory, StorageError>> {
        self.reads.history(request)
    }

    fn get_list(&self, request: ListRequest) -> BoxFuture<'_, Result<ObjectList, StorageError>> {
        self.reads.get_list(request)
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> LocalBoxFuture<'_, Result<RunningWatch, StorageError>> {
        self.reads.watch(request)
    }

    fn guaranteed_update<'s>(
        &'s self,
        request: UpdateRequest,
        update: &'s mut dyn UpdateFunction,
    ) -> BoxFuture<'s, Result<WriteOutcome, StorageError>> {
        async move {
            let key = request.key.clone();
            let mut converting = Converting {
                version: &self.version,
                update,
            };
            let request = UpdateRequest {
                // A suggestion has this version.
                suggestion: None,
                version: match request.version {
                    VersionUse::Names => VersionUse::Names,
                    _ => VersionUse::Awaits,
                },
                ..request
            };
            let updating = self.below.guaranteed_update(request, &mut converting);
            let outcome = updating.await?;
            self.show_outcome(&key, outcome).await
        }
        .boxed()
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, StorageError>> {
        self.below.stats()
    }

    fn readiness_check(&self) -> Result<(), StorageError> {
        self.below.readiness_check()
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.below.current_revision()
    }

    fn is_always_fresh(&self) -> bool {
        self.below.is_always_fresh()
    }

    fn known_stats(&self, prefix: &str) -> Option<Stats> {
        self.below.known_stats(prefix)
    }

    fn is_known_empty(&self, prefix: &str) -> bool {
        self.below.is_known_empty(prefix)
    }

    fn held_bytes(&self, key: &str) -> usize {
        self.below.held_bytes(key)
    }
}
