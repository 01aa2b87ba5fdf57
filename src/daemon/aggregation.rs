//! The parts that know of group versions of other servers.

use std::sync::Arc;

use actix_rt::task::JoinHandle;
use actors::supervisor::ActorSystem;

use super::writers::Writers;
use crate::aggregation::{
    APISERVICES, Aggregation, ApiServices, Asker, Discovered, ExtensionDocuments, RemoteServers,
};

/// Follows the APIServices. `None` if they are not served.
pub(super) fn services(actor_system: &ActorSystem) -> Option<Arc<ApiServices>> {
    let cache = actor_system.cacher(APISERVICES)?;
    Some(Arc::new(ApiServices::new(cache)))
}

/// Returns the parts that requests use, and the tasks that ask extensions.
pub(super) fn of(
    services: Option<Arc<ApiServices>>,
    servers: Option<Arc<RemoteServers>>,
    writers: &Writers,
) -> Option<(Arc<Aggregation>, [JoinHandle<()>; 2])> {
    let (services, servers) = (services?, servers?);
    let registrar = writers.registrar()?;
    let asker = Arc::clone(&servers) as Arc<dyn Asker>;
    let discovered = Discovered::new(Arc::clone(&services), Arc::clone(&asker));
    let documents = ExtensionDocuments::new(Arc::clone(&services), asker);
    let asking = [
        actix_rt::spawn(Arc::clone(&discovered).run()),
        actix_rt::spawn(Arc::clone(&documents).run()),
    ];
    let aggregation = Aggregation {
        services,
        registrar: Arc::clone(registrar),
        discovered,
        documents,
        servers,
    };
    Some((Arc::new(aggregation), asking))
}
