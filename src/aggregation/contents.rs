//! Empties namespaces at extensions, for the namespace controller (CN-25).
//!
//! Discovery says which collections an extension has. Each is deleted by the preferred version that
//! has it, and then listed. Time, bytes and the number of requests at a time are bounded, and one
//! extension does not hold another up.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::asking::{Ask, Asker, ExtensionAnswer};
use super::discovery::{Deletable, Discovered, Said, deletable};
use super::service::ApiService;
use super::view::{ApiServices, View};
use crate::api::percent;
use crate::controllers::{Extensions, RemainingContent, RemainingObjects};

/// The user as whom extensions are asked, as whom the objects here are deleted, too.
const USER: &str = "system:taffrail:namespaces";

/// The time for all requests about a namespace.
const TIME: Duration = Duration::from_secs(45);
/// The time for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The most APIServices whose extensions are asked at a time.
const SERVICES_MAX: usize = 16;
/// The most collections of an APIService that are emptied at a time.
const COLLECTIONS_MAX: usize = 4;
/// The most objects of a collection that are deleted at a time.
const DELETIONS_MAX: usize = 16;
/// The most requests at a time to the extension of one APIService, for all namespaces.
const REQUESTS_MAX: usize = 16;

/// The number of objects on one page of a list.
const PAGE: usize = 250;
/// The longest answer.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The most refusals of an APIService that are shown.
const REFUSALS_MAX: usize = 10;
/// The most characters of a refusal, or of a finalizer, that are shown.
const REFUSAL_LENGTH_MAX: usize = 500;
/// The most finalizers of a collection that are shown.
const FINALIZERS_MAX: usize = 10;

/// The accepted form of lists, and of the answers to deletions of collections.
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The options of a deletion. Dependents are left to the extension's collector.
const OPTIONS: &str =
    "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Background\"}";

/// The characters of names that are not encoded in paths and queries.
const PLAIN: &[u8] = b"-_.~";

/// The group version that is not known before any APIService is.
const OF_APISERVICES: &str = "apiregistration.k8s.io/v1";

/// The content of namespaces at extensions.
pub struct ExtensionContents {
    services: Arc<ApiServices>,
    discovered: Arc<Discovered>,
    asker: Arc<dyn Asker>,
    /// The turns to ask, by the name of the APIService.
    turns: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl ExtensionContents {
    /// Takes the APIServices, which say where extensions are, and the documents that say what they
    /// have.
    pub fn new(
        services: Arc<ApiServices>,
        discovered: Arc<Discovered>,
        asker: Arc<dyn Asker>,
    ) -> ExtensionContents {
        ExtensionContents {
            services,
            discovered,
            asker,
            turns: Mutex::default(),
        }
    }

    async fn known(&self) -> (Arc<View>, Arc<Said>) {
        // If this takes too long, the last state counts. It says whether it is filled.
        let _ = timeout(ANSWER_TIME, self.services.cache().settled()).await;
        (self.services.current(), self.discovered.current())
    }

    /// Returns the turns to ask the extension of an APIService, and forgets those of others that
    /// are gone.
    fn turns(&self, service: &ApiService, view: &View) -> Arc<Semaphore> {
        let mut turns = self.turns.lock();
        if !turns.contains_key(&service.name) {
            turns.retain(|name, _| view.named(name).is_some());
        }
        let turns = turns.entry(service.name.clone());
        Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(REQUESTS_MAX))))
    }
}

