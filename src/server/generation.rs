//! The documents that the server derives from one generation of the catalog.
//!
//! A generation itself costs nothing: each document is written on its first request. Generations
//! share the documents of a group version as long as that version is the same object
//! ([`Attached`]).

use std::sync::Arc;

use parking_lot::RwLock;

use super::attached::Attached;
use super::discovery::{self, Discovery};
use super::features::Features;
use super::openapi::{self, OpenApi};
use crate::aggregation::Aggregation;
use crate::registry::catalog::GroupVersion;
use crate::registry::{Catalog, Registry};

/// One generation, as a request sees it from its route to its response.
pub struct Generation {
    /// The resources and their stores.
    pub catalog: Arc<Catalog>,
    /// The discovery documents.
    pub discovery: Discovery,
    /// The OpenAPI documents.
    pub openapi: OpenApi,
}

/// The parts that all generations share.
struct Shared {
    discovery: Arc<discovery::Settings>,
    of_discovery: Arc<Attached<GroupVersion, discovery::OfVersion>>,
    of_openapi: Arc<openapi::Shared>,
}

impl Generation {
    fn of(catalog: Arc<Catalog>, shared: &Shared) -> Generation {
        let (settings, of_versions) = (shared.discovery.clone(), shared.of_discovery.clone());
        Generation {
            discovery: Discovery::new(Arc::clone(&catalog), settings, of_versions),
            openapi: OpenApi::new(Arc::clone(&catalog), shared.of_openapi.clone()),
            catalog,
        }
    }
}

/// Provides the generation that answers a request.
pub struct Generations {
    registry: Registry,
    shared: Shared,
    derived: RwLock<Arc<Generation>>,
}

impl Generations {
    /// Creates the generations of a registry. `address` is where clients reach the server, as
    /// `host:port` (API-22). `has_issuer` says whether the server publishes an OpenID
    /// configuration, `aggregation` is absent if APIServices are not served.
    pub fn new(
        registry: Registry,
        address: String,
        has_issuer: bool,
        features: Features,
        aggregation: Option<Arc<Aggregation>>,
    ) -> Generations {
        let settings = discovery::Settings {
            address,
            has_hashes: features.storage_version_hash,
            aggregation: aggregation.clone(),
        };
        let shared = Shared {
            discovery: Arc::new(settings),
            of_discovery: Arc::default(),
            of_openapi: Arc::new(openapi::Shared::new(has_issuer, aggregation)),
        };
        let first = Generation::of(registry.current(), &shared);
        Generations {
            registry,
            shared,
            derived: RwLock::new(Arc::new(first)),
        }
    }

    /// Returns the current generation. The first request after a change creates it.
    pub fn current(&self) -> Arc<Generation> {
        let catalog = self.registry.current();
        let derived = Arc::clone(&self.derived.read());
        if Arc::ptr_eq(&derived.catalog, &catalog) {
            return derived;
        }
        let derived = Arc::new(Generation::of(catalog, &self.shared));
        *self.derived.write() = Arc::clone(&derived);
        derived
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::resource::ResourceDefinition;
    use crate::server::testing::{run, stored};

    fn row(group: &str, number: usize) -> ResourceDefinition {
        let (kind, plural) = (format!("Idle{number}"), format!("idle{number}s"));
        ResourceDefinition::named(group, "v1", &kind, &plural)
    }

    /// A value that was derived from a group version is the same object in every generation that
    /// has the version.
    #[test]
    fn generations_share_what_belongs_to_groups_that_do_not_change() {
        run(async {
            let stored = stored(false).await;
            let registry = &stored.registry;
            let address = "127.0.0.1:6443".to_owned();
            let features = Features::of(|_| true);
            let generations = Generations::new(registry.clone(), address, false, features, None);
            registry.add(stored.open(row("one.example.com", 0)));
            let of = |group: &str| {
                let generation = generations.current();
                let version = generation
                    .catalog
                    .version(group, "v1")
                    .expect("it is served");
                generations.shared.of_discovery.of(version)
            };
            let (apps, one) = (of("apps"), of("one.example.com"));
            let number = registry.current().number();
            registry.add_all((1..100).map(|number| stored.open(row("two.example.com", number))));
            assert_eq!(registry.current().number(), number + 1);
            assert!(Arc::ptr_eq(&apps, &of("apps")));
            assert!(Arc::ptr_eq(&one, &of("one.example.com")));
            let two = of("two.example.com");
            registry.add(stored.open(row("one.example.com", 100)));
            assert!(!Arc::ptr_eq(&one, &of("one.example.com")));
            assert!(Arc::ptr_eq(&two, &of("two.example.com")));
            registry.remove("two.example.com", "v1", "idle7s");
            assert!(!Arc::ptr_eq(&two, &of("two.example.com")));
            assert!(Arc::ptr_eq(&apps, &of("apps")));
        });
    }
}
