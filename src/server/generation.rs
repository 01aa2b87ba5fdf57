//! The documents that the server derives from one generation of the catalog.

use std::sync::Arc;

use parking_lot::RwLock;

use super::discovery::Discovery;
use super::features::Features;
use super::openapi::OpenApi;
use crate::registry::{Catalog, Registry};

/// One generation, as a request sees it from its route to its response.
pub struct Generation {
    /// The stores.
    pub catalog: Arc<Catalog>,
    /// Discovery's documents.
    pub discovery: Discovery,
    /// OpenAPI's documents.
    pub openapi: OpenApi,
}

impl Generation {
    fn of(
        catalog: Arc<Catalog>,
        address: &str,
        has_issuer: bool,
        features: Features,
    ) -> Generation {
        Generation {
            discovery: Discovery::new(catalog.groups(), address, features.storage_version_hash),
            openapi: OpenApi::new(catalog.groups(), has_issuer),
            catalog,
        }
    }
}

/// Provides the generation that answers a request.
pub struct Generations {
    registry: Registry,
    /// Where clients reach the server, as `host:port` (API-22).
    address: String,
    /// Whether it tells others how to know its tokens.
    has_issuer: bool,
    features: Features,
    derived: RwLock<Arc<Generation>>,
}

impl Generations {
    /// Creates the generations of a registry.
    pub fn new(
        registry: Registry,
        address: String,
        has_issuer: bool,
        features: Features,
    ) -> Generations {
        let first = Generation::of(registry.current(), &address, has_issuer, features);
        Generations {
            registry,
            address,
            has_issuer,
            features,
            derived: RwLock::new(Arc::new(first)),
        }
    }

    /// The current generation. The first request after a change derives it.
    pub fn current(&self) -> Arc<Generation> {
        let catalog = self.registry.current();
        let derived = Arc::clone(&self.derived.read());
        if Arc::ptr_eq(&derived.catalog, &catalog) {
            return derived;
        }
        let next = Generation::of(catalog, &self.address, self.has_issuer, self.features);
        let derived = Arc::new(next);
        *self.derived.write() = Arc::clone(&derived);
        derived
    }
}