impl Extensions for ExtensionContents {
    fn undiscovered(&self) -> BoxFuture<'_, BTreeSet<String>> {
        async move {
            let (view, said) = self.known().await;
            if !view.is_filled() {
                return BTreeSet::from([OF_APISERVICES.to_owned()]);
            }
            let remotes = view.remotes().filter(|service| can_be_asked(service));
            let remotes = remotes.filter(|service| description(service, &said).is_none());
            remotes.map(|service| group_version(service)).collect()
        }
        .boxed()
    }

    fn empty<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, RemainingContent> {
        async move {
            let (view, said) = self.known().await;
            let mut remaining = RemainingContent::default();
            if !view.is_filled() {
                remaining.undiscovered.insert(OF_APISERVICES.to_owned());
            }
            let deadline = Instant::now() + TIME;
            let mut emptyings: Vec<BoxFuture<'_, RemainingContent>> = Vec::new();
            for group in view.groups() {
                let mut seen = HashSet::new();
                let versions = group.versions.iter();
                for service in versions.filter(|one| one.is_remote() && can_be_asked(one)) {
                    let Some(text) = description(service, &said) else {
                        remaining.undiscovered.insert(group_version(service));
                        continue;
                    };
                    let mut resources = deletable(text);
                    resources.retain(|resource| seen.insert(resource.plural.clone()));
                    let emptying = Emptying {
                        asker: &*self.asker,
                        service: Arc::clone(service),
                        turns: self.turns(service, &view),
                        namespace,
                        deadline,
                    };
                    emptyings.push(async move { emptying.empty_all(&resources).await }.boxed());
                }
            }
            let mut emptied = stream::iter(emptyings).buffer_unordered(SERVICES_MAX);
            while let Some(content) = emptied.next().await {
                remaining.extend(content);
            }
            remaining
        }
        .boxed()
    }
}

/// Whether discovery asks the extension of an APIService. Core has none.
fn can_be_asked(service: &ApiService) -> bool {
    !service.group.is_empty()
}

/// Returns what the extension of an APIService says of itself, if it is available.
fn description<'s>(service: &ApiService, said: &'s Said) -> Option<&'s Arc<str>> {
    said.version(&service.name)
        .filter(|_| service.is_available())
}

fn group_version(service: &ApiService) -> String {
    format!("{}/{}", service.group, service.version)
}

/// Why a collection is not empty.
enum Failure {
    /// The extension refused a request.
    Refused(String),
    /// The extension has not answered.
    Unanswered(String),
}

/// The objects that remain in a collection.
#[derive(Default)]
struct Remaining {
    count: usize,
    finalizers: BTreeMap<String, usize>,
}

impl Remaining {
    /// Counts the objects of a page, and a number of others.
    fn of(items: Vec<Item>, others: usize) -> Remaining {
        let mut remaining = Remaining {
            count: items.len().saturating_add(others),
            ..Remaining::default()
        };
        let finalizers = items
            .into_iter()
            .filter_map(|item| item.metadata.finalizers);
        for finalizer in finalizers.flatten() {
            let finalizer = shortened(&finalizer);
            let is_known = remaining.finalizers.contains_key(&finalizer);
            if is_known || remaining.finalizers.len() < FINALIZERS_MAX {
                *remaining.finalizers.entry(finalizer).or_default() += 1;
            }
        }
        remaining
    }
}

/// One page of a list.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Page {
    kind: String,
    metadata: PageMetadata,
    items: Option<Vec<Item>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
    remaining_item_count: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    metadata: ItemMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ItemMetadata {
    name: String,
    /// Its presence means that the object is deleted already and waits for finalizers.
    #[serde(rename = "deletionTimestamp")]
    deleted: Option<IgnoredAny>,
    finalizers: Option<Vec<String>>,
}

/// A refusal, as far as it is shown.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    message: String,
}

/// Empties a namespace at the extension of an APIService.
struct Emptying<'a> {
    asker: &'a dyn Asker,
    service: Arc<ApiService>,
    turns: Arc<Semaphore>,
    namespace: &'a str,
    deadline: Instant,
}

