//! What the services of all threads have in common, built once.

use std::sync::Arc;

use actors::supervisor::ActorSystem;

use crate::registry::Registry;
use crate::server::auth::{
    Authenticators, Authorizers, DiscoveryPolicy, PrivilegedGroup, RefusedLogins,
};
use crate::server::body_budget::BodyBudget;
use crate::server::encoding::CompressedRuns;
use crate::server::filters::in_flight::{InFlight, InFlightLimits};
use crate::server::generation::Generations;
use crate::server::health::Health;
use crate::server::large_requests::LargeRequests;
use crate::server::metrics::{Lines, Measures};
use crate::storage::rewrite::Rewriter;

/// What the services of all threads have in common.
pub struct ApiServer {
    /// What is served.
    pub generations: Generations,
    /// Who knows the users.
    pub authenticator: Arc<Authenticators>,
    /// Health checks.
    pub health: Arc<Health>,
    /// The actors.
    pub actor_system: ActorSystem,
    /// Who writes anew what old keys wrote.
    pub rewriter: Arc<Rewriter>,
    /// What is measured, and its page.
    pub measures: Measures,
    /// Who knows what they may do.
    pub(in crate::server) authorizer: Authorizers,
    pub(in crate::server) bodies: BodyBudget,
    pub(in crate::server) large_requests: LargeRequests,
    pub(in crate::server) refused_logins: RefusedLogins,
    pub(in crate::server) in_flight: Arc<InFlight>,
    /// Compressed parts of lists.
    pub(in crate::server) compressed_runs: Arc<CompressedRuns>,
}

/// What [`ApiServer`] is made of.
pub struct ApiServerConfig {
    /// What is served.
    pub registry: Registry,
    /// Who knows the users.
    pub authenticator: Arc<Authenticators>,
    /// Health checks.
    pub health: Arc<Health>,
    /// The actors.
    pub actor_system: ActorSystem,
    /// Who writes anew what old keys wrote.
    pub rewriter: Rewriter,
    /// The metrics' page; without one `/metrics` is empty.
    pub metrics: Option<Lines>,
    /// Further lines of that page.
    pub metrics_lines: Option<Lines>,
    /// Where clients reach the server, as `host:port` (API-22).
    pub address: String,
    /// Where large bodies and objects are worked on.
    pub large_requests: LargeRequests,
    /// How many requests may be answered at the same time (API-18).
    pub limits: InFlightLimits,
}

impl ApiServer {
    /// The page of metrics, of what is served now.
    pub fn metrics_page(&self) -> String {
        let catalog = Arc::clone(&self.generations.current().catalog);
        self.measures
            .render(|group, version, plural| catalog.find(group, version, plural).is_some())
    }

    /// Builds everything that is built once.
    pub fn new(parts: ApiServerConfig) -> ApiServer {
        let in_flight = Arc::new(InFlight::new(parts.limits));
        ApiServer {
            generations: Generations::new(parts.registry, parts.address),
            measures: Measures::new(
                parts.metrics,
                Arc::clone(&in_flight),
                Some(parts.actor_system.clone()),
            )
            .with_lines(parts.metrics_lines),
            authenticator: parts.authenticator,
            authorizer: Authorizers::new(vec![
                Box::new(PrivilegedGroup),
                Box::new(DiscoveryPolicy),
            ]),
            health: parts.health,
            actor_system: parts.actor_system,
            rewriter: Arc::new(parts.rewriter),
            bodies: BodyBudget::default(),
            large_requests: parts.large_requests,
            refused_logins: RefusedLogins::default(),
            in_flight,
            compressed_runs: Arc::default(),
        }
    }
}
