//! DELETE of an object (http.md 3.4).

use http::StatusCode;

use super::document::Document;
use super::{Answered, Exchange, capability};
use crate::api::decode::BodyFormat;
use crate::api::options::DeleteOptions;
use crate::api::status::Status;
use crate::registry::store::Answer;
use crate::server::body::RequestBody;
use crate::server::negotiation::Offer;
use crate::server::respond;
use crate::server::routes::Target;

/// Removes an object, or marks it.
pub(super) async fn delete(
    exchange: &Exchange<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let kind = target.storage.response_kind();
    let form = exchange.object_form(Offer::Objects)?;
    let options = options(exchange, body).await?;
    let (place, context) = (target.clone(), exchange.context.clone());
    let deletion = async move {
        let deleter = capability(place.storage.deleter())?;
        deleter.delete(&context, place.object(), &options).await
    };
    let deletion = exchange.carry_out(target.is_heavy(), deletion).await?;
    let code = if deletion.accepted {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    match deletion.answer {
        Answer::Object => respond::object(code, &form, kind, &deletion.object),
        // A Status is never converted (API-73).
        Answer::Status(status) => Ok(respond::document(code, &form, status.to_json())),
    }
}

/// The options of a deletion: a body wins over the query entirely (API-83).
pub(super) async fn options(
    exchange: &Exchange<'_>,
    body: RequestBody,
) -> Result<DeleteOptions, Box<Status>> {
    let body = exchange.read(body).await?;
    if body.is_empty() {
        return DeleteOptions::parse(&exchange.query, &body, BodyFormat::Json);
    }
    let form = exchange.body_form()?;
    let document = Document { body, form };
    let is_heavy = document.is_heavy();
    let query = exchange.query.clone();
    let parsing = async move {
        let (body, format) = document.into_text("v1", "DeleteOptions")?;
        DeleteOptions::parse(&query, &body, format)
    };
    exchange.carry_out(is_heavy, parsing).await
}
