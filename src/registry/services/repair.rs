//! Finds addresses and ports that Services have and that are not taken, and the other way round.
//! A daemon that was killed in the middle of a write leaves both behind.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::ServiceAllocators;
use super::addresses::holder;
use crate::api::object::Object;
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::kinds::special::services::allocations::{addresses, all_node_ports};
use crate::registry::errors::decoded;
use crate::registry::store::RegistryStore;

/// What nobody seemed to have at the last repair. A write that is under way takes before it writes,
/// so only what nobody has at the next repair either is given back.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    addresses: HashSet<String>,
    ports: Vec<u16>,
    /// The number of allocations that were mended.
    pub mended: usize,
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
        let everything = Arc::new(Selection::default());
        let listed = services
            .list(None, &ListOptions::default(), everything)
            .await?;
        let mut owners: HashMap<IpAddr, (String, String)> = HashMap::new();
        let mut ports = Vec::new();
        for item in listed.items {
            let service = decoded(&item)?;
            ports.extend(all_node_ports(&service));
            for address in addresses(&service) {
                let named = (service.namespace().to_owned(), service.name().to_owned());
                owners.entry(address).or_insert(named);
                match self.addresses.restore(&service, address).await {
                    Ok(is_new) => now.mended += usize::from(is_new),
                    Err(refusal) => {
                        tracing::warn!(%refusal, %address, "can't mend the address of a service");
                    }
                }
            }
        }
        for address in taken {
            if !is_held(&address, &owners) {
                match before.addresses.contains(address.uid()) {
                    true => {
                        self.addresses.delete(&address).await?;
                        now.mended += 1;
                    }
                    false => {
                        now.addresses.insert(address.uid().to_owned());
                    }
                }
            }
        }
        let (leaked, fixed) = self.ports.repair(&ports, &before.ports).await?;
        now.ports = leaked;
        now.mended += fixed.len();
        Ok(now)
    }
}

/// Whether the Service that an IPAddress names has the address.
fn is_held(address: &Object, owners: &HashMap<IpAddr, (String, String)>) -> bool {
    let owner = address
        .name()
        .parse()
        .ok()
        .and_then(|ip: IpAddr| owners.get(&ip));
    let holder = holder(address);
    match (owner, holder) {
        (Some((namespace, name)), Some(holder)) => (namespace.as_str(), name.as_str()) == holder,
        // Not that of a Service.
        (_, None) => true,
        (None, Some(_)) => false,
    }
}
