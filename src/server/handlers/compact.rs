//! `POST /taffrail/v1/compact` runs compaction now.

use actors::compactor::CompactError;
use http::StatusCode;
use serde_json::json;

use super::Answered;
use crate::api::status::Status;
use crate::server::request_scope::RequestScope;
use crate::server::respond;

/// Drops the history that retention no longer needs, and frees its space unless `reclaim=false`.
///
/// # Errors
/// 503 if the store cannot compact now, 500 if compaction failed.
pub async fn compact(scope: &RequestScope<'_>) -> Answered {
    let form = scope.plain_form()?;
    let asked = scope.query.first("reclaim").is_some();
    let reclaim = !asked || scope.query.flag("reclaim");
    let (mut compacted, mut removed, mut reclaimed) = (None, 0, 0);
    for (_, compactor) in scope.server.actor_system.compactors() {
        let report = compactor.compact_now(reclaim).await;
        let report = report.map_err(|error| Box::new(refusal(&error)))?;
        // Report the revision of the first store, because it holds most resources.
        compacted = compacted.or(Some(report.compacted.0));
        removed += report.removed;
        reclaimed += report.reclaimed_bytes;
    }
    let document = json!({
        "compactedRevision": compacted,
        "removedRecords": removed,
        "reclaimedBytes": reclaimed,
    });
    let document = document.to_string().into_bytes();
    Ok(respond::document(StatusCode::OK, &form, document))
}

fn refusal(error: &CompactError) -> Status {
    match error {
        CompactError::Engine(engine) if !engine.is_retryable() => Status::internal(error),
        _ => Status::unavailable(error.to_string(), 1),
    }
}
