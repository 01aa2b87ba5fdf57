//! The chain of authorizers that flags or a file configure (AC-27, AC-33, AC-37, AC-40).

use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use crate::auth::abac::Policies;
use crate::auth::authorization_config::{
    AuthorizerType, BuiltIn, ConfiguredAuthorizers, Entry, Loaded, WebhookEntry,
};
use crate::auth::kubeconfigs::Server;
use crate::auth::webhook::{FailurePolicy, MatchConditions, ReviewVersion, WebhookSettings};
use crate::auth::{Anonymous, Authorizer, Authorizers};
use crate::config::{AuthorizationMode, Config};
use crate::egress::EgressClient;

/// How long a call of the webhook of the flags may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The authorizers that read the objects of the store, as far as they are in use.
pub(super) struct OfObjects {
    /// The authorizer of nodes.
    pub(super) node: Option<Arc<dyn Authorizer>>,
    /// The authorizer of roles and bindings.
    pub(super) rbac: Option<Arc<dyn Authorizer>>,
}

/// The chain.
pub(super) struct Chain {
    /// All authorizers.
    pub(super) all: Arc<dyn Authorizer>,
    /// The same if they follow a file.
    pub(super) configured: Option<Arc<ConfiguredAuthorizers>>,
}

fn refused(problem: impl ToString) -> StartError {
    StartError::Authorization(problem.to_string())
}

/// Checks the files of authorizers.
pub(super) fn check(config: &Config) -> Option<StartError> {
    checked(config).err()
}

fn checked(config: &Config) -> Result<(), StartError> {
    let file = &config.authorization_config;
    let policies = &config.authorization_policy_file;
    let webhook = &config.authorization_webhook_config_file;
    if policies.is_set() {
        Policies::load(policies.as_path()).map_err(refused)?;
    }
    if webhook.is_set() {
        Server::load(webhook.as_path()).map_err(refused)?;
    }
    if file.is_set() {
        let loaded = Loaded::read(file.as_path()).map_err(refused)?;
        if loaded.has(AuthorizerType::Abac) && !policies.is_set() {
            let problem = "authorization-mode ABAC's authorization policy file not passed";
            return Err(refused(problem));
        }
    }
    Ok(())
}

/// Whether an authorizer of this type is configured.
pub(super) fn wants(config: &Config, kind: AuthorizerType) -> bool {
    let file = &config.authorization_config;
    match file.is_set() {
        // A file with faults has ended the start.
        true => Loaded::read(file.as_path()).is_ok_and(|loaded| loaded.has(kind)),
        // linear: six modes at most.
        false => config
            .authorization_mode
            .0
            .iter()
            .any(|mode| type_of(*mode) == kind),
    }
}

/// Returns which anonymous requests are served: none if everything is allowed (AC-27).
pub(super) fn served(config: &Config, wanted: Anonymous) -> Anonymous {
    if wanted == Anonymous::Nowhere || !wants(config, AuthorizerType::AlwaysAllow) {
        return wanted;
    }
    tracing::warn!(
        "AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to \
         false. You should use a different authorizer"
    );
    Anonymous::Nowhere
}

/// Builds the chain of the settings.
///
/// # Errors
/// [`StartError::Authorization`]
pub(super) fn chain(
    config: &Config,
    of_objects: OfObjects,
    client: Arc<EgressClient>,
) -> Result<Chain, StartError> {
    let policies = &config.authorization_policy_file;
    let policies = policies
        .is_set()
        .then(|| Policies::load(policies.as_path()));
    let policies = policies.transpose().map_err(refused)?;
    let built_in = BuiltIn {
        // Without one of its own, the type has no opinion.
        node: Some(
            of_objects
                .node
                .unwrap_or_else(|| Arc::new(Authorizers::new(Vec::new()))),
        ),
        rbac: of_objects.rbac,
        abac: policies.map(|policies| Arc::new(policies) as Arc<dyn Authorizer>),
        client,
    };
    if config.authorization_config.is_set() {
        let loaded = Loaded::read(config.authorization_config.as_path()).map_err(refused)?;
        let configured = ConfiguredAuthorizers::new(loaded, built_in).map_err(refused)?;
        let configured = Arc::new(configured);
        return Ok(Chain {
            all: configured.clone(),
            configured: Some(configured),
        });
    }
    let modes = config.authorization_mode.0.iter();
    let entries = modes.map(|mode| entry(*mode, config)).collect();
    let all = built_in.chain(entries).map_err(refused)?;
    Ok(Chain {
        all: Arc::new(all),
        configured: None,
    })
}

/// The entry of a mode: its name is that of its type in lower case.
fn entry(mode: AuthorizationMode, config: &Config) -> Entry {
    let kind = type_of(mode);
    let name = kind.name().to_ascii_lowercase();
    Entry {
        kind,
        webhook: (mode == AuthorizationMode::Webhook).then(|| webhook(name.clone(), config)),
        name,
    }
}

fn type_of(mode: AuthorizationMode) -> AuthorizerType {
    match mode {
        AuthorizationMode::AlwaysAllow => AuthorizerType::AlwaysAllow,
        AuthorizationMode::AlwaysDeny => AuthorizerType::AlwaysDeny,
        AuthorizationMode::Abac => AuthorizerType::Abac,
        AuthorizationMode::Webhook => AuthorizerType::Webhook,
        AuthorizationMode::Rbac => AuthorizerType::Rbac,
        AuthorizationMode::Node => AuthorizerType::Node,
    }
}

/// The webhook of the flags.
fn webhook(name: String, config: &Config) -> WebhookEntry {
    let version = &config.authorization_webhook_version;
    WebhookEntry {
        settings: WebhookSettings {
            name,
            // The settings were checked.
            version: ReviewVersion::of(version).unwrap_or(ReviewVersion::V1Beta1),
            authorized_ttl: config.authorization_webhook_cache_authorized_ttl.0,
            unauthorized_ttl: config.authorization_webhook_cache_unauthorized_ttl.0,
            failure_policy: FailurePolicy::NoOpinion,
            conditions: MatchConditions::default(),
        },
        timeout: TIMEOUT,
        kubeconfig: config
            .authorization_webhook_config_file
            .as_path()
            .to_owned(),
    }
}
