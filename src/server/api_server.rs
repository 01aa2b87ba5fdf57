//! The parts that the services of all threads share, built once.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::Engine;
use actors::supervisor::ActorSystem;
use jiff::Timestamp;

use crate::aggregation::{self, Aggregation};
use crate::auth::impersonation::Impersonations;
use crate::auth::{AdminError, Authenticators, Authorizer, RefusedLogins};
use crate::config::AccessLogMode;
use crate::kubelet::Kubelets;
use crate::registry::{Completeness, Registry};
use crate::server::access_log::AccessLog;
use crate::server::audit::Audit;
use crate::server::body_budget::BodyBudget;
use crate::server::encoding::CompressedRuns;
use crate::server::features::Features;
use crate::server::filters::in_flight::{InFlight, InFlightLimits};
use crate::server::filters::response_headers::ResponseHeaders;
use crate::server::filters::seats::Seats;
use crate::server::generation::Generations;
use crate::server::health::Health;
use crate::server::issuer_discovery::IssuerDiscovery;
use crate::server::large_requests::LargeRequests;
use crate::server::metrics::{Lines, Measures};
use crate::server::test_controls::TestControls;
use crate::server::unattended::Unattended;
use crate::storage::backup::BackupSource;
use crate::storage::past::Past;
use crate::storage::rewrite::Rewriter;

/// Replaces the admin's token. Returns the number of watches that end. It writes files, so it may
/// block.
pub type RotateToken = Arc<dyn Fn() -> Result<usize, AdminError> + Send + Sync>;

/// The daemon's own stores, for the endpoints below `/taffrail/v1`.
pub struct OwnStore {
    /// Makes backups.
    pub backup: BackupSource,
    /// Finds the revision that the store had at a given time.
    pub past: Past,
    /// All stores, by the names of their back ends.
    pub engines: Vec<(String, Arc<dyn Engine>)>,
    /// The prefix of every key.
    pub root: String,
}

/// The process, as `/statusz` and `/flagz` show it.
#[derive(Clone, Debug)]
pub struct Process {
    /// When the process started.
    pub started: Timestamp,
    /// The settings by their flags, sorted.
    pub flags: Arc<[(String, String)]>,
}

/// How long requests last.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The limit of requests other than long-running ones (API-15).
    pub request: Duration,
    /// The least time of a watch that names none, in seconds (WA-2). 0 lets it last.
    pub watch_seconds: u64,
}

/// The rules for all requests.
#[derive(Debug)]
pub struct HttpRules {
    /// How long requests last.
    pub timeouts: Timeouts,
    /// Headers of all responses.
    pub response_headers: ResponseHeaders,
}

/// The parts that the services of all threads share.
pub struct ApiServer {
    /// The resources that are served.
    pub generations: Generations,
    /// Authenticates users.
    pub authenticator: Arc<Authenticators>,
    /// Health checks.
    pub health: Arc<Health>,
    /// The actors.
    pub actor_system: ActorSystem,
    /// Rewrites data that was encrypted with old keys.
    pub rewriter: Arc<Rewriter>,
    /// The daemon's own store, if it keeps any resource there.
    pub own_store: Option<OwnStore>,
    /// Replaces the admin's token.
    pub rotate_token: RotateToken,
    /// The documents with which others verify service account tokens, if there is an issuer.
    pub issuer: Option<IssuerDiscovery>,
    /// The audit log, if there is one.
    pub audit: Option<Arc<Audit>>,
    /// The parts that a test may change, if the daemon serves tests.
    pub test: Option<Arc<TestControls>>,
    /// Waits for resources that definitions may bring, if they are served.
    pub(in crate::server) unknown_paths: Option<Arc<dyn Completeness>>,
    /// The group versions of other servers, if APIServices are served.
    pub(in crate::server) aggregation: Option<Arc<Aggregation>>,
    /// The features that feature gates turn on or off.
    pub(in crate::server) features: Features,
    /// How long requests last.
    pub(in crate::server) timeouts: Timeouts,
    /// Headers of all responses.
    pub(in crate::server) response_headers: ResponseHeaders,
    /// The start time and flags that `/statusz` and `/flagz` show.
    pub(in crate::server) process: Process,
    /// The log of requests.
    pub(in crate::server) access_log: AccessLog,
    /// The measurements and the metrics page.
    pub measures: Measures,
    /// The way to kubelets.
    pub kubelets: Kubelets,
    /// Decides what users may do.
    pub(in crate::server) authorizer: Arc<dyn Authorizer>,
    pub(in crate::server) bodies: BodyBudget,
    pub(in crate::server) large_requests: LargeRequests,
    /// The requests that continue without their clients.
    pub(in crate::server) unattended: Arc<Unattended>,
    pub(in crate::server) refused_logins: RefusedLogins,
    /// Decides who may act as whom.
    pub(in crate::server) impersonations: Impersonations,
    pub(in crate::server) in_flight: Arc<InFlight>,
    /// The limit on open watches.
    pub(in crate::server) watch_seats: Arc<Seats>,
    /// Compressed parts of lists.
    pub(in crate::server) compressed_runs: Arc<CompressedRuns>,
}

