//! POST on a collection (http.md 3.2).

use http::StatusCode;

use super::{Answered, Exchange};
use crate::api::options::{WriteOptions, WriteVerb};
use crate::server::body::RequestBody;
use crate::server::negotiation::Offer;
use crate::server::respond;
use crate::server::routes::Target;

/// Stores a new object.
pub(super) async fn create(
    exchange: &Exchange<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let definition = target.store.definition();
    let form = exchange.object_form(Offer::Objects)?;
    let document = exchange.document(body).await?;
    let options = WriteOptions::parse(&exchange.query, WriteVerb::Create)?;
    let is_heavy = document.is_heavy();
    let (target, context) = (target.clone(), exchange.context.clone());
    let creation = async move {
        let object = document.decode(
            target.store.definition(),
            options.field_validation,
            &context.warnings,
        )?;
        let namespace = target.namespace.as_deref();
        let creating = target.store.create(&context, namespace, object, &options);
        creating.await
    };
    let created = exchange.carry_out(is_heavy, creation).await?;
    respond::object(StatusCode::CREATED, &form, definition, &created)
}
