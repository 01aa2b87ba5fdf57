//! DELETE of a collection (http.md 3.5): lists the objects and deletes each of them, several at a
//! time.

use std::sync::Arc;

use actors::object::CachedObject;
use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Mutex;

use super::{Answered, capability, delete};
use crate::api::large::LARGE_BYTES;
use crate::api::options::{DeleteOptions, ListOptions};
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::registry::keys::KeyError;
use crate::registry::rest::Lister;
use crate::registry::{NamespacedName, RequestContext};
use crate::server::negotiation::Offer;
use crate::server::request_scope::RequestScope;
use crate::server::respond;
use crate::server::routes::Target;
use crate::storage::ObjectList;
use crate::transport::RequestBody;

/// The number of objects that are listed at a time, unless the request has a limit (API-118).
const PAGE: usize = 10_000;

/// Deletes the selected objects and returns them as they were listed. This is not atomic: after an
/// error no further deletions begin, and deleted objects stay deleted (API-118, RG-12).
pub(super) async fn delete_collection(
    scope: &RequestScope<'_>,
    target: &Target,
    body: RequestBody,
) -> Answered {
    let (storage, definition) = (&target.storage, target.storage.resource());
    let deleter = capability(storage.collection_deleter())?;
    let form = scope.object_form(Offer::Objects)?;
    let options = ListOptions::parse(&scope.query)?;
    let selection = Selection::parse(&options.labels, &options.fields, definition)?;
    let deletion = delete::options(scope, body).await?;
    options.validate_list()?;
    deleter.begin(&scope.context, None, &deletion)?;
    let pages = Pages {
        lister: deleter,
        namespace: target.namespace.as_deref(),
        selection: Arc::new(selection),
        size: PAGE,
    };
    // An empty namespace, such as an unset variable in a script, must not delete objects
    // everywhere.
    let is_everywhere = definition.is_namespaced() && pages.namespace.is_none_or(str::is_empty);
    let delete = async |items: &[Arc<CachedObject>]| match is_everywhere && !items.is_empty() {
        true => Err(Box::new(Status::bad_request(
            KeyError::NoNamespace.to_string(),
        ))),
        false => delete_items(scope, target, items, &deletion).await,
    };
    let list = pages.delete(options, delete).await?;
    respond::list(
        &form,
        storage.response_kind(),
        list,
        &scope.server.compressed_runs,
    )
    .await
}

/// A collection that is listed page by page.
struct Pages<'p> {
    lister: &'p dyn Lister,
    namespace: Option<&'p str>,
    selection: Arc<Selection>,
    /// The number of objects per page, unless the request has a limit.
    size: usize,
}

impl Pages<'_> {
    /// Deletes each page before it lists the next one. A request with a limit gets exactly one
    /// page. The response has the objects of all pages and the list metadata of the last one
    /// (API-119, RG-12).
    async fn delete(
        &self,
        mut options: ListOptions,
        delete: impl AsyncFn(&[Arc<CachedObject>]) -> Result<(), Box<Status>>,
    ) -> Result<ObjectList, Box<Status>> {
        let is_limited = options.limit > 0;
        if !is_limited {
            options.limit = self.size;
        }
        let mut deleted = Vec::new();
        loop {
            let selection = Arc::clone(&self.selection);
            let listing = self.lister.list(self.namespace, &options, selection);
            let mut page = listing.await?;
            delete(&page.items).await?;
            deleted.append(&mut page.items);
            match &page.continue_token {
                Some(token) if !is_limited => {
                    options.continue_token = Some(token.clone());
                    options.resource_version = String::new();
                    options.version_match = None;
                }
                _ => {
                    page.items = deleted;
                    return Ok(page);
                }
            }
        }
    }
}

/// Deletes these objects, as many at a time as the storage has workers. After an error it waits for
/// deletions that have begun.
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
    // The error of the failed object that comes first in the list.
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

