//! DELETE of an object (http.md 3.4).

use std::sync::Arc;

use http::StatusCode;

use super::document::Document;
use super::{Answered, capability};
use crate::api::decode::BodyFormat;
use crate::api::deep;
use crate::api::options::DeleteOptions;
use crate::api::status::Status;
use crate::kinds::types::TYPES;
use crate::registry::store::{Answer, Deletion};
use crate::server::audit::Holds;
use crate::server::negotiation::Offer;
use crate::server::request_scope::RequestScope;
use crate::server::respond::{self, Form};
use crate::server::routes::Target;
use crate::transport::RequestBody;

/// Deletes an object, or marks it for deletion.
pub(super) async fn delete(
    scope: &RequestScope<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let kind = Arc::clone(target.storage.response_kind());
    let form = scope.object_form(Offer::Objects)?;
    let options = options(scope, body).await?;
    let (place, context) = (target.clone(), scope.context.clone());
    let deletion = async move {
        let deleter = capability(place.storage.deleter())?;
        deleter.begin(&context, Some(&place.name), &options)?;
        deleter.delete(&context, place.object(), &options).await
    };
    let respond = move |form: &Form, deletion: Deletion| {
        let code = match deletion.accepted {
            true => StatusCode::ACCEPTED,
            false => StatusCode::OK,
        };
        match deletion.answer {
            Answer::Object => respond::object(code, form, &kind, &deletion.object),
            // Kubernetes never converts a Status (API-73).
            Answer::Status(status) => Ok(respond::document(code, form, status.to_json())),
        }
    };
    let is_large = target.is_large();
    scope.answer(&form, is_large, deletion, respond).await
}

/// Reads the DeleteOptions. A body replaces the query entirely (API-83).
pub(super) async fn options(
    scope: &RequestScope<'_>,
    body: RequestBody,
) -> Result<DeleteOptions, Box<Status>> {
    let body = scope.read(body, Holds::DeleteOptions).await?;
    if body.is_empty() {
        return Ok(DeleteOptions::parse(&scope.query, &body, BodyFormat::Json)?);
    }
    let form = scope.body_form()?;
    let document = Document { body, form };
    let is_large = document.is_large();
    let query = scope.query.clone();
    let parsing = async move {
        deep::retry_with_room(|| {
            let (body, format) = document.text("v1", "DeleteOptions", &TYPES)?;
            Ok(DeleteOptions::parse(&query, &body, format)?)
        })
    };
    let options = scope.carry_out(is_large, parsing).await?;
    scope.record.subject.decoded_options();
    Ok(options)
}
