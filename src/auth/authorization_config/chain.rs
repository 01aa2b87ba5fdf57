//! The chain of the authorizers that a configuration lists (AC-28, AC-33).

use std::sync::Arc;

use super::super::kubeconfigs::{KubeconfigError, Server};
use super::super::webhook::{Caller, WebhookAuthorizer};
use super::super::{AlwaysAllow, AlwaysDeny, Authorizer, Authorizers, Member};
use super::document::{AuthorizerType, Entry, WebhookEntry};
use crate::egress::EgressClient;

/// The authorizers that exist once, and the client by which webhooks are asked.
pub struct BuiltIn {
    /// The authorizer of nodes, if it is in use.
    pub node: Option<Arc<dyn Authorizer>>,
    /// The authorizer of roles and bindings, if it is in use.
    pub rbac: Option<Arc<dyn Authorizer>>,
    /// The policies of a file, if there is one.
    pub abac: Option<Arc<dyn Authorizer>>,
    /// Asks webhooks.
    pub client: Arc<EgressClient>,
}

/// A configuration that is valid on its own but cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// An authorizer that the daemon was not started with.
    #[error("authorizer type {0} is not allowed if it was not enabled at initial server startup")]
    NotEnabled(&'static str),
    /// The kubeconfig of a webhook cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
}

impl BuiltIn {
    /// Builds the chain of these authorizers.
    ///
    /// # Errors
    /// [`ChainError`]
    pub fn chain(&self, entries: Vec<Entry>) -> Result<Authorizers, ChainError> {
        let members = entries.into_iter().map(|entry| {
            Ok(Member {
                kind: entry.kind.name(),
                authorizer: self.authorizer(entry.kind, entry.webhook)?,
                name: entry.name,
            })
        });
        Ok(Authorizers::new(
            members.collect::<Result<_, ChainError>>()?,
        ))
    }

    fn authorizer(
        &self,
        kind: AuthorizerType,
        webhook: Option<WebhookEntry>,
    ) -> Result<Arc<dyn Authorizer>, ChainError> {
        let known = match kind {
            AuthorizerType::AlwaysAllow => Some(Arc::new(AlwaysAllow) as Arc<dyn Authorizer>),
            AuthorizerType::AlwaysDeny => Some(Arc::new(AlwaysDeny) as Arc<dyn Authorizer>),
            AuthorizerType::Node => self.node.clone(),
            AuthorizerType::Rbac => self.rbac.clone(),
            AuthorizerType::Abac => self.abac.clone(),
            AuthorizerType::Webhook => match webhook {
                Some(webhook) => Some(self.webhook(webhook)?),
                None => None,
            },
        };
        known.ok_or(ChainError::NotEnabled(kind.name()))
    }

    fn webhook(&self, entry: WebhookEntry) -> Result<Arc<dyn Authorizer>, ChainError> {
        let server = Server::load(&entry.kubeconfig)?;
        let caller = Caller::new(Arc::clone(&self.client), server, entry.timeout);
        Ok(Arc::new(WebhookAuthorizer::new(entry.settings, caller)))
    }
}
