//! The requests that this server itself sends to extensions, for discovery and OpenAPI.

use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use tokio::time::Instant;

use super::service::ApiService;
pub use crate::egress::Answer as ExtensionAnswer;

/// The time for a question.
pub const QUESTION_TIME: Duration = Duration::from_secs(5);

/// A GET request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The path and query.
    pub path: String,
    /// The user as whom it is asked, in the group `system:masters`.
    pub user: &'static str,
    /// Further headers.
    pub headers: HeaderMap,
    /// The longest answer.
    pub bytes_max: usize,
    /// When the answer must be complete.
    pub deadline: Instant,
}

/// Asks the servers of APIServices.
pub trait Asker: Send + Sync + 'static {
    /// Asks the server of an APIService.
    ///
    /// # Errors
    /// The reason why it has not answered.
    fn ask<'a>(
        &'a self,
        service: &'a ApiService,
        ask: Ask,
    ) -> BoxFuture<'a, Result<ExtensionAnswer, String>>;
}
