//! POST on a collection (http.md 3.2), and on an object for which a subresource is created.

use std::sync::Arc;

use http::StatusCode;

use super::{Answered, capability};
use crate::api::deep;
use crate::api::options::{WriteOptions, WriteVerb};
use crate::registry::rest::Created;
use crate::server::negotiation::Offer;
use crate::server::request_scope::RequestScope;
use crate::server::respond::{self, Form};
use crate::server::routes::Target;
use crate::transport::RequestBody;

/// Stores a new object.
pub(super) async fn create(
    scope: &RequestScope<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let form = scope.object_form(Offer::of(target))?;
    let document = scope.document(body, target.storage.request_kind()).await?;
    let options = WriteOptions::parse(&scope.query, WriteVerb::Create)?;
    // Creating a subresource, such as a binding, may change its object, so the object's size
    // counts.
    let is_large = document.is_large() || (!target.name.is_empty() && target.is_large());
    let kind = Arc::clone(target.storage.response_kind());
    let (target, context) = (target.clone(), scope.context.clone());
    let subject = Arc::clone(&scope.record.subject);
    let creation = async move {
        let (storage, object) = (&target.storage, target.object());
        let (validation, warnings) = (options.field_validation, &context.warnings);
        let kind = storage.request_kind();
        let body = deep::retry(|| document.decode(kind, validation, warnings)).await?;
        subject.decoded(&body);
        if object.name.is_empty()
            && let Some(creater) = storage.creater()
        {
            let creating = creater.create(&context, object.namespace, body, &options);
            let created = creating.await;
            if let Ok(Created::Object(object)) = &created {
                subject.created(object.attributes().name());
            }
            return created;
        }
        let creater = capability(storage.named_creater())?;
        let creating = creater.create_named(&context, object, body, &options);
        creating.await
    };
    let respond = move |form: &Form, created| match created {
        Created::Object(object) => respond::object(StatusCode::CREATED, form, &kind, &object),
        // Kubernetes never converts a Status (API-73).
        Created::Status(status) => Ok(respond::document(
            StatusCode::CREATED,
            form,
            status.to_json(),
        )),
    };
    scope.answer(&form, is_large, creation, respond).await
}
