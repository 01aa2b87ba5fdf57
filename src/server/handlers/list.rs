//! GET of a collection.

use std::sync::Arc;

use super::get::refuse_export;
use super::{Answered, Exchange, capability};
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::server::negotiation::Offer;
use crate::server::respond;
use crate::server::routes::Target;

/// A page of objects (http.md 3.6).
pub(super) async fn list(exchange: &Exchange<'_>, target: &Target) -> Answered {
    let definition = target.storage.resource();
    let form = exchange.object_form(Offer::Objects)?;
    refuse_export(exchange)?;
    let options = ListOptions::parse(&exchange.query)?;
    options.validate_list()?;
    let selection = Selection::parse(&options.labels, &options.fields, definition)?;
    let namespace = target.namespace.as_deref();
    let lister = capability(target.storage.lister())?;
    let listing = lister.list(namespace, &options, Arc::new(selection));
    let (list, kind) = (listing.await?, target.storage.response_kind());
    respond::list(&form, kind, list, &exchange.shared.kept_runs).await
}