impl Emptying<'_> {
    async fn empty_all(&self, resources: &[Deletable]) -> RemainingContent {
        let mut remaining = RemainingContent::default();
        let emptyings: Vec<BoxFuture<'_, _>> = resources
            .iter()
            .map(|resource| async move { (resource, self.empty(resource).await) }.boxed())
            .collect();
        let mut emptied = stream::iter(emptyings).buffer_unordered(COLLECTIONS_MAX);
        while let Some((resource, outcome)) = emptied.next().await {
            let (plural, group) = (&resource.plural, &self.service.group);
            match outcome {
                Ok(Remaining { count, finalizers }) => {
                    let objects = RemainingObjects {
                        group,
                        version: &self.service.version,
                        plural,
                        count,
                        finalizers: &finalizers,
                        // The count is shown, too.
                        is_expected: remaining.failures.len() >= REFUSALS_MAX,
                    };
                    remaining.add(self.namespace, &objects);
                }
                Err(Failure::Refused(why)) => {
                    if remaining.failures.len() < REFUSALS_MAX {
                        remaining.failures.push(format!("{plural}.{group}: {why}"));
                    }
                }
                Err(Failure::Unanswered(why)) => {
                    // The others would wait as long.
                    remaining.failures.push(format!("{plural}.{group}: {why}"));
                    break;
                }
            }
        }
        remaining
    }

    /// Empties a collection, and returns what remains. A request that the extension does not know
    /// has not failed, as in kube-controller-manager: discovery may be older than the extension.
    async fn empty(&self, resource: &Deletable) -> Result<Remaining, Failure> {
        let path = format!(
            "/apis/{}/namespaces/{}/{}",
            group_version(&self.service),
            self.namespace,
            percent::encoded(resource.plural.as_bytes(), PLAIN)
        );
        let is_deleted = resource.has_delete_collection && self.delete(path.clone()).await?;
        if !resource.has_list {
            return Ok(Remaining::default());
        }
        if !is_deleted {
            self.delete_each(&path).await?;
        }
        let mut token = None;
        // Pages may be empty although others follow.
        while let Some(page) = self.page(&path, token.as_deref()).await? {
            let items = page.items.unwrap_or_default();
            token = page.metadata.next.filter(|next| !next.is_empty());
            if !items.is_empty() || token.is_none() {
                let others = page.metadata.remaining_item_count;
                let others = others.unwrap_or(usize::from(token.is_some()));
                return Ok(Remaining::of(items, others));
            }
        }
        Ok(Remaining::default())
    }

    /// Deletes the objects of a collection one by one. Continues after a refusal.
    async fn delete_each(&self, path: &str) -> Result<(), Failure> {
        let (mut refusal, mut token) = (None, None);
        while let Some(page) = self.page(path, token.as_deref()).await? {
            let items = page.items.unwrap_or_default();
            // Without a name the path would be that of the collection.
            let items = items.iter().map(|item| &item.metadata);
            let items = items.filter(|item| !item.name.is_empty() && item.deleted.is_none());
            let deletions: Vec<BoxFuture<'_, _>> = items
                .map(|item| {
                    let name = percent::encoded(item.name.as_bytes(), PLAIN);
                    self.delete(format!("{path}/{name}")).boxed()
                })
                .collect();
            let mut deleted = stream::iter(deletions).buffer_unordered(DELETIONS_MAX);
            while let Some(outcome) = deleted.next().await {
                match outcome {
                    Ok(_) => {}
                    Err(Failure::Refused(why)) => _ = refusal.get_or_insert(why),
                    Err(unanswered) => return Err(unanswered),
                }
            }
            token = page.metadata.next.filter(|next| !next.is_empty());
            if token.is_none() {
                break;
            }
        }
        refusal.map_or(Ok(()), |why| Err(Failure::Refused(why)))
    }

    /// Deletes an object or a collection. Returns whether the extension knows the request.
    async fn delete(&self, path: String) -> Result<bool, Failure> {
        let body = Bytes::from_static(OPTIONS.as_bytes());
        let answer = self.ask(Method::DELETE, path, body).await?;
        Ok(accepted(answer)?.is_some())
    }

    /// Returns a page of a collection, if the extension knows the request.
    async fn page(&self, path: &str, token: Option<&str>) -> Result<Option<Page>, Failure> {
        let mut path = format!("{path}?limit={PAGE}");
        if let Some(token) = token {
            path.push_str("&continue=");
            path.push_str(&percent::encoded(token.as_bytes(), PLAIN));
        }
        let answer = self.ask(Method::GET, path, Bytes::new()).await?;
        let Some(body) = accepted(answer)? else {
            return Ok(None);
        };
        let unreadable = |why: &str| {
            let why = format!("the answer to a list can't be read: {why}");
            Failure::Refused(shortened(&why))
        };
        let page: Page =
            serde_json::from_slice(&body).map_err(|error| unreadable(&error.to_string()))?;
        match page.kind.ends_with("List") {
            true => Ok(Some(page)),
            false => Err(unreadable("its kind is not that of a list")),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: String,
        body: Bytes,
    ) -> Result<ExtensionAnswer, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(METADATA));
        if !body.is_empty() {
            let json = HeaderValue::from_static("application/json");
            headers.insert(CONTENT_TYPE, json);
        }
        let deadline = self.deadline.min(Instant::now() + ANSWER_TIME);
        let ask = Ask {
            method,
            path,
            user: USER,
            headers,
            body,
            bytes_max: ANSWER_BYTES_MAX,
            deadline,
        };
        let asking = async {
            let _turn = self.turns.acquire().await;
            self.asker.ask(&self.service, ask).await
        };
        match timeout_at(deadline, asking).await {
            Ok(Ok(answer)) => Ok(answer),
            // A fault that shows at once, such as an answer that is too long, is one of this
            // request.
            Ok(Err(why)) if Instant::now() < deadline => Err(Failure::Refused(shortened(&why))),
            Ok(Err(why)) => Err(Failure::Unanswered(shortened(&why))),
            Err(_) => Err(Failure::Unanswered("no answer in time".to_owned())),
        }
    }
}

