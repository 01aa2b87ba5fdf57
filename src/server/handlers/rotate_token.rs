//! `POST /taffrail/v1/token/rotate` replaces the admin's token.

use actors::tasks;
use http::StatusCode;
use serde_json::json;

use super::Answered;
use crate::api::status::Status;
use crate::server::request_scope::RequestScope;
use crate::server::respond;

/// Replaces the token. The old one, which authenticated the request, is invalid before this
/// responds.
///
/// # Errors
/// 500 if the new token cannot be written; the old one then stays valid.
pub async fn rotate_token(scope: &RequestScope<'_>) -> Answered {
    let form = scope.plain_form()?;
    let rotate = scope.server.rotate_token.clone();
    let rotated = tasks::spawn_blocking(move || rotate()).await;
    let rotated = rotated.map_err(|error| Box::new(Status::internal(error)))?;
    let watches_ended = rotated.map_err(|error| Box::new(Status::internal(error)))?;
    let document = json!({ "watchesEnded": watches_ended })
        .to_string()
        .into_bytes();
    Ok(respond::document(StatusCode::OK, &form, document))
}
