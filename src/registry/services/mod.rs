//! Allocation of cluster IPs and node ports for Services (API-228).
//!
//! This folder owns the allocations. An address belongs to the Service that its IPAddress names,
//! and creating that object decides between rivals. Ports are the bits of one stored object, at the
//! same key as in kube-apiserver. The folder takes a valid Service and sets its addresses and
//! ports, or returns a `Status`. [`ServiceAllocators::repair`] finds allocations that a crash has
//! left. This folder must not know HTTP.

mod addresses;
mod bitmap;
mod ports;
mod repair;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::Value;

use super::store::{Allocated, Allocation, RegistryStore};
use crate::api::error_list::ErrorList;
use crate::api::field_error::FieldError;
use crate::api::object::Object;
use crate::api::options::DeleteOptions;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::kinds::strategies::services::allocations::{
    AddressDemand, PortDemand, PortUse, address_demands, addresses, all_node_ports,
    complete_families, default_family, missing_families, port_demands, set_addresses, set_ports,
};
use crate::registry::context::RequestContext;
use crate::registry::namespaced_name::NamespacedName;

pub use addresses::{AddressAllocator, AddressRefusal};
pub use ports::{PortAllocator, PortRange, PortRefusal};
pub use repair::Repaired;

/// The deadline of one step of an allocation.
const TIME: std::time::Duration = std::time::Duration::from_secs(30);

/// Returns the context in which allocations are written.
fn context() -> RequestContext {
    RequestContext::internal("service-allocator", tokio::time::Instant::now() + TIME)
}

/// The allocators of addresses and ports.
pub struct ServiceAllocators {
    services: Arc<ResourceDefinition>,
    addresses: AddressAllocator,
    ports: PortAllocator,
    /// The Endpoints resource. The Endpoints of a Service are deleted with it.
    endpoints: Option<Arc<RegistryStore>>,
}

impl ServiceAllocators {
    /// Creates the allocators for these Services.
    pub fn new(
        services: Arc<ResourceDefinition>,
        addresses: AddressAllocator,
        ports: PortAllocator,
        endpoints: Option<Arc<RegistryStore>>,
    ) -> ServiceAllocators {
        ServiceAllocators {
            services,
            addresses,
            ports,
            endpoints,
        }
    }

    fn invalid(&self, object: &Object, faults: &[FieldError]) -> Box<Status> {
        Box::new(Status::invalid_object(
            &self.services,
            object.name(),
            faults,
        ))
    }

    /// Allocates all demanded addresses, or none.
    async fn take_addresses(
        &self,
        object: &Object,
        demands: &[AddressDemand],
        dry_run: bool,
    ) -> Result<Vec<IpAddr>, Box<Status>> {
        let mut taken = Vec::new();
        for demand in demands {
            let taking = self.addresses.take(object, *demand, dry_run);
            match taking.await {
                Ok(address) => taken.push(address),
                Err(refusal) => {
                    if !dry_run {
                        self.addresses.give_back(object, &taken).await;
                    }
                    return Err(self.address_refused(object, *demand, refusal));
                }
            }
        }
        Ok(taken)
    }

    fn address_refused(
        &self,
        object: &Object,
        demand: AddressDemand,
        refusal: AddressRefusal,
    ) -> Box<Status> {
        match (refusal, demand.address) {
            (AddressRefusal::Storage(status), _) => status,
            (refusal, Some(address)) => {
                let all = object
                    .at(&["spec", "clusterIPs"])
                    .cloned()
                    .unwrap_or_default();
                let why = format!("failed to allocate IP {address}: {refusal}");
                self.invalid(object, &[FieldError::invalid("spec.clusterIPs", all, why)])
            }
            (refusal, None) => Box::new(Status::internal(format!(
                "failed to allocate a serviceIP: {refusal}"
            ))),
        }
    }

    fn port_refused(
        &self,
        object: &Object,
        demand: PortDemand,
        refusal: &PortRefusal,
    ) -> Box<Status> {
        let internal = |text: String| Box::new(Status::internal(text));
        match (demand.port_use, demand.port) {
            (PortUse::Port(index), Some(port)) => {
                let path = format!("spec.ports[{index}].nodePort");
                let fault = FieldError::invalid(path, port, refusal.to_string());
                self.invalid(object, &[fault])
            }
            (PortUse::Port(_), None) => {
                internal(format!("failed to allocate a nodePort: {refusal}"))
            }
            (PortUse::HealthCheck, Some(port)) => internal(format!(
                "failed to allocate requested HealthCheck NodePort {port}: {refusal}"
            )),
            (PortUse::HealthCheck, None) => internal(format!(
                "failed to allocate a HealthCheck NodePort 0: {refusal}"
            )),
        }
    }

