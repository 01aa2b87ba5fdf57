//! DELETE of a collection (http.md 3.5): it lists the objects and deletes each of them.

use std::sync::Arc;

use super::{Answered, RequestScope, capability, delete};
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::StatusReason;
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
/// after an error the earlier objects stay deleted (API-118).
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
        for item in &page.items {
            let is_large = item.item_body().len() > LARGE_REQUEST_BYTES;
            let (storage, context) = (Arc::clone(storage), scope.context.clone());
            let (item_to_delete, deletion) = (Arc::clone(item), deletion.clone());
            let done = scope.carry_out(is_large, async move {
                let is_namespaced = storage.resource().is_namespaced();
                let attributes = item_to_delete.attributes();
                let object = NamespacedName {
                    namespace: is_namespaced.then_some(attributes.namespace()),
                    name: attributes.name(),
                };
                let deleter = capability(storage.collection_deleter())?;
                deleter.delete(&context, object, &deletion).await
            });
            match done.await {
                Ok(_) => deleted.push(Arc::clone(item)),
                // Another client deleted the object first.
                Err(status) if status.reason == StatusReason::NOT_FOUND => {
                    deleted.push(Arc::clone(item))
                }
                Err(status) => return Err(status),
            }
        }
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
