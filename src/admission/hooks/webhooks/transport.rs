//! The sending of reviews.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::ClientConfig;

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
