//! `POST /taffrail/v1/compact`: retention now, for operators.

use actors::compactor::CompactError;
use http::StatusCode;
use serde_json::json;

use super::{Answered, Exchange};
use crate::api::status::Status;
use crate::server::respond;

/// Forgets what retention no longer wants and gives the space back, unless `reclaim=false`.
///
/// # Errors
/// 503 when the store can't do it now, 500 when it failed.
pub async fn compact(exchange: &Exchange<'_>) -> Answered {
    let form = exchange.plain_form()?;
    let asked = exchange.query.first("reclaim").is_some();
    let reclaim = !asked || exchange.query.flag("reclaim");
    let report = exchange.shared.house.compactor().compact_now(reclaim).await;
    let report = report.map_err(|error| Box::new(refusal(&error)))?;
    let document = json!({
        "compactedRevision": report.compacted.0,
        "removedRecords": report.removed,
        "reclaimedBytes": report.reclaimed_bytes,
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
