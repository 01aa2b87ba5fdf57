//! The parts that know of group versions of other servers.

use std::sync::Arc;

use actix_rt::task::JoinHandle;
use actors::supervisor::ActorSystem;
use actors::tasks;
use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::credentials::Credentials;
use super::readiness;
use super::writers::Writers;
use crate::aggregation::availability::AvailabilityController;
use crate::aggregation::contents::ExtensionContents;
use crate::aggregation::remote::{ProxyIdentitySource, RemoteServers};
use crate::aggregation::{
    APISERVICES, Aggregation, ApiServices, Asker, Discovered, ExtensionDocuments,
};
use crate::controllers::Setup;
use crate::egress::{EgressClient, Identity};
use crate::registry::Registry;
use crate::server::health::Health;
use crate::transport::tls::ProxyIdentity;

/// The APIServices and their servers.
pub(super) struct Remote {
    /// `None` if APIServices are not served.
    services: Option<Arc<ApiServices>>,
    /// Finds and asks the servers. `None` if Services are not served.
    servers: Option<Arc<RemoteServers>>,
    /// The discovery documents of the servers. `None` if there can be none.
    discovered: Option<Arc<Discovered>>,
}

impl Remote {
    /// Follows the APIServices.
    pub(super) fn new(
        registry: &Registry,
        actor_system: &ActorSystem,
        credentials: &Arc<Credentials>,
        client: &Arc<EgressClient>,
    ) -> Remote {
        let cache = actor_system.cacher(APISERVICES);
        let servers = registry.services().map(|services| {
            let (client, services) = (Arc::clone(client), Arc::clone(services));
            let servers = RemoteServers::new(client, services, identity(credentials));
            Arc::new(servers)
        });
        let services = cache.map(|cache| Arc::new(ApiServices::new(cache)));
        let discovered = services.as_ref().zip(servers.as_ref());
        let discovered = discovered
            .map(|(services, servers)| Discovered::new(Arc::clone(services), asker(servers)));
        Remote {
            services,
            servers,
            discovered,
        }
    }

    /// Returns the APIServices.
    pub(super) fn services(&self) -> Option<&Arc<ApiServices>> {
        self.services.as_ref()
    }

    /// Adds the controller of the availability of APIServices, and lets the namespace controller
    /// empty namespaces at their servers.
    pub(super) fn with_controllers(&self, health: &Arc<Health>, mut setup: Setup) -> Setup {
        // Without APIServices the controller has no work.
        let servers = self.servers.as_ref().filter(|_| self.services.is_some());
        let milestones = servers.map(|servers| {
            let (registry, caches) = (setup.registry.clone(), Arc::clone(&setup.caches));
            let controller = AvailabilityController::new(registry, caches, Arc::clone(servers));
            let milestones = controller.milestones();
            setup.further.push(Arc::new(controller));
            milestones
        });
        readiness::wait_for_availability(health, milestones, &setup.stands_by);
        if let (Some(services), Some(servers), Some(discovered)) =
            (&self.services, &self.servers, &self.discovered)
        {
            setup.extensions = Some(Arc::new(ExtensionContents::new(
                Arc::clone(services),
                Arc::clone(discovered),
                asker(servers),
            )));
        }
        setup
    }

    /// Returns the parts that requests use, and starts the tasks that ask extensions.
    pub(super) fn start(
        self,
        writers: &Writers,
        health: &Arc<Health>,
        background: &mut Vec<JoinHandle<()>>,
    ) -> Option<Arc<Aggregation>> {
        let aggregation = self.started(writers, background);
        readiness::wait_for_aggregation(health, aggregation.as_ref());
        aggregation
    }

    fn started(
        self,
        writers: &Writers,
        background: &mut Vec<JoinHandle<()>>,
    ) -> Option<Arc<Aggregation>> {
        let (services, servers) = (self.services?, self.servers?);
        let (discovered, registrar) = (self.discovered?, Arc::clone(writers.registrar()?));
        let documents = ExtensionDocuments::new(Arc::clone(&services), asker(&servers));
        background.extend([
            tasks::spawn_local(Arc::clone(&discovered).run()),
            tasks::spawn_local(Arc::clone(&documents).run()),
        ]);
        Some(Arc::new(Aggregation {
            services,
            registrar,
            discovered,
            documents,
            servers,
        }))
    }
}

fn asker(servers: &Arc<RemoteServers>) -> Arc<dyn Asker> {
    Arc::clone(servers) as Arc<dyn Asker>
}

/// A certificate in the form that requests need, with the one that it was made from.
type Last = Option<(Arc<ProxyIdentity>, Arc<Identity>)>;

fn identity(credentials: &Arc<Credentials>) -> ProxyIdentitySource {
    let credentials = Arc::clone(credentials);
    let last: Mutex<Last> = Mutex::default();
    Box::new(move || {
        let current = credentials.proxy_identity()?;
        let mut last = last.lock();
        if let Some((of, identity)) = &*last
            && Arc::ptr_eq(of, &current)
        {
            return Some(Arc::clone(identity));
        }
        let identity = Arc::new(Identity {
            certificate: current.chain_pem.as_bytes().to_vec(),
            key: Zeroizing::new(current.key_pem.as_bytes().to_vec()),
        });
        *last = Some((current, Arc::clone(&identity)));
        Some(identity)
    })
}
