//! GET of a collection.

use std::sync::Arc;

use super::{Answered, capability};
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::server::filters::in_flight::seats_of_list;
use crate::server::negotiation::Offer;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::server::routes::Target;
use crate::storage::Stats;

/// The weight of a counted list among the long reads of a connection, so that 16 run at a time.
const WEIGHT: u32 = 1;

/// Returns a page of objects (http.md 3.6).
pub(super) async fn list(scope: &RequestScope<'_>, target: &Target) -> Answered {
    let definition = target.storage.resource();
    let form = scope.object_form(Offer::Lists)?;
    let options = ListOptions::parse(&scope.query)?;
    options.validate_list()?;
    let selection = Selection::parse(&options.labels, &options.fields, definition)?;
    if options.watch {
        return Err(Box::new(Status::method_not_allowed(definition, "watch")));
    }
    let namespace = target.namespace.as_deref();
    let lister = capability(target.storage.lister())?;
    charge(scope, lister.known_stats(namespace, &selection), &options)?;
    // Lists that are counted before they are sent hold their items meanwhile, so limit their
    // number.
    let _turn = match form.encoding.is_counted() {
        true => scope.reads.turn(WEIGHT).await,
        false => None,
    };
    let listing = lister.list(namespace, &options, Arc::new(selection));
    let (list, kind) = (listing.await?, target.storage.response_kind());
    respond::list(&form, kind, list, &scope.server.compressed_runs).await
}

/// Charges the list seats by the objects and bytes that it examines, because a long list takes more
/// time and memory than a get (RG-14).
fn charge(
    scope: &RequestScope<'_>,
    stats: Option<Stats>,
    options: &ListOptions,
) -> Result<(), Box<Status>> {
    let (Some(counted), Some(stats)) = (scope.counted, stats) else {
        return Ok(());
    };
    // The watch cache ignores the limit for version 0 (LI-46).
    let limit = match options.resource_version.as_str() {
        "0" => 0,
        _ => options.limit,
    };
    if counted.widen(seats_of_list(stats, limit)) {
        return Ok(());
    }
    let text = "Too many requests, please try again later.";
    Err(Box::new(Status::too_many_requests(text, 1)))
}
