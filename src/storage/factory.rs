//! Which store, place, codec and transformer serve a resource: decided here and nowhere else,
//! as in Kubernetes' storage factory.

use std::sync::Arc;

use actors::engine::Engine;
use actors::supervisor::{CacherSpec, House};

use super::cached::Cached;
use super::codec::Codec;
use super::dry_run::DryRun;
use super::keys::Keys;
use super::transformer::Identity;
use super::underlying::{StoredDecoder, Underlying};
use super::{ResourceStorage, Storage, StorageError};
use crate::api::resource::ResourceDefinition;

/// Where everything below is kept unless configured otherwise (KV-1, SF-3).
pub const DEFAULT_ROOT: &str = "/registry";

/// A resource as it is to be stored: made before any actor runs.
pub struct StoragePlan {
    definition: &'static ResourceDefinition,
    keys: Keys,
    decoder: Arc<StoredDecoder>,
}

impl StoragePlan {
    /// Decides how a resource is stored.
    ///
    /// # Errors
    /// When the definition has no place in the store (ST-5).
    pub fn new(
        definition: &'static ResourceDefinition,
        root: &str,
    ) -> Result<StoragePlan, StorageError> {
        let keys = Keys::new(root, definition.key_prefix)?;
        let codec = Codec::new(definition);
        let decoder = Arc::new(StoredDecoder {
            codec,
            transformer: Arc::new(Identity),
        });
        Ok(StoragePlan {
            definition,
            keys,
            decoder,
        })
    }

    /// The resource.
    pub fn definition(&self) -> &'static ResourceDefinition {
        self.definition
    }

    /// What its Cacher needs.
    pub fn cacher_spec(&self) -> CacherSpec {
        CacherSpec {
            resource: self.definition.qualified(),
            prefix: self.keys.resource_prefix(),
            decode: self.decoder.clone(),
        }
    }

    /// Builds the storage: behind its Cacher where the house runs one, else straight over the
    /// engine.
    pub fn build(&self, engine: Arc<dyn Engine>, house: &House) -> ResourceStorage {
        let writers = house.writers();
        let store = Underlying::new(
            engine,
            self.keys.clone(),
            self.decoder.clone(),
            Some(writers),
        );
        let cacher = house.cacher(&self.definition.qualified());
        tracing::debug!(
            resource = %self.definition.qualified(),
            prefix = %self.keys.resource_prefix(),
            stored_as = %self.definition.api_version(),
            media_type = "application/json",
            cached = cacher.is_some(),
            "storage of a resource"
        );
        let storage: Arc<dyn Storage> = match cacher {
            Some(cacher) => Arc::new(Cached::new(store, cacher)),
            None => Arc::new(store),
        };
        let codec = self.decoder.codec.clone();
        let dry_run = Arc::new(DryRun::new(storage.clone(), codec, self.keys.clone()));
        ResourceStorage { storage, dry_run }
    }
}
