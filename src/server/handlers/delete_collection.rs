//! DELETE of a collection (http.md 3.5): it lists the objects and deletes each of them, several at
//! a time.

use std::sync::Arc;

use actors::object::CachedObject;
use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Mutex;

use super::{Answered, RequestScope, capability, delete};
use crate::api::options::{DeleteOptions, ListOptions};
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::registry::NamespacedName;
use crate::server::body::RequestBody;
use crate::server::large_requests::LARGE_REQUEST_BYTES;
use crate::server::negotiation::Offer;
use crate::server::respond;
use crate::server::routes::Target;
use crate::storage::ObjectList;

/// How many objects are listed at a time, unless the request says otherwise (API-118).
const PAGE: usize = 10_000;

/// Deletes the selected objects and answers with them as they were listed. This is not atomic:
/// after an error no further deletions begin, and what was deleted stays deleted (API-118, RG-12).
pub(super) async fn delete_collection(
    scope: &RequestScope<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let (storage, definition) = (&target.storage, target.storage.resource());
    let deleter = capability(storage.collection_deleter())?;
    let form = scope.object_form(Offer::Objects)?;
    let mut options = ListOptions::parse(&scope.query)?;
    let selection = Selection::parse(&options.labels, &options.fields, definition)?;
    let selection = Arc::new(selection);
    let deletion = delete::options(scope, body).await?;
    options.validate_list()?;
    let is_limited = options.limit > 0;
    if !is_limited {
        options.limit = PAGE;
    }
    let namespace = target.namespace.as_deref();
    let mut deleted = Vec::new();
    let last_page = loop {
        let listing = deleter.list(namespace, &options, Arc::clone(&selection));
        let page = listing.await?;
        delete_items(scope, target, &page.items, &deletion).await?;
        deleted.extend_from_slice(&page.items);
        match &page.continue_token {
            Some(token) if !is_limited => {
                options.continue_token = Some(token.clone());
                options.resource_version = String::new();
                options.version_match = None;
            }
            _ => break page,
        }
    };
    let list = ObjectList {
        revision: last_page.revision,
        items: deleted,
        continue_token: last_page.continue_token,
        remaining_item_count: last_page.remaining_item_count,
    };
    respond::list(
        &form,
        storage.response_kind(),
        list,
        &scope.server.compressed_runs,
    )
    .await
}

/// Deletes these objects, as many at a time as the storage has workers. After an error it waits for
/// the deletions that have begun.
async fn delete_items(
    scope: &RequestScope<'_>,
    target: &Target,
    items: &[Arc<CachedObject>],
    options: &DeleteOptions,
) -> Result<(), Box<Status>> {
    let workers = capability(target.storage.collection_deleter())?.workers();
    let mut items = items.iter().enumerate();
    let large = Mutex::new(());
    let mut running = FuturesUnordered::new();
    // The error of the object that is first in the list.
    let mut failure: Option<(usize, Box<Status>)> = None;
    loop {
        while failure.is_none() && running.len() < workers {
            let Some((place, item)) = items.next() else {
                break;
            };
            let deletion = delete_item(scope, target, item, options, &large);
            running.push(deletion.map(move |outcome| (place, outcome)));
        }
        match running.next().await {
            Some((_, Ok(()))) => {}
            Some((place, Err(status))) => {
                if failure.as_ref().is_none_or(|(first, _)| place < *first) {
                    failure = Some((place, status));
                }
            }
            None => return failure.map_or(Ok(()), |(_, status)| Err(status)),
        }
    }
}

/// Deletes one object. It counts as deleted if another client was first. `large` is held while a
/// large object is deleted: one request takes one of the places for such work.
async fn delete_item(
    scope: &RequestScope<'_>,
    target: &Target,
    item: &Arc<CachedObject>,
    options: &DeleteOptions,
    large: &Mutex<()>,
) -> Result<(), Box<Status>> {
    let is_large = item.item_body().len() > LARGE_REQUEST_BYTES;
    let _turn = match is_large {
        true => Some(large.lock().await),
        false => None,
    };
    let (storage, context) = (Arc::clone(&target.storage), scope.context.clone());
    let (item, options) = (Arc::clone(item), options.clone());
    let deletion = scope.carry_out(is_large, async move {
        let attributes = item.attributes();
        let is_namespaced = storage.resource().is_namespaced();
        let object = NamespacedName {
            namespace: is_namespaced.then_some(attributes.namespace()),
            name: attributes.name(),
        };
        let deleter = capability(storage.collection_deleter())?;
        deleter.delete(&context, object, &options).await
    });
    match deletion.await {
        Ok(_) => Ok(()),
        Err(status) if status.reason == StatusReason::NOT_FOUND => Ok(()),
        Err(status) => Err(status),
    }
}
