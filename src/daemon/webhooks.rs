//! The webhooks of the settings.

use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use crate::auth::TokenLookup;
use crate::auth::kubeconfigs::Server;
use crate::auth::webhook::{Caller, ReviewVersion, WebhookTokens};
use crate::config::{Config, FilePath};
use crate::egress::EgressClient;

/// How long a call of a webhook may take, unless it has a time of its own.
const TIMEOUT: Duration = Duration::from_secs(30);

const OF_TOKENS: &str = "authentication-token-webhook-config-file";

/// Reads the kubeconfig of a setting, if it is set.
fn server(setting: &'static str, file: &FilePath) -> Result<Option<Server>, StartError> {
    let server = file.is_set().then(|| Server::load(file.as_path()));
    let server = server.transpose();
    server.map_err(|error| StartError::Kubeconfig { setting, error })
}

/// Checks the files of webhooks.
pub(super) fn check(config: &Config) -> Option<StartError> {
    let file = &config.authentication_token_webhook_config_file;
    server(OF_TOKENS, file).err()
}

/// Returns the webhook for tokens, if there is one. `audiences` are those of the API.
pub(super) fn of_tokens(
    config: &Config,
    client: &Arc<EgressClient>,
    audiences: &[String],
) -> Result<Option<Arc<dyn TokenLookup>>, StartError> {
    let file = &config.authentication_token_webhook_config_file;
    let Some(server) = server(OF_TOKENS, file)? else {
        return Ok(None);
    };
    let caller = Caller::new(Arc::clone(client), server, TIMEOUT);
    let version = &config.authentication_token_webhook_version;
    // The settings were checked.
    let version = ReviewVersion::of(version).unwrap_or(ReviewVersion::V1Beta1);
    let ttl = config.authentication_token_webhook_cache_ttl.0;
    let tokens = WebhookTokens::new(caller, version, ttl, audiences.to_vec());
    Ok(Some(Arc::new(tokens)))
}
