//! The addresses and ports of Services, and the Service of the API.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use actors::supervisor::ActorSystem;

use crate::config::Config;
use crate::controllers::Sharing;
use crate::controllers::kubernetes_service::{ApiAddress, KubernetesServiceController};
use crate::controllers::master_leases::MasterLeases;
use crate::kinds::validation::addresses::Range;
use crate::registry::services::{PortRange, first_usable};
use crate::registry::{Registry, ServiceNetwork};
use crate::storage::factory::StoragePlan;

use super::factory::UnservedPlans;

/// What Services take of the cluster. Taken ports are stored by this plan.
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

/// The leases of the daemons that share a store. `None` for one that is alone.
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

/// The controller of the Service of the API, for a daemon that listens at an address.
pub(super) fn controller(
    config: &Config,
    registry: &Registry,
    listening: SocketAddr,
    leases: Option<MasterLeases>,
) -> KubernetesServiceController {
    let first = ranges(config).first().copied().map(first_usable);
    let texts = config.service_cluster_ip_range.to_string();
    let address = ApiAddress {
        service: first.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        ranges: texts.split(',').map(str::to_owned).collect(),
        port: listening.port(),
        advertised: config
            .advertise_address
            .0
            .or_else(|| reachable(listening.ip())),
    };
    KubernetesServiceController::new(registry.clone(), address, leases)
}

/// The address at which others reach a daemon that listens here. `None` if nobody else does.
fn reachable(listening: IpAddr) -> Option<IpAddr> {
    let found = match listening {
        ip if !ip.is_unspecified() => Some(ip),
        IpAddr::V4(_) => towards("0.0.0.0:0", "198.51.100.1:9"),
        IpAddr::V6(_) => towards("[::]:0", "[2001:db8::1]:9"),
    };
    found.filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// The own address on the way to another one, which is only for documentation. Nothing is sent.
fn towards(any: &str, other: &str) -> Option<IpAddr> {
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(other).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_for_this_machine_alone_has_no_address_for_others() {
        let reached = |text: &str| reachable(text.parse().unwrap());
        assert_eq!(reached("127.0.0.1"), None);
        assert_eq!(reached("::1"), None);
        let own = "192.0.2.7".parse().unwrap();
        assert_eq!(reached("192.0.2.7"), Some(own));
        assert!(reached("0.0.0.0").is_none_or(|ip| !ip.is_loopback()));
    }
}
