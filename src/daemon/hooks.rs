//! The sources of hooks: their configurations in the watch caches, and the client that calls them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use actors::supervisor::ActorSystem;

use crate::admission::HookSources;
use crate::admission::hooks::HookSource;
use crate::admission::hooks::webhooks::Configuration;
use crate::config::Config;
use crate::registry::hooks::{FollowedHooks, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS};

/// Returns the hooks of users. `None` if their configurations are not served. `address` is that of
/// the daemon.
pub(super) fn of(
    config: &Config,
    actor_system: &ActorSystem,
    address: SocketAddr,
) -> Option<HookSources> {
    let webhooks = |name| {
        let followed = FollowedHooks::<Configuration>::new(actor_system.cacher(name)?);
        Some(Arc::new(followed) as Arc<dyn HookSource<Configuration>>)
    };
    Some(HookSources {
        mutating_webhooks: webhooks(MUTATING_WEBHOOKS)?,
        validating_webhooks: webhooks(VALIDATING_WEBHOOKS)?,
        client: Arc::default(),
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
