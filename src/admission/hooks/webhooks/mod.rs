//! Admission webhooks: servers of users that change or refuse writes (hooks.md sections 0 to 6).
//!
//! This folder owns the two plugins [`MutatingWebhooks`] and [`ValidatingWebhooks`], their
//! configurations, the reviews that webhooks are sent and what their answers mean. It takes a
//! request of the admission chain; the result is a changed object or a `Status`. A call waits in
//! the task of its request, and holds nothing that another request needs. Requests are sent by a
//! [`super::client`], so nothing here knows HTTP.

mod answer;
mod asking;
mod candidates;
mod configuration;
mod metrics;
mod mutating;
mod review;
#[cfg(test)]
mod tests;
mod validating;

pub use configuration::{Configuration, Webhook};
pub use mutating::MutatingWebhooks;
pub use validating::ValidatingWebhooks;

use std::sync::Arc;

use super::HookSource;
use super::client::WebhookTransport;
use crate::admission::client::ResourceClient;
use crate::auth::Authorizer;

/// The dependencies of a plugin that calls webhooks.
#[derive(Clone)]
pub struct WebhookSources {
    /// The configurations.
    pub configurations: Arc<dyn HookSource<Configuration>>,
    /// The labels of namespaces.
    pub namespaces: Arc<dyn ResourceClient>,
    /// Decides what users may do, for conditions.
    pub authorizer: Arc<dyn Authorizer>,
    /// Sends reviews.
    pub transport: Arc<dyn WebhookTransport>,
}
