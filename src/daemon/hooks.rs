//! The sources of hooks: their configurations in the watch caches, and the client that calls them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use actors::supervisor::ActorSystem;

use crate::admission::hooks::HookSource;
use crate::admission::hooks::policies::{Binding, Policy};
use crate::admission::hooks::webhooks::Configuration;
use crate::admission::{HookSources, PolicyHooks};
use crate::config::Config;
use crate::egress::EgressClient;
use crate::registry::hooks::{
    FollowedHooks, MUTATING_BINDINGS, MUTATING_POLICIES, MUTATING_WEBHOOKS, VALIDATING_BINDINGS,
    VALIDATING_POLICIES, VALIDATING_WEBHOOKS,
};

/// Returns the hooks of users. `None` if their configurations are not served. `address` is that of
/// the daemon.
pub(super) fn of(
    config: &Config,
    actor_system: &ActorSystem,
    address: SocketAddr,
    client: &Arc<EgressClient>,
) -> Option<HookSources> {
    let webhooks = |name| {
        let followed = FollowedHooks::<Configuration>::new(actor_system.cacher(name)?);
        Some(Arc::new(followed) as Arc<dyn HookSource<Configuration>>)
    };
    let policies = |policies, bindings| {
        let policies = FollowedHooks::<Policy>::new(actor_system.cacher(policies)?);
        let bindings = FollowedHooks::<Binding>::new(actor_system.cacher(bindings)?);
        Some(PolicyHooks {
            policies: Arc::new(policies),
            bindings: Arc::new(bindings),
        })
    };
    Some(HookSources {
        validating_policies: policies(VALIDATING_POLICIES, VALIDATING_BINDINGS)?,
        mutating_policies: policies(MUTATING_POLICIES, MUTATING_BINDINGS)?,
        mutating_webhooks: webhooks(MUTATING_WEBHOOKS)?,
        validating_webhooks: webhooks(VALIDATING_WEBHOOKS)?,
        client: Arc::clone(client),
        own: reachable(address).to_string(),
        to_endpoints: config.enable_aggregator_routing.0,
    })
}

/// Returns an address at which the daemon reaches itself.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}