/// The parts that [`ApiServer`] is built from.
pub struct ApiServerConfig {
    /// The resources that are served.
    pub registry: Registry,
    /// Authenticates users.
    pub authenticator: Arc<Authenticators>,
    /// Decides what users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// Health checks.
    pub health: Arc<Health>,
    /// The actors.
    pub actor_system: ActorSystem,
    /// Rewrites data that was encrypted with old keys.
    pub rewriter: Rewriter,
    /// The daemon's own store, if it keeps any resource there.
    pub own_store: Option<OwnStore>,
    /// Replaces the admin's token.
    pub rotate_token: RotateToken,
    /// The documents with which others verify service account tokens, if there is an issuer.
    pub issuer: Option<IssuerDiscovery>,
    /// The audit log, if there is one.
    pub audit: Option<Arc<Audit>>,
    /// The parts that a test may change, if the daemon serves tests.
    pub test: Option<Arc<TestControls>>,
    /// Waits for resources that definitions may bring, if they are served.
    pub unknown_paths: Option<Arc<dyn Completeness>>,
    /// The group versions of other servers, if APIServices are served.
    pub aggregation: Option<Arc<Aggregation>>,
    /// The features that feature gates turn on or off.
    pub features: Features,
    /// The rules for all requests.
    pub http: HttpRules,
    /// The start time and flags that `/statusz` and `/flagz` show.
    pub process: Process,
    /// The requests that get a line in the log.
    pub access_log: AccessLogMode,
    /// Renders the metrics page. Without it `/metrics` is empty.
    pub metrics: Option<Lines>,
    /// Renders further lines of that page.
    pub metrics_lines: Option<Lines>,
    /// The address where clients reach the server, as `host:port` (API-22).
    pub address: String,
    /// The way to kubelets.
    pub kubelets: Kubelets,
    /// The threads that process large bodies and objects.
    pub large_requests: LargeRequests,
    /// The maximum numbers of concurrent requests and watches (API-18).
    pub limits: InFlightLimits,
}

impl ApiServer {
    /// Returns the metrics page for the resources that are served now.
    pub fn metrics_page(&self) -> String {
        let catalog = Arc::clone(&self.generations.current().catalog);
        self.health.measure();
        let mut page = self
            .measures
            .render(|group, version, plural| catalog.find(group, version, plural).is_some());
        if let Some(aggregation) = &self.aggregation {
            page += &aggregation::metrics::lines(&aggregation.services.current());
        }
        page
    }

    /// Builds the shared parts from their configuration.
    pub fn new(parts: ApiServerConfig) -> ApiServer {
        let in_flight = Arc::new(InFlight::new(parts.limits));
        ApiServer {
            generations: Generations::new(
                parts.registry,
                parts.address,
                parts.issuer.is_some(),
                parts.features,
                parts.aggregation.clone(),
            ),
            kubelets: parts.kubelets,
            measures: Measures::new(
                parts.metrics,
                Arc::clone(&in_flight),
                Some(parts.actor_system.clone()),
            )
            .with_lines(parts.metrics_lines),
            authenticator: parts.authenticator,
            authorizer: parts.authorizer,
            health: parts.health,
            actor_system: parts.actor_system,
            rewriter: Arc::new(parts.rewriter),
            own_store: parts.own_store,
            rotate_token: parts.rotate_token,
            issuer: parts.issuer,
            audit: parts.audit,
            test: parts.test,
            unknown_paths: parts.unknown_paths,
            aggregation: parts.aggregation,
            features: parts.features,
            timeouts: parts.http.timeouts,
            response_headers: parts.http.response_headers,
            process: parts.process,
            access_log: AccessLog::new(parts.access_log),
            bodies: BodyBudget::default(),
            large_requests: parts.large_requests,
            unattended: Arc::default(),
            refused_logins: RefusedLogins::default(),
            impersonations: Impersonations::new(parts.features.constrained_impersonation),
            in_flight,
            watch_seats: Seats::new(parts.limits.watches),
            compressed_runs: Arc::default(),
        }
    }
}