    async fn give_back(&self, object: &Object, addresses: &[IpAddr], ports: &[u16]) {
        self.addresses.give_back(object, addresses).await;
        if let Err(status) = self.ports.give_back(ports).await {
            tracing::warn!(%status, ?ports, "releasing node ports failed; the repair retries");
        }
    }
}

impl Allocation for ServiceAllocators {
    fn prepare(&self, object: &mut Object, stored: Option<&Object>) -> Result<(), Box<Status>> {
        let families = self.addresses.families();
        default_family(object, stored, &families);
        let errors = ErrorList::of(|errors| missing_families(object, stored, &families, errors));
        match errors.is_empty() {
            true => Ok(()),
            false => Err(self.invalid(object, errors.kept())),
        }
    }

    fn allocate<'a>(
        self: Arc<Self>,
        object: &'a mut Object,
        stored: Option<&'a Object>,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<Box<dyn Allocated>, Box<Status>>> {
        async move {
            let mut errors = ErrorList::new();
            complete_families(object, stored, &self.addresses.families(), &mut errors);
            if !errors.is_empty() {
                return Err(self.invalid(object, errors.kept()));
            }
            let demands = address_demands(object, stored);
            let taken = self.take_addresses(object, &demands, dry_run).await?;
            set_addresses(object, &demands, &taken);
            let demands = port_demands(object, stored);
            let refused = |at: usize, refusal: &PortRefusal| {
                let demand = demands.get(at).copied();
                demand.map(|demand| self.port_refused(object, demand, refusal))
            };
            let wanted: Vec<Option<u16>> = demands.iter().map(|demand| demand.port).collect();
            let ports = match self.ports.take(&wanted, dry_run, &refused).await {
                Ok(ports) => ports,
                Err(status) => {
                    if !dry_run {
                        self.addresses.give_back(object, &taken).await;
                    }
                    return Err(status);
                }
            };
            set_ports(object, &demands, &ports);
            if dry_run {
                return Ok(Box::new(Nothing) as Box<dyn Allocated>);
            }
            Ok(Box::new(Taken::of(&self, object, stored, taken, ports)) as Box<dyn Allocated>)
        }
        .boxed()
    }

    fn release<'a>(&'a self, object: &'a Object) -> BoxFuture<'a, ()> {
        async move {
            let ports: Vec<u16> = all_node_ports(object).into_iter().collect();
            self.give_back(object, &addresses(object), &ports).await;
            let Some(endpoints) = &self.endpoints else {
                return;
            };
            let at = NamespacedName {
                namespace: Some(object.namespace()),
                name: object.name(),
            };
            let deleting = endpoints
                .delete(&context(), at, &DeleteOptions::default())
                .await;
            if let Err(status) = deleting
                && status.code != 404
            {
                tracing::warn!(%status, "deleting the endpoints of a deleted service failed");
            }
        }
        .boxed()
    }
}

/// The allocations of a dry run: none.
struct Nothing;

impl Allocated for Nothing {
    fn written(self: Box<Self>) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn abandoned(self: Box<Self>) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

/// The allocations of a write, and those of the previous object that the new one no longer has.
struct Taken {
    allocators: Arc<ServiceAllocators>,
    /// The Service; only its metadata is used.
    object: Object,
    taken: (Vec<IpAddr>, Vec<u16>),
    given_up: (Vec<IpAddr>, Vec<u16>),
}

impl Taken {
    fn of(
        allocators: &Arc<ServiceAllocators>,
        object: &Object,
        stored: Option<&Object>,
        taken: Vec<IpAddr>,
        ports: Vec<u16>,
    ) -> Taken {
        let has = addresses(object);
        let has_ports: BTreeSet<u16> = all_node_ports(object);
        let before = stored.map(addresses).unwrap_or_default().into_iter();
        let ports_before = stored.map(all_node_ports).unwrap_or_default().into_iter();
        let mut named = Object::default();
        let metadata = object.0.get("metadata").cloned();
        named
            .0
            .insert("metadata".to_owned(), metadata.unwrap_or(Value::Null));
        Taken {
            allocators: Arc::clone(allocators),
            object: named,
            taken: (taken, ports),
            given_up: (
                // linear: a Service has two addresses at most.
                before.filter(|address| !has.contains(address)).collect(),
                ports_before
                    .filter(|port| !has_ports.contains(port))
                    .collect(),
            ),
        }
    }
}

impl Allocated for Taken {
    fn written(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move {
            let (addresses, ports) = &self.given_up;
            self.allocators
                .give_back(&self.object, addresses, ports)
                .await;
        }
        .boxed()
    }

    fn abandoned(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move {
            let (addresses, ports) = &self.taken;
            self.allocators
                .give_back(&self.object, addresses, ports)
                .await;
        }
        .boxed()
    }
}
