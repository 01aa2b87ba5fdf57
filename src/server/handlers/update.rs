//! PUT on an object (http.md 3.3).

use std::sync::Arc;

use super::document::Document;
use super::written;
use super::{Answered, capability};
use crate::api::deep;
use crate::api::options::{FieldValidation, WriteOptions, WriteVerb};
use crate::api::warnings::Warnings;
use crate::registry::{Replacement, UpdateSource, Written};
use crate::server::audit::Holds;
use crate::server::negotiation::Offer;
use crate::server::request_scope::RequestScope;
use crate::server::respond::{self, Form};
use crate::server::routes::Target;
use crate::transport::RequestBody;

/// Replaces an object.
pub(super) async fn update(
    scope: &RequestScope<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let kind = Arc::clone(target.storage.response_kind());
    let form = scope.object_form(Offer::of(target))?;
    let holds = Holds::Object(Arc::clone(target.storage.request_kind()));
    let body = scope.read(body, holds).await?;
    let options = WriteOptions::parse(&scope.query, WriteVerb::Update)?;
    let form_of_body = scope.form_of(target.storage.request_kind())?;
    let document = Document {
        body,
        form: form_of_body,
    };
    let is_large = document.is_large() || target.is_large();
    let (target, context) = (target.clone(), scope.context.clone());
    let subject = Arc::clone(&scope.record.subject);
    let update = async move {
        let storage = &target.storage;
        let (validation, warnings) = (options.field_validation, &context.warnings);
        let kind = storage.request_kind();
        let object = deep::retry(|| document.decode(kind, validation, warnings)).await?;
        subject.decoded(&object);
        let (storage_again, warned) = (Arc::clone(storage), Warnings::default());
        let again = move || {
            let kind = storage_again.request_kind();
            // The first decoding has already reported these warnings.
            document.decode(kind, FieldValidation::Ignore, &warned)
        };
        let source = UpdateSource::Replace(Replacement::read(object, again));
        let updater = capability(storage.updater())?;
        let updating = updater.update(&context, target.object(), source, &options);
        updating.await
    };
    let respond = move |form: &Form, done: Written| {
        respond::object(written(done.created), form, &kind, &done.object)
    };
    scope.answer(&form, is_large, update, respond).await
}
