//! The discovery documents of extensions (CN-21 to CN-24).
//!
//! One task asks each server once, whatever number of APIServices it has: when one of them appears,
//! changes or becomes available, then each minute, and after a failure again and again with growing
//! pauses. Requests read what was said last ([`Said`]) and never wait for an extension. Time, bytes
//! and the number of questions at a time are bounded.

mod documents;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use http::StatusCode;
use http::header::{ACCEPT, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use imbl::OrdMap;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::asking::{Ask, Asker};
use super::questions::{Inquirer, Key, Pauses, Questions, keep_asking};
use super::service::{ApiService, name_of};
use super::view::ApiServices;
use crate::controllers::Milestone;
use documents::Versions;
pub use documents::stale;
pub(super) use documents::{Deletable, deletable};

/// The user as whom extensions are asked.
const USER: &str = "system:kube-aggregator";

/// The aggregated forms that are accepted.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The longest answer of an extension.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// The tag of the last answer.
type AnswerTag = Option<HeaderValue>;

/// The documents of all extensions.
#[derive(Clone, Default)]
pub struct Said {
    /// By the names of APIServices. Those that are missing have not answered.
    versions: OrdMap<String, Arc<str>>,
    edition: u64,
}

impl Said {
    /// Returns the document about the version of an APIService. `None` if its extension has not
    /// answered.
    pub fn version(&self, name: &str) -> Option<&Arc<str>> {
        self.versions.get(name)
    }

    /// Returns a number that changes with each document.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    fn set(&mut self, name: &str, text: Option<Arc<str>>) {
        if self.versions.get(name) == text.as_ref() {
            return;
        }
        self.edition += 1;
        match text {
            Some(text) => self.versions.insert(name.to_owned(), text),
            None => self.versions.remove(name),
        };
    }
}

/// Follows what extensions say.
pub struct Discovered {
    services: Arc<ApiServices>,
    asker: Arc<dyn Asker>,
    said: RwLock<Arc<Said>>,
    /// Reached once the APIServices are known, so that their servers are asked.
    pub begun: Milestone,
}

/// The outcome of a question. `None` means that nothing has changed.
type Outcome = Result<Option<Answered>, String>;

/// The answer of a server.
pub(super) struct Answered {
    versions: Versions,
    tag: Option<HeaderValue>,
}

impl Discovered {
    /// Follows these APIServices. The task is [`Discovered::run`].
    pub fn new(services: Arc<ApiServices>, asker: Arc<dyn Asker>) -> Arc<Discovered> {
        Arc::new(Discovered {
            services,
            asker,
            said: RwLock::default(),
            begun: Milestone::default(),
        })
    }

    /// Returns what was said last.
    pub fn current(&self) -> Arc<Said> {
        Arc::clone(&self.said.read())
    }

    /// Asks extensions until the daemon stops.
    pub async fn run(self: Arc<Self>) {
        keep_asking(&*self).await;
    }

    fn change(&self, change: impl FnOnce(&mut Said)) {
        // The documents before are copied only if a request still uses them.
        change(Arc::make_mut(&mut *self.said.write()));
    }
}

impl Inquirer for Discovered {
    type Tag = AnswerTag;
    type Outcome = Outcome;

    // CN-24
    const PAUSES: Pauses = Pauses {
        first: Duration::ZERO,
        each: Duration::from_secs(60),
        failed: Duration::from_millis(500),
    };
    const ASKED_MAX: usize = 16;

    fn services(&self) -> &ApiServices {
        &self.services
    }

    fn begun(&self) -> &Milestone {
        &self.begun
    }

    fn ask(&self, services: Vec<Arc<ApiService>>, tag: AnswerTag) -> BoxFuture<'static, Outcome> {
        let asker = Arc::clone(&self.asker);
        async move { ask(&*asker, &services, tag).await }.boxed()
    }

    fn take(
        &self,
        questions: &mut Questions<AnswerTag>,
        name: &str,
        service: Option<&Arc<ApiService>>,
    ) {
        if service.is_none() && questions.has(name) {
            self.change(|said| said.set(name, None));
        }
        questions.set(name, service, Instant::now());
    }

    fn answered(&self, questions: &mut Questions<AnswerTag>, key: &Key, outcome: Outcome) {
        if let Err(why) = &outcome {
            let service = &key.service;
            tracing::debug!(
                namespace = service.namespace,
                name = service.name,
                why,
                "an aggregated server has not answered discovery"
            );
        }
        let failed = outcome.is_err();
        let tag = match &outcome {
            Ok(Some(answered)) => Some(answered.tag.clone()),
            Ok(None) => None,
            Err(_) => Some(None),
        };
        let names = questions.ended(key, failed, tag, Instant::now());
        let Some(versions) = (match outcome {
            Ok(None) => return,
            Ok(Some(answered)) => Some(answered.versions),
            Err(_) => Some(Versions::new()),
        }) else {
            return;
        };
        let mut texts: HashMap<String, Arc<str>> = HashMap::new();
        for ((group, version), text) in versions {
            texts.insert(name_of(&group, &version), text.into());
        }
        self.change(|said| {
            for service in names {
                let text =
                    match failed {
                        true => None,
                        false => Some(texts.remove(&service.name).unwrap_or_else(|| {
                            documents::without_resources(&service.version).into()
                        })),
                    };
                said.set(&service.name, text);
            }
        });
    }
}

/// Asks a server about these APIServices.
async fn ask(asker: &dyn Asker, services: &[Arc<ApiService>], tag: Option<HeaderValue>) -> Outcome {
    let Some(first) = services.first() else {
        return Ok(None);
    };
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(AGGREGATED));
    if let Some(tag) = tag.clone() {
        headers.insert(IF_NONE_MATCH, tag);
    }
    let question =
        |path: String, headers: HeaderMap| Ask::get(path, USER, headers, ANSWER_BYTES_MAX);
    let answer = asker
        .ask(first, question("/apis".to_owned(), headers))
        .await?;
    match answer.status {
        StatusCode::NOT_MODIFIED => return Ok(None),
        StatusCode::SERVICE_UNAVAILABLE => return Err("status 503".to_owned()),
        StatusCode::OK => {
            let new = answer.headers.get(ETAG).cloned();
            if new.is_some() && new == tag {
                return Ok(None);
            }
            let is_wanted = |group: &str, version: &str| {
                // linear: a server has a few APIServices.
                let mut services = services.iter();
                services.any(|one| one.group == group && one.version == version)
            };
            // An answer that is not JSON does not have the aggregated form either.
            let aggregated = documents::aggregated(&answer.body, is_wanted).unwrap_or_default();
            if let Some(versions) = aggregated {
                return Ok(Some(Answered { versions, tag: new }));
            }
        }
        _ => {}
    }
    let mut versions = Versions::new();
    for service in services {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let (group, version) = (&service.group, &service.version);
        let path = format!("/apis/{group}/{version}");
        let answer = asker.ask(service, question(path, headers)).await?;
        if answer.status != StatusCode::OK {
            return Err(format!("status {} of its version", answer.status.as_u16()));
        }
        let text = documents::of_plain(&answer.body, version)?;
        versions.insert((group.clone(), version.clone()), text);
    }
    Ok(Some(Answered {
        versions,
        tag: None,
    }))
}
