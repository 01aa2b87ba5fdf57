//! The requests of this server itself to extensions: for discovery, OpenAPI and namespaces.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method};
use tokio::time::Instant;

use super::service::ApiService;
pub use crate::egress::Answer as ExtensionAnswer;

/// The time for a question.
const QUESTION_TIME: Duration = Duration::from_secs(5);

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The method.
    pub method: Method,
    /// The path and query.
    pub path: String,
    /// The user as whom it is asked, in the group `system:masters`.
    pub user: &'static str,
    /// Further headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The longest answer.
    pub bytes_max: usize,
    /// When the answer must be complete.
    pub deadline: Instant,
}

impl Ask {
    /// A GET request.
    pub fn get(path: String, user: &'static str, headers: HeaderMap, bytes_max: usize) -> Ask {
        Ask {
            method: Method::GET,
            path,
            user,
            headers,
            body: Bytes::new(),
            bytes_max,
            deadline: Instant::now() + QUESTION_TIME,
        }
    }
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
