//! The OpenAPI documents of extensions (CN-26, CN-27).
//!
//! One task asks each server once, whatever number of APIServices it has: a second after one of
//! them appears or changes, then each minute. The part of a v2 document that is merged stays, as
//! compressed text. v3 documents are read from the extension when a client asks for one; only their
//! list stays. Time, bytes and the number of questions at a time are bounded.

mod convert;
mod reduced;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use actors::tasks;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::StatusCode;
use http::header::{ACCEPT, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use parking_lot::RwLock;
use serde::Deserialize;
use tokio::time::Instant;

use super::asking::ExtensionAnswer;
use super::asking::{Ask, Asker};
use super::questions::{Inquirer, Key, Pauses, Questions, keep_asking};
use super::service::ApiService;
use super::view::ApiServices;
use crate::controllers::Milestone;
pub use reduced::{DEFINITIONS, Members, PARAMETERS, Parts, Reduced, redirect};

/// The user as whom extensions are asked.
const USER: &str = "system:aggregator";

/// The longest document.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// The longest list of v3 documents.
const INDEX_BYTES_MAX: usize = 256 << 10;
/// The most bytes of all merged v2 documents, as text.
const MERGED_BYTES_MAX: usize = 32 << 20;
/// The longest hash of a document that is passed on.
const HASH_MAX: usize = 256;

/// The documents of all extensions.
#[derive(Clone, Default)]
pub struct Documents {
    by_server: BTreeMap<Key, ServerDocuments>,
    edition: u64,
}

/// The documents of one server.
#[derive(Clone, Default)]
struct ServerDocuments {
    services: Vec<Arc<ApiService>>,
    v2: Option<Arc<Reduced>>,
    /// The hashes of v3 documents by key. `None` if the server has none.
    v3: Option<Arc<BTreeMap<String, String>>>,
}

/// Where the v3 document about a group version comes from.
pub enum V3Source {
    /// From the server of an APIService.
    Extension(Arc<ApiService>),
    /// From the v2 document.
    Converted(Arc<Reduced>),
}

impl Documents {
    /// Returns the merged parts of v2 documents.
    pub fn v2(&self) -> impl Iterator<Item = &Arc<Reduced>> {
        self.by_server.values().filter_map(|of| of.v2.as_ref())
    }

    /// Returns a number that changes with each document.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Returns the keys of the v3 documents of extensions, with the hashes of the documents.
    pub fn v3(&self) -> impl Iterator<Item = (String, &str)> {
        self.by_server.values().flat_map(|server| {
            server.services.iter().filter_map(move |service| {
                let key = format!("apis/{}/{}", service.group, service.version);
                let hash = match (&server.v3, &server.v2) {
                    (Some(index), _) => index.get(&key)?.as_str(),
                    (None, Some(v2)) => v2.hash(),
                    (None, None) => return None,
                };
                Some((key, hash))
            })
        })
    }

    /// Returns where the v3 document about a group version of an extension comes from.
    pub fn source(&self, group: &str, version: &str) -> Option<V3Source> {
        let mut servers = self.by_server.values();
        // linear: few servers, when a client wants a document of one of them.
        servers.find_map(|server| {
            let mut services = server.services.iter();
            // linear: a server has a few APIServices.
            let service = services.find(|one| one.group == group && one.version == version)?;
            match (&server.v3, &server.v2) {
                (Some(_), _) => Some(V3Source::Extension(Arc::clone(service))),
                (None, Some(v2)) => Some(V3Source::Converted(Arc::clone(v2))),
                (None, None) => None,
            }
        })
    }
}

/// Returns the v3 document about a group version that is made from a v2 document.
pub fn converted(v2: &Reduced, group: &str, version: &str) -> Option<Bytes> {
    let document = v2.read(|parts| convert::version(parts, group, version));
    Some(document?.to_string().into())
}

/// Follows the OpenAPI documents of extensions.
pub struct ExtensionDocuments {
    services: Arc<ApiServices>,
    asker: Arc<dyn Asker>,
    documents: RwLock<Arc<Documents>>,
    /// Reached once the APIServices are known, so that their servers are asked.
    pub begun: Milestone,
}

/// The tags of the documents of a server.
#[derive(Clone, Default)]
pub(super) struct Tags {
    v2: Option<HeaderValue>,
}

/// The answers of a server.
pub(super) struct Outcome {
    v3: Option<BTreeMap<String, String>>,
    /// `None` if it has not changed.
    v2: Option<Option<Arc<Reduced>>>,
    tags: Tags,
    has_failed: bool,
}

impl ExtensionDocuments {
    /// Follows these APIServices. The task is [`ExtensionDocuments::run`].
    pub fn new(services: Arc<ApiServices>, asker: Arc<dyn Asker>) -> Arc<ExtensionDocuments> {
        Arc::new(ExtensionDocuments {
            services,
            asker,
            documents: RwLock::default(),
            begun: Milestone::default(),
        })
    }

    /// Returns the documents as they are known now.
    pub fn current(&self) -> Arc<Documents> {
        Arc::clone(&self.documents.read())
    }

    /// Reads a v3 document from its extension.
    ///
    /// # Errors
    /// The extension has not answered.
    pub async fn v3(
        &self,
        service: &ApiService,
        query: Option<&str>,
        headers: HeaderMap,
    ) -> Result<ExtensionAnswer, String> {
        let (group, version) = (&service.group, &service.version);
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("/openapi/v3/apis/{group}/{version}{query}");
        let asked = ask_for(path, headers, DOCUMENT_BYTES_MAX);
        self.asker.ask(service, asked).await
    }

    /// Asks extensions until the daemon stops.
    pub async fn run(self: Arc<Self>) {
        keep_asking(&*self).await;
    }

    fn change(&self, change: impl FnOnce(&mut Documents)) {
        let mut documents = self.documents.write();
        let documents = Arc::make_mut(&mut *documents);
        change(documents);
        documents.edition += 1;
    }
}

impl Inquirer for ExtensionDocuments {
    type Tag = Tags;
    type Outcome = Outcome;

    const PAUSES: Pauses = Pauses {
        first: Duration::from_secs(1),
        each: Duration::from_secs(60),
        failed: Duration::from_secs(5),
    };
    const ASKED_MAX: usize = 4;

    fn services(&self) -> &ApiServices {
        &self.services
    }

    fn begun(&self) -> &Milestone {
        &self.begun
    }

    fn ask(&self, services: Vec<Arc<ApiService>>, tag: Tags) -> BoxFuture<'static, Outcome> {
        let asker = Arc::clone(&self.asker);
        async move { ask(&*asker, &services, tag).await }.boxed()
    }

    /// Takes an APIService, or that it is gone. Then its part of the documents goes at once.
    fn take(&self, questions: &mut Questions<Tags>, name: &str, service: Option<&Arc<ApiService>>) {
        let is_known = questions.has(name);
        questions.set(name, service, Instant::now());
        if is_known && service.is_none() {
            self.change(|documents| {
                for server in documents.by_server.values_mut() {
                    let before = server.services.len();
                    server.services.retain(|one| one.name != name);
                    if server.services.len() < before {
                        // The next answer has the part of the others.
                        server.v2 = None;
                    }
                }
                documents
                    .by_server
                    .retain(|_, server| !server.services.is_empty());
            });
        }
    }

    fn answered(&self, questions: &mut Questions<Tags>, key: &Key, outcome: Outcome) {
        let Outcome {
            v3,
            v2,
            tags,
            has_failed,
        } = outcome;
        let services = questions.ended(key, has_failed, Some(tags), Instant::now());
        if services.is_empty() {
            return;
        }
        let known = self.current();
        let before = known.by_server.get(key);
        let v2 = v2.unwrap_or_else(|| before.and_then(|server| server.v2.clone()));
        let others = known.by_server.iter().filter(|(other, _)| *other != key);
        let others = others.filter_map(|(_, server)| server.v2.as_ref());
        let bytes: usize = others.map(|v2| v2.plain_bytes()).sum();
        let v2 = v2.filter(|v2| {
            let fits = bytes + v2.plain_bytes() <= MERGED_BYTES_MAX;
            if !fits {
                let (namespace, name) = (&key.service.namespace, &key.service.name);
                tracing::warn!(
                    namespace,
                    name,
                    "the OpenAPI documents of aggregated servers are \
                    too long: this one is left out"
                );
            }
            fits
        });
        let v3 = v3.map(Arc::new);
        let is_as_before = before.is_some_and(|server| {
            let hash = |v2: &Option<Arc<Reduced>>| v2.as_ref().map(|v2| v2.hash().to_owned());
            server.v3 == v3
                && hash(&server.v2) == hash(&v2)
                && server
                    .services
                    .iter()
                    .map(|one| &one.name)
                    .eq(services.iter().map(|one| &one.name))
        });
        if is_as_before {
            return;
        }
        let server = ServerDocuments { services, v2, v3 };
        self.change(|documents| {
            documents.by_server.insert(key.clone(), server);
        });
    }
}

