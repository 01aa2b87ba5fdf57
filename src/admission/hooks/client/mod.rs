//! The client that sends reviews to the webhooks of users (HK-19, HK-35 to HK-45).
//!
//! This folder owns where a webhook is, how it is trusted, by what this daemon authenticates to it,
//! and the words for calls that fail. It
//! takes the body of a review and returns the body of the answer. Admission webhooks and conversion
//! webhooks share it, and read the answers themselves.

mod envelope;
mod metrics;
mod path;
mod services;
mod webhook_client;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::time::Instant;

pub use envelope::{AnsweredReview, ReviewForm};
pub use metrics::describe as describe_metrics;
pub use services::{ClusterServices, ServiceEndpoints};
pub use webhook_client::WebhookClient;

pub use super::failure_lines::FailureLines;
pub use crate::auth::webhook::ReviewVersion;

/// Where a webhook is: a URL, or a Service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConfig {
    /// The URL.
    pub url: Option<String>,
    /// The Service.
    pub service: Option<ServiceReference>,
    /// The certificates that it is trusted by: PEM in base64. Empty for those of the system.
    pub ca_bundle: String,
}

/// A Service of the cluster.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The path of requests.
    pub path: Option<String>,
    /// The port, 443 by default.
    pub port: Option<u16>,
}

/// The reason why a webhook has not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The configuration names no server that could be asked, such as a bundle without
    /// certificates.
    Unusable(String),
    /// The call failed.
    Failed(String),
}

/// Sends reviews to webhooks.
pub trait WebhookTransport: Send + Sync + 'static {
    /// Posts a body and returns the body of the answer. The call ends at the deadline.
    ///
    /// # Errors
    /// The failure, in the words of Kubernetes (HK-37, HK-38, HK-43, HK-44).
    fn post<'p>(
        &'p self,
        server: &'p ClientConfig,
        body: Bytes,
        deadline: Instant,
    ) -> BoxFuture<'p, Result<Bytes, PostError>>;
}
