//! GET of a collection.

use std::sync::Arc;

use super::get::refuse_export;
use super::{Answered, RequestScope, capability};
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::server::negotiation::Offer;
use crate::server::respond;
use crate::server::routes::Target;

/// A page of objects (http.md 3.6).
pub(super) async fn list(scope: &RequestScope<'_>, target: &Target) -> Answered {
    let definition = target.storage.resource();
    let form = scope.object_form(Offer::Objects)?;
    refuse_export(scope)?;
    let options = ListOptions::parse(&scope.query)?;
    options.validate_list()?;
    let selection = Selection::parse(&options.labels, &options.fields, definition)?;
    let namespace = target.namespace.as_deref();
    let lister = capability(target.storage.lister())?;
    let listing = lister.list(namespace, &options, Arc::new(selection));
    let (list, kind) = (listing.await?, target.storage.response_kind());
    respond::list(&form, kind, list, &scope.server.compressed_runs).await
}
