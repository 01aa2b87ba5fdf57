//! Finds addresses and ports that Services have and that are not taken, and the other way round.
//! A daemon that was killed in the middle of a write leaves both behind.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::ServiceAllocators;
use super::addresses::{AddressRefusal, holder, is_managed};
use crate::api::object::Object;
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::kinds::special::services::allocations::{addresses, all_node_ports};
use crate::registry::errors::decoded;
use crate::registry::namespaced_name::NamespacedName;
use crate::registry::store::RegistryStore;

/// What nobody seemed to have at the last repair. A write that is under way takes before it writes,
/// so only what nobody has at the next repair either is given back.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    /// By the uids of their IPAddresses.
    pub(super) addresses: HashSet<String>,
    pub(super) ports: HashSet<u16>,
    /// The number of allocations that were mended.
    pub mended: usize,
}

/// What Services have.
#[derive(Default)]
struct Held {
    /// The namespaces and names of the Services that have an address. Two of them is a fault that
    /// only a writer can mend.
    addresses: HashMap<IpAddr, Vec<(String, String)>>,
    ports: HashSet<u16>,
}

impl ServiceAllocators {
    /// Compares what Services have with what is taken. `before` is the last repair.
    ///
    /// # Errors
    /// Any failure of the storage. What was mended until then stays.
    pub async fn repair(
        &self,
        services: &RegistryStore,
        before: &Repaired,
    ) -> Result<Repaired, Box<Status>> {
        let mut now = Repaired::default();
        // What is taken is read first: a Service that comes later has taken its own.
        let taken = self.addresses.all().await?;
        let taken_ports = self.ports.taken().await?;
        let held = Held::by(services).await?;
        // Those that stay with whom they name.
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
                    // A Service that is new has taken it itself.
                    Err(AddressRefusal::Allocated) => {}
                    Err(refusal) => {
                        tracing::warn!(%refusal, %address, "can't mend the address of a service");
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

    /// Whether an IPAddress is as it should be: it names a Service that has the address, or has
    /// nothing to do with Services.
    fn is_right(&self, address: IpAddr, object: &Object) -> bool {
        let Some(owners) = self.addresses.get(&address) else {
            return !is_managed(object);
        };
        let holder = holder(object);
        let mut owners = owners.iter();
        is_managed(object) && owners.any(|(namespace, name)| holder == Some((namespace, name)))
    }
}
