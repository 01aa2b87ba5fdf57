//! Values that are stored in a former version of their resource, where a webhook converts versions
//! (CRD-206, HK-77): a definition stores objects in another version than before, and those that
//! were not written since are still in the former one.
//!
//! They are converted on their way up, so everything above the engine sees the version of today. A
//! converted value differs from the stored one, so that a write that changes nothing stores it in
//! the version of today.

use std::sync::Arc;

use actors::engine::{DataEngine, Key, Revision};
use actors::object::DecodeError;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};

use super::engine::{ConvertedEngine, ValueConversion};
use crate::api::object::Object;
use crate::api::resource::{Converter, ResourceDefinition};
use crate::storage::StoredResource;
use crate::storage::codec::CONVERTED;
use crate::storage::underlying::StoredDecoder;

/// Returns an engine that shows values of former versions in the one that is stored today.
pub fn over_former_versions(
    engine: Arc<dyn DataEngine>,
    resource: &Arc<StoredResource>,
    decoder: &Arc<StoredDecoder>,
    converter: Arc<dyn Converter>,
) -> Arc<dyn DataEngine> {
    let former = Former {
        resource: Arc::clone(resource),
        decoder: Arc::clone(decoder),
        converter,
    };
    Arc::new(ConvertedEngine::new(engine, former))
}

/// Converts values of former versions.
struct Former {
    resource: Arc<StoredResource>,
    decoder: Arc<StoredDecoder>,
    converter: Arc<dyn Converter>,
}

/// A value of a former version.
struct OfVersion {
    key: Key,
    object: Object,
    /// The place of its version among those of the resource.
    version: usize,
}

impl Former {
    fn version(&self, api_version: &str) -> Option<usize> {
        let mut versions = self.resource.versions.iter();
        // linear: a resource has a few versions.
        versions.position(|version| version.api_version() == api_version)
    }

    async fn converted(
        &self,
        objects: Vec<Object>,
        from: &ResourceDefinition,
        is_list: bool,
    ) -> Result<Vec<Object>, String> {
        let to = &*self.resource.hub;
        self.converter.convert(objects, from, to, is_list).await
    }

    /// Returns a converted object as the decoder reads it.
    fn value(&self, key: &Key, object: &Object) -> Result<Bytes, String> {
        let mut plain = CONVERTED.to_vec();
        plain.extend(self.decoder.codec.encode(object));
        let stored = self.decoder.transformer.transform_to_storage(key, plain);
        stored.map_err(|error| error.to_string())
    }
}

impl ValueConversion for Former {
    type Pending = OfVersion;

    const WRITES: bool = true;

    fn pending(
        &self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
    ) -> Result<Option<OfVersion>, DecodeError> {
        let former = self.decoder.other_version(key, revision, value)?;
        let found = former.and_then(|(api_version, object)| {
            Some(OfVersion {
                key: key.clone(),
                version: self.version(&api_version)?,
                object,
            })
        });
        Ok(found)
    }

    fn convert<'c>(
        &'c self,
        pending: Vec<&'c OfVersion>,
        is_list: bool,
    ) -> BoxFuture<'c, Result<Vec<Bytes>, String>> {
        async move {
            let mut values = vec![Bytes::new(); pending.len()];
            for (number, version) in self.resource.versions.iter().enumerate() {
                let of_version = pending.iter().enumerate();
                let of_version = of_version.filter(|(_, one)| one.version == number);
                let (places, of_version): (Vec<usize>, Vec<&&OfVersion>) = of_version.unzip();
                let objects = of_version.iter().map(|one| {
                    let mut object = one.object.clone();
                    // The defaults of its own version are applied, and no others (HK-79).
                    let now = (self.decoder.clock)();
                    version.behaviour.set_stored_defaults(&mut object, now);
                    object
                });
                let converted = self.converted(objects.collect(), version, is_list).await?;
                if converted.len() != places.len() {
                    return Err("a conversion returned another number of objects".to_owned());
                }
                let converted = of_version.into_iter().zip(converted);
                for (place, (one, object)) in places.into_iter().zip(converted) {
                    if let Some(value) = values.get_mut(place) {
                        *value = self.value(&one.key, &object)?;
                    }
                }
            }
            Ok(values)
        }
        .boxed()
    }
}