/// Returns the body of an answer, or `None` if the extension does not know the request.
fn accepted(answer: ExtensionAnswer) -> Result<Option<Bytes>, Failure> {
    match answer.status {
        status if status.is_success() => Ok(Some(answer.body)),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Ok(None),
        status => {
            let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
            Err(Failure::Refused(match &*refusal.message {
                "" => format!("status {}", status.as_u16()),
                message => shortened(message),
            }))
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(REFUSAL_LENGTH_MAX).collect()
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    /// The fault of an extension that doesn't answer.
    const HANGS: &str = "it hangs";

    type Answers = fn(&Ask) -> Result<(u16, Value), String>;

    /// An extension that answers by a function.
    struct Extension {
        answers: Answers,
        asked: Mutex<Vec<String>>,
    }

    impl Asker for Extension {
        fn ask<'a>(
            &'a self,
            _: &'a ApiService,
            ask: Ask,
        ) -> BoxFuture<'a, Result<ExtensionAnswer, String>> {
            let path = ask.path.strip_prefix("/apis/a.example/v1/namespaces/n/");
            let path = path.expect("it is in the namespace");
            self.asked.lock().push(format!("{} {path}", ask.method));
            let answer = (self.answers)(&ask).map(|(code, body)| ExtensionAnswer {
                status: StatusCode::from_u16(code).expect("a code"),
                headers: HeaderMap::new(),
                body: body.to_string().into(),
            });
            match answer {
                Err(why) if why == HANGS => std::future::pending().boxed(),
                answer => std::future::ready(answer).boxed(),
            }
        }
    }

    /// The content that remains, and the requests.
    async fn emptied(
        answers: Answers,
        resources: usize,
        has_delete_collection: bool,
    ) -> (RemainingContent, Vec<String>) {
        let extension = Extension {
            answers,
            asked: Mutex::default(),
        };
        let service = ApiService {
            group: "a.example".to_owned(),
            version: "v1".to_owned(),
            ..ApiService::default()
        };
        let emptying = Emptying {
            asker: &extension,
            service: Arc::new(service),
            turns: Arc::new(Semaphore::new(REQUESTS_MAX)),
            namespace: "n",
            deadline: Instant::now() + TIME,
        };
        let resources = (0..resources).map(|number| Deletable {
            plural: format!("r{number}"),
            has_list: true,
            has_delete_collection,
        });
        let resources: Vec<Deletable> = resources.collect();
        let remaining = emptying.empty_all(&resources).await;
        (remaining, extension.asked.into_inner())
    }

    fn list(items: &Value) -> Value {
        json!({"kind": "RList", "metadata": {}, "items": items})
    }

    #[tokio::test]
    async fn all_pages_are_deleted_object_by_object_cn_25() {
        let (remaining, asked) = emptied(
            |ask| {
                Ok(match &*ask.path {
                    path if path.ends_with("/b") => (403, json!({"message": "not b"})),
                    _ if ask.method == Method::DELETE => (200, json!({})),
                    path if path.ends_with("continue=a%26b") => {
                        (200, list(&json!([{"metadata": {"name": "c/d"}}])))
                    }
                    _ => {
                        let items = [json!({"metadata": {"name": "a"}}), json!({})];
                        let others = json!({"metadata": {"name": "b", "finalizers": ["f", "g"]}});
                        let mut page = list(&json!([items[0], items[1], others]));
                        page["metadata"] = json!({"continue": "a&b", "remainingItemCount": 1});
                        (200, page)
                    }
                })
            },
            1,
            false,
        )
        .await;
        assert_eq!(remaining.failures, ["r0.a.example: not b"]);
        let mut deleted: Vec<_> = asked.iter().filter(|one| one.contains("DELETE")).collect();
        deleted.sort_unstable();
        assert_eq!(deleted, ["DELETE r0/a", "DELETE r0/b", "DELETE r0/c%2Fd"]);
    }

    #[tokio::test]
    async fn remaining_objects_are_counted_with_their_finalizers_cn_25() {
        let (remaining, asked) = emptied(
            |ask| {
                let mut page =
                    list(&json!([{"metadata": {"name": "b", "finalizers": ["f", "g"]}}]));
                page["metadata"]["remainingItemCount"] = 7.into();
                Ok(match ask.method {
                    Method::DELETE => (200, json!({})),
                    _ => (200, page),
                })
            },
            1,
            true,
        )
        .await;
        assert_eq!(asked, ["DELETE r0", "GET r0?limit=250"]);
        assert_eq!(remaining.resources, [("r0.a.example".to_owned(), 8)].into());
        let finalizers = [("f".to_owned(), 1), ("g".to_owned(), 1)];
        assert_eq!(remaining.finalizers, finalizers.into());
        assert!(remaining.failures.is_empty());
    }

    /// An empty list is one only if it is a list.
    #[tokio::test]
    async fn other_answers_than_a_list_are_failures_cn_25() {
        for (answers, is_empty) in [
            (
                (|_| {
                    Ok((
                        200,
                        json!({"kind": "PartialObjectMetadataList", "items": null}),
                    ))
                }) as Answers,
                true,
            ),
            (|_| Ok((404, json!({}))), true),
            (|_| Ok((405, json!(null))), true),
            (|_| Ok((200, json!({}))), false),
            (|_| Ok((200, json!({"kind": "Status"}))), false),
            (|_| Ok((200, json!({"kind": "RList", "items": 1}))), false),
            (|_| Ok((301, list(&json!([])))), false),
            (|_| Ok((503, list(&json!([])))), false),
        ] {
            for has_delete_collection in [true, false] {
                let (remaining, _) = emptied(answers, 1, has_delete_collection).await;
                assert_eq!(remaining.is_empty(), is_empty, "{remaining:?}");
            }
        }
    }

    /// Pages of a list may be empty. Objects that wait for finalizers are not deleted again.
    #[tokio::test]
    async fn pages_without_objects_are_no_empty_collection_cn_25() {
        let (remaining, asked) = emptied(
            |ask| {
                let (items, next) = match &*ask.path {
                    path if path.ends_with("continue=b") => {
                        let names: Vec<String> =
                            (0..50).map(|number| format!("f{number}")).collect();
                        let metadata = json!({"name": "a", "deletionTimestamp": "t",
                            "finalizers": names});
                        (json!([{ "metadata": metadata }]), "c")
                    }
                    path if path.ends_with("continue=c") => (json!([]), ""),
                    _ => (json!([]), "b"),
                };
                let mut page = list(&items);
                page["metadata"]["continue"] = next.into();
                Ok((200, page))
            },
            1,
            false,
        )
        .await;
        assert_eq!(remaining.resources, [("r0.a.example".to_owned(), 2)].into());
        assert_eq!(remaining.finalizers.len(), FINALIZERS_MAX);
        assert!(asked.iter().all(|one| one.starts_with("GET")), "{asked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_bounded_and_a_request_without_an_answer_is_the_last_one_cn_25() {
        let refusal: Answers = |_| Ok((500, json!({"message": "x".repeat(100_000)})));
        let (remaining, asked) = emptied(refusal, 100, true).await;
        assert_eq!((remaining.failures.len(), asked.len()), (REFUSALS_MAX, 100));
        assert!(remaining.failures.iter().all(|one| one.len() < 600));
        let (remaining, asked) = emptied(|_| Err(HANGS.to_owned()), 100, true).await;
        assert_eq!(remaining.failures, ["r0.a.example: no answer in time"]);
        assert!(asked.len() <= COLLECTIONS_MAX, "{asked:?}");
        // Another fault of a request stops no other one.
        let (remaining, asked) = emptied(|_| Err("too long".to_owned()), 100, true).await;
        assert_eq!((remaining.failures.len(), asked.len()), (REFUSALS_MAX, 100));
    }
}
