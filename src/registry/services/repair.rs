//! The repair of allocations: it allocates addresses and ports that Services have but that are
//! free, and releases those that no Service has. A daemon that was killed during a write may leave
//! both.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::ServiceAllocators;
use super::addresses::{AddressRefusal, holder, is_managed};
use crate::api::object::Object;
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::kinds::strategies::services::allocations::{addresses, all_node_ports};
use crate::registry::errors::decoded;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::RegistryStore;

/// The result of a repair, and the allocations that had no Service. A Service is written after its
/// allocations are made, so only an allocation without a Service in two consecutive repairs is
/// released.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    /// By the uids of their IPAddresses.
    pub(super) addresses: HashSet<String>,
    pub(super) ports: HashSet<u16>,
    /// The number of repaired allocations.
    pub mended: usize,
}

/// The addresses and ports that Services have.
#[derive(Default)]
struct Held {
    /// The namespaces and names of the Services that have an address. If two have the same one,
    /// only their writers can change that.
    addresses: HashMap<IpAddr, Vec<(String, String)>>,
    ports: HashSet<u16>,
}

impl ServiceAllocators {
    /// Compares the Services with the allocations. `before` is the result of the last repair.
    ///
    /// # Errors
    /// Any failure of the storage. The repairs until then stay.
    pub async fn repair(
        &self,
        services: &RegistryStore,
        before: &Repaired,
    ) -> Result<Repaired, Box<Status>> {
        let mut now = Repaired::default();
        // Allocations are read before Services: a Service that is created in between then has its
        // own allocations and does not make others look unused.
        let taken = self.addresses.all().await?;
        let taken_ports = self.ports.taken().await?;
        let held = Held::by(services).await?;
        // The addresses that stay allocated to the Service in their IPAddress.
        let mut kept = HashSet::new();
        for (address, object) in &taken {
            if held.is_right(*address, object) {
                kept.insert(*address);
            } else if before.addresses.contains(object.uid()) {
                self.addresses.delete(object).await?;
                now.mended += 1;
            } else {
                kept.insert(*address);
                now.addresses.insert(object.uid().to_owned());
            }
        }
        for (address, owners) in &held.addresses {
            let first = owners.first().filter(|_| !kept.contains(address));
            if let Some((namespace, name)) = first {
                let service = NamespacedName::in_namespace(namespace, name);
                match self.addresses.create(service, *address).await {
                    Ok(_) => now.mended += 1,
                    // A new Service has allocated it in the meantime.
                    Err(AddressRefusal::Allocated) => {}
                    Err(refusal) => {
                        tracing::warn!(
                            %refusal,
                            %address,
                            "repairing the address of a service failed"
                        );
                    }
                }
            }
        }
        let repairing = self.ports.repair(&taken_ports, &held.ports, &before.ports);
        let (leaked, fixed) = repairing.await?;
        now.ports = leaked;
        now.mended += fixed.len();
        Ok(now)
    }
}

impl Held {
    async fn by(services: &RegistryStore) -> Result<Held, Box<Status>> {
        let mut held = Held::default();
        let everything = Arc::new(Selection::default());
        let listed = services
            .list(None, &ListOptions::default(), everything)
            .await?;
        for item in listed.items {
            let service = decoded(&item)?;
            held.ports.extend(all_node_ports(&service));
            for address in addresses(&service) {
                let named = (service.namespace().to_owned(), service.name().to_owned());
                held.addresses.entry(address).or_default().push(named);
            }
        }
        Ok(held)
    }

    /// Returns whether an IPAddress is right: it names a Service that has the address, or is not
    /// managed by the allocator.
    fn is_right(&self, address: IpAddr, object: &Object) -> bool {
        let Some(owners) = self.addresses.get(&address) else {
            return !is_managed(object);
        };
        let holder = holder(object);
        let mut owners = owners.iter();
        is_managed(object) && owners.any(|(namespace, name)| holder == Some((namespace, name)))
    }
}
