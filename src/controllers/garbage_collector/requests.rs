//! The requests of the collector.

use std::time::Duration;

use tokio::time::Instant;

use crate::registry::RequestContext;

/// The time limit for one request.
const TIME: Duration = Duration::from_secs(30);

/// The context of the collector's requests.
pub(super) fn context() -> RequestContext {
    RequestContext::controller("garbage-collector", Instant::now() + TIME)
}
