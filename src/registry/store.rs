//! The verbs on one resource.

use std::sync::Arc;

use crate::api::resource::ResourceDefinition;
use crate::storage::Storage;

/// The store of one resource: checks, strategies and admission around [`Storage`].
pub struct RegistryStore {
    definition: &'static ResourceDefinition,
    #[expect(dead_code, reason = "the verbs follow")]
    storage: Arc<dyn Storage>,
    #[expect(dead_code, reason = "the verbs follow")]
    dry: Arc<dyn Storage>,
}

impl RegistryStore {
    /// A store over a storage and its dry-run twin.
    pub fn new(
        definition: &'static ResourceDefinition,
        storage: Arc<dyn Storage>,
        dry: Arc<dyn Storage>,
    ) -> RegistryStore {
        RegistryStore {
            definition,
            storage,
            dry,
        }
    }

    /// The resource.
    pub fn definition(&self) -> &'static ResourceDefinition {
        self.definition
    }
}
