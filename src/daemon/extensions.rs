//! The servers of APIServices, and the controller of their availability.

use std::sync::Arc;

use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::credentials::Credentials;
use crate::aggregation::availability::AvailabilityController;
use crate::aggregation::remote::{ProxyIdentitySource, RemoteServers};
use crate::controllers::Setup;
use crate::egress::{EgressClient, Identity};
use crate::registry::Registry;
use crate::transport::tls::ProxyIdentity;

/// Returns what finds and asks the servers of APIServices. `None` if Services are not served.
pub(super) fn servers(
    registry: &Registry,
    credentials: &Arc<Credentials>,
    client: &Arc<EgressClient>,
) -> Option<Arc<RemoteServers>> {
    let services = Arc::clone(registry.services()?);
    let servers = RemoteServers::new(Arc::clone(client), services, identity(credentials));
    Some(Arc::new(servers))
}

/// Adds the controller of the availability of APIServices.
pub(super) fn with_availability(mut setup: Setup, servers: Option<&Arc<RemoteServers>>) -> Setup {
    if let Some(servers) = servers {
        let (registry, caches) = (setup.registry.clone(), Arc::clone(&setup.caches));
        let controller = AvailabilityController::new(registry, caches, Arc::clone(servers));
        setup.further.push(Arc::new(controller));
    }
    setup
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