/// Deletes one object. NotFound counts as success, because another client was faster. `large` is
/// held while a large object is deleted, so that one request takes only one of the places for large
/// requests.
async fn delete_item(
    scope: &RequestScope<'_>,
    target: &Target,
    item: &Arc<CachedObject>,
    options: &DeleteOptions,
    large: &Mutex<()>,
) -> Result<(), Box<Status>> {
    let is_large = item.item_body().len() > LARGE_BYTES;
    let _turn = match is_large {
        true => Some(large.lock().await),
        false => None,
    };
    let storage = Arc::clone(&target.storage);
    let context = RequestContext {
        is_for_collection: true,
        ..scope.context.clone()
    };
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::api::object::Object;
    use crate::api::options::{VersionMatchText, WriteOptions};
    use crate::registry::rest::Answering;
    use crate::registry::{Registry, RegistryStore, RequestContext};
    use crate::server::testing::{run, stored};

    /// A lister that passes lists on to the store and records their options.
    struct Listed {
        store: Arc<RegistryStore>,
        options: Mutex<Vec<ListOptions>>,
    }

    impl Lister for Listed {
        fn list<'a>(
            &'a self,
            namespace: Option<&'a str>,
            options: &'a ListOptions,
            selection: Arc<Selection>,
        ) -> Answering<'a, ObjectList> {
            self.options.lock().unwrap().push(options.clone());
            Lister::list(&*self.store, namespace, options, selection)
        }
    }

    impl Listed {
        /// Creates five objects, `a` to `e`.
        async fn five(registry: &Registry, context: &RequestContext) -> Listed {
            let store = registry
                .current()
                .named("priorityclasses.scheduling.k8s.io");
            let store = store.unwrap();
            for name in ["a", "b", "c", "d", "e"] {
                let mut object = Object::of(json!({ "value": 1 }).as_object().unwrap().clone());
                object.set_type("PriorityClass", "scheduling.k8s.io/v1");
                object.set_meta("name", name);
                let options = WriteOptions::default();
                let created = store.create(context, None, object, &options).await;
                created.unwrap();
            }
            Listed {
                store,
                options: Mutex::default(),
            }
        }

        fn pages(&self) -> Pages<'_> {
            Pages {
                lister: self,
                namespace: None,
                selection: Arc::default(),
                size: 2,
            }
        }

        /// Lists all objects.
        async fn all(&self) -> ObjectList {
            let (options, everything) = (ListOptions::default(), Arc::default());
            self.store.list(None, &options, everything).await.unwrap()
        }
    }

    fn context() -> RequestContext {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        RequestContext::internal("test", deadline)
    }

    fn names(items: &[Arc<CachedObject>]) -> Vec<String> {
        let names = items.iter().map(|item| item.attributes().name().to_owned());
        names.collect()
    }

    #[test]
    fn each_page_is_deleted_before_the_next_is_listed_by_its_token_alone_rg_12_api_119() {
        for is_cached in [true, false] {
            run(async {
                let (stored, context) = (stored(is_cached).await, context());
                let listed = Listed::five(&stored.registry, &context).await;
                let version = listed.all().await.revision.0.to_string();
                let options = ListOptions {
                    resource_version: version.clone(),
                    version_match: Some(VersionMatchText::Exact),
                    ..ListOptions::default()
                };
                let pages = Mutex::new(Vec::new());
                let delete = async |items: &[Arc<CachedObject>]| {
                    for item in items {
                        let at = NamespacedName::in_cluster(item.attributes().name());
                        let options = DeleteOptions::default();
                        listed.store.delete(&context, at, &options).await?;
                    }
                    let asked = listed.options.lock().unwrap().len();
                    pages.lock().unwrap().push((asked, names(items)));
                    Ok::<(), Box<Status>>(())
                };
                let list = listed.pages().delete(options, delete).await.unwrap();
                assert_eq!(names(&list.items), ["a", "b", "c", "d", "e"]);
                assert_eq!(
                    (list.continue_token, list.remaining_item_count),
                    (None, None)
                );
                let page = |number, names: &[&str]| {
                    (
                        number,
                        names
                            .iter()
                            .map(ToString::to_string)
                            .collect::<Vec<String>>(),
                    )
                };
                let wanted = [page(1, &["a", "b"]), page(2, &["c", "d"]), page(3, &["e"])];
                assert_eq!(pages.into_inner().unwrap(), wanted);
                assert_eq!(names(&listed.all().await.items), [""; 0]);
                let asked = listed.options.lock().unwrap().clone();
                let [first, others @ ..] = &asked[..] else {
                    panic!("nothing was listed");
                };
                assert_eq!((first.limit, &first.resource_version), (2, &version));
                assert_eq!(first.version_match, Some(VersionMatchText::Exact));
                assert_eq!(first.continue_token, None);
                for options in others {
                    assert_eq!((options.limit, &*options.resource_version), (2, ""));
                    assert_eq!(options.version_match, None);
                    assert!(options.continue_token.is_some());
                }
            });
        }
    }

    #[test]
    fn a_limit_is_exactly_one_page_and_an_error_ends_all_rg_12_api_118() {
        run(async {
            let (stored, context) = (stored(true).await, context());
            let listed = Listed::five(&stored.registry, &context).await;
            let options = ListOptions {
                limit: 3,
                ..ListOptions::default()
            };
            let pages = listed.pages();
            let list = pages.delete(options, async |_| Ok(())).await.unwrap();
            assert_eq!(names(&list.items), ["a", "b", "c"]);
            assert!(list.continue_token.is_some());
            assert_eq!(list.remaining_item_count, Some(2));
            assert_eq!(listed.options.lock().unwrap().len(), 1);

            let refused =
                async |_: &[Arc<CachedObject>]| Err::<(), _>(Box::new(Status::internal("no")));
            let refusal = pages.delete(ListOptions::default(), refused).await;
            assert_eq!(refusal.unwrap_err().code, 500);
            assert_eq!(listed.options.lock().unwrap().len(), 2);
        });
    }
}
