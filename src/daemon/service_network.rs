//! The network of Services, and the `kubernetes` Service.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use actors::supervisor::ActorSystem;

use crate::addresses;
use crate::config::{Config, EndpointReconciler};
use crate::controllers::Sharing;
use crate::controllers::kubernetes_service::{ApiAddress, KubernetesServiceController};
use crate::controllers::master_leases::MasterLeases;
use crate::kinds::validation::addresses::Range;
use crate::registry::services::PortRange;
use crate::registry::{Registry, ServiceNetwork};
use crate::storage::factory::StoragePlan;

use super::factory::UnservedPlans;

/// Returns the network from which Services allocate. `taken_ports` plans the storage of allocated
/// node ports.
pub(super) fn of(
    config: &Config,
    taken_ports: &StoragePlan,
    actor_system: &ActorSystem,
) -> ServiceNetwork {
    let node_ports = config.service_node_port_range;
    let kind = taken_ports.resource().hub.clone();
    ServiceNetwork {
        address_ranges: ranges(config),
        node_ports: PortRange {
            first: node_ports.first,
            last: node_ports.last,
        },
        range_allocations: (kind, taken_ports.build(actor_system)),
    }
}

fn ranges(config: &Config) -> Vec<Range> {
    let ranges = config.service_cluster_ip_range.0.iter();
    let ranges = ranges.map(|(address, bits)| Range {
        address: *address,
        bits: *bits,
    });
    ranges.collect()
}

/// Returns the leases of the daemons that share a store, or `None` for a daemon that is alone.
pub(super) fn leases(
    unserved: &UnservedPlans,
    sharing: &Sharing,
    actor_system: &ActorSystem,
) -> Option<MasterLeases> {
    let plan = &unserved.master_leases;
    let is_shared = *sharing != Sharing::Alone;
    let stored = || (plan.resource().hub.clone(), plan.build(actor_system));
    is_shared.then(|| MasterLeases::new(stored()))
}

/// Returns the controller of the `kubernetes` Service, for a daemon that listens at an address.
pub(super) fn controller(
    config: &Config,
    registry: &Registry,
    listening: SocketAddr,
    leases: Option<MasterLeases>,
) -> KubernetesServiceController {
    let first = config.service_cluster_ip_range.first_usable().next();
    let texts = config.service_cluster_ip_range.to_string();
    let address = ApiAddress {
        service: first.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        ranges: texts.split(',').map(str::to_owned).collect(),
        port: match config.advertise_port.0 {
            0 => listening.port(),
            port => port,
        },
        node_port: config.kubernetes_service_node_port,
        advertised: match config.endpoint_reconciler_type {
            EndpointReconciler::Lease => config
                .advertise_address
                .0
                .or_else(|| addresses::reachable(listening.ip())),
            EndpointReconciler::None => None,
        },
    };
    KubernetesServiceController::new(registry.clone(), address, leases)
}
