//! DELETE of an object (3.4).

use http::StatusCode;

use super::{Answered, Exchange, as_text};
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
    let definition = target.store.definition();
    let form = exchange.object_form(Offer::Objects)?;
    let options = options(exchange, body).await?;
    let namespace = target.namespace.as_deref();
    let deletion = target
        .store
        .delete(&exchange.context, namespace, &target.name, &options)
        .await?;
    let code = if deletion.accepted {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    match deletion.answer {
        Answer::Object => respond::object(code, &form, definition, &deletion.object),
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
    let (body, format) = as_text(body, form, "v1", "DeleteOptions")?;
    DeleteOptions::parse(&exchange.query, &body, format)
}