fn ask_for(path: String, headers: HeaderMap, bytes_max: usize) -> Ask {
    Ask::get(path, USER, headers, bytes_max)
}

/// The list of v3 documents.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Index {
    paths: HashMap<String, IndexEntry>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IndexEntry {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

/// Asks a server for its documents.
async fn ask(asker: &dyn Asker, services: &[Arc<ApiService>], tags: Tags) -> Outcome {
    let mut outcome = Outcome {
        v3: None,
        v2: None,
        tags: tags.clone(),
        has_failed: true,
    };
    let Some(first) = services.first() else {
        return outcome;
    };
    let json = || {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers
    };
    let index = ask_for("/openapi/v3".to_owned(), json(), INDEX_BYTES_MAX);
    if let Ok(answer) = asker.ask(first, index).await
        && answer.status == StatusCode::OK
    {
        outcome.v3 = read_index(&answer.body, services);
    }
    let mut headers = json();
    if let Some(tag) = tags.v2 {
        headers.insert(IF_NONE_MATCH, tag);
    }
    let document = ask_for("/openapi/v2".to_owned(), headers, DOCUMENT_BYTES_MAX);
    match asker.ask(first, document).await {
        Ok(answer) if answer.status == StatusCode::NOT_MODIFIED => outcome.has_failed = false,
        Ok(answer) if answer.status == StatusCode::OK => {
            outcome.tags.v2 = answer.headers.get(ETAG).cloned();
            let versions = services.iter();
            let versions = versions.map(|one| (one.group.clone(), one.version.clone()));
            let versions: Vec<(String, String)> = versions.collect();
            let reducing = tasks::spawn_blocking(move || Reduced::of(&answer.body, &versions));
            let reduced = reducing.await.map_err(|error| error.to_string());
            let reduced = reduced.and_then(|reduced| reduced);
            outcome.has_failed = reduced.is_err();
            if let Err(why) = &reduced {
                tracing::warn!(
                    apiservice = first.name,
                    why,
                    "an OpenAPI document can't be read"
                );
            }
            outcome.v2 = Some(reduced.ok().map(Arc::new));
        }
        _ => {
            outcome.tags.v2 = None;
            outcome.v2 = Some(None);
            outcome.has_failed = outcome.v3.is_none();
        }
    }
    outcome
}

/// Returns the hashes of the documents about these APIServices, by key.
fn read_index(body: &[u8], services: &[Arc<ApiService>]) -> Option<BTreeMap<String, String>> {
    let index: Index = serde_json::from_slice(body).ok()?;
    let hashes = services.iter().filter_map(|service| {
        let key = format!("apis/{}/{}", service.group, service.version);
        let entry = index.paths.get(&key)?;
        let hash = entry.url.split_once("?hash=").map(|(_, hash)| hash);
        let hash = hash.unwrap_or_default();
        let is_plain = hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let hash = if is_plain && hash.len() <= HASH_MAX {
            hash
        } else {
            ""
        };
        Some((key, hash.to_owned()))
    });
    Some(hashes.collect())
}
