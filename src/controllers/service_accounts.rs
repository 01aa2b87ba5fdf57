//! Creates the objects that pods need in each namespace to run under a service account (API-262):
//! the account `default`, and the CA certificate of the API in a ConfigMap. Creates them again when
//! they are deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::object::CachedObject;
use actors::ring::RingEvent;
use actors::tasks::until_stopped;
use futures_util::future::{FutureExt, join_all, select_all};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Caches;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::status::{Status, StatusReason};
use crate::registry::{NamespacedName, Registry, RequestContext, UpdateSource};

const NAMESPACES: &str = "namespaces";
const ACCOUNTS: &str = "serviceaccounts";
const MAPS: &str = "configmaps";
const ACCOUNT: &str = "default";
const AUTHORITY: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver \
                           when using internal endpoints such as the internal service IP or \
                           kubernetes.default.svc. No other usage is guaranteed across \
                           distributions of Kubernetes clusters.";

/// The wait before failed writes are retried.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);
/// The number of namespaces that are handled concurrently.
const AT_A_TIME: usize = 16;

/// The objects to create in each namespace.
#[derive(Clone, Debug, Default)]
pub struct Provisions {
    /// Whether the account is created.
    pub accounts: bool,
    /// The certificates for the ConfigMap, in PEM, if it is created.
    pub authority: Option<String>,
}

impl Provisions {
    /// Whether nothing is created.
    pub fn is_empty(&self) -> bool {
        !self.accounts && self.authority.is_none()
    }
}

/// The controller of one daemon.
pub(super) struct ServiceAccountsController {
    registry: Registry,
    caches: Caches,
    provisions: Provisions,
    stopped: watch::Receiver<bool>,
}

impl ServiceAccountsController {
    pub(super) fn new(
        registry: Registry,
        caches: Caches,
        provisions: Provisions,
        stopped: watch::Receiver<bool>,
    ) -> ServiceAccountsController {
        ServiceAccountsController {
            registry,
            caches,
            provisions,
            stopped,
        }
    }

    /// Works until it is stopped.
    pub(super) async fn run(self) {
        until_stopped(self.stopped.clone(), self.follow()).await;
    }

    async fn follow(&self) {
        let followed = [NAMESPACES, ACCOUNTS, MAPS].into_iter();
        let mut followed: Vec<Followed> = followed
            .filter_map(|resource| Some(Followed::new(resource, &(self.caches)(resource)?)))
            .collect();
        let mut due = BTreeSet::new();
        loop {
            let mut sees_all = false;
            for one in &mut followed {
                match one.read(&mut due) {
                    News::Stopped => return,
                    News::All => sees_all = true,
                    News::Some => {}
                }
            }
            if sees_all {
                due.extend(self.active_namespaces());
            }
            if due.is_empty() {
                let changed = followed.iter().map(|one| one.follower.changed().boxed());
                select_all(changed).await;
                continue;
            }
            if let Err(status) = self.look_after_all(&mut due).await {
                tracing::warn!(
                    %status,
                    "creating the service account of a namespace failed, retrying"
                );
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }

    fn active_namespaces(&self) -> Vec<String> {
        let cache = (self.caches)(NAMESPACES);
        let found = cache.and_then(|cache| Some((cache.snapshot()?, cache)));
        let Some((snapshot, cache)) = found else {
            return Vec::new();
        };
        let all = snapshot.range(cache.prefix(), None).flatten();
        let active = all.filter(|namespace| is_active(namespace));
        active
            .map(|namespace| namespace.attributes().name().to_owned())
            .collect()
    }

    /// Looks after these namespaces. Those that it could not look after stay in the set.
    async fn look_after_all(&self, due: &mut BTreeSet<String>) -> Result<(), Box<Status>> {
        let names: Vec<String> = due.iter().cloned().collect();
        for some in names.chunks(AT_A_TIME) {
            let looking = some.iter().map(|namespace| self.look_after(namespace));
            for (namespace, looked) in some.iter().zip(join_all(looking).await) {
                looked?;
                due.remove(namespace);
            }
        }
        Ok(())
    }

    async fn look_after(&self, namespace: &str) -> Result<(), Box<Status>> {
        if self.provisions.accounts {
            let account = named(ACCOUNT, "ServiceAccount");
            self.ensure(ACCOUNTS, namespace, account).await?;
        }
        if let Some(pem) = &self.provisions.authority {
            let mut map = named(AUTHORITY, "ConfigMap");
            let annotations = json!({"kubernetes.io/description": DESCRIPTION});
            map.metadata_mut()
                .insert("annotations".to_owned(), annotations);
            map.0.insert("data".to_owned(), json!({"ca.crt": pem}));
            self.ensure(MAPS, namespace, map).await?;
        }
        Ok(())
    }

    /// Creates an object unless it exists with this data.
    async fn ensure(
        &self,
        resource: &str,
        namespace: &str,
        object: Object,
    ) -> Result<(), Box<Status>> {
        let Some(store) = self.registry.current().named(resource) else {
            return Ok(());
        };
        let name = object.name().to_owned();
        let at = NamespacedName {
            namespace: Some(namespace),
            name: &name,
        };
        let context = RequestContext::controller("service-accounts", Instant::now() + TIME);
        let options = WriteOptions::default();
        let outcome = match store.read(at, "0").await {
            Ok(found) if found.0.get("data") == object.0.get("data") => return Ok(()),
            Ok(mut changed) => {
                let data = object.0.get("data").cloned().unwrap_or_default();
                changed.0.insert("data".to_owned(), data);
                let source = UpdateSource::Replace(changed.into());
                let updating = store.update(&context, at, None, source, &options);
                updating.await.map(|_| ())
            }
            Err(status) if status.code == 404 => {
                let creating = store.create(&context, Some(namespace), object, &options);
                creating.await.map(|_| ())
            }
            Err(status) => Err(status),
        };
        match outcome {
            // Another writer was first, or the namespace is being deleted. The caches will show it.
            Err(status) if is_harmless(&status) => Ok(()),
            outcome => outcome,
        }
    }
}

/// A resource whose changes may make an object necessary.
struct Followed {
    resource: &'static str,
    follower: CacheFollower,
}

/// The result of a read of the news.
#[derive(PartialEq, Eq)]
enum News {
    /// The namespaces in the set.
    Some,
    /// A whole state, so that every namespace is looked at.
    All,
    /// The daemon stops.
    Stopped,
}

impl Followed {
    fn new(resource: &'static str, cache: &CacherHandle) -> Followed {
        // The objects are made in every namespace, so the caches are used from the start on.
        cache.begin_use();
        Followed {
            resource,
            follower: cache.follow(),
        }
    }

    /// Reads all news, and adds the namespaces that they concern.
    fn read(&mut self, due: &mut BTreeSet<String>) -> News {
        let mut news = News::Some;
        loop {
            match self.follower.read() {
                CacheNews::Nothing | CacheNews::Filling => return news,
                CacheNews::Stopped => return News::Stopped,
                CacheNews::State(_) => news = News::All,
                CacheNews::Events(events) => {
                    due.extend(events.iter().filter_map(|event| self.concerned(event)));
                }
            }
        }
    }

    /// Returns the namespace that an event concerns, if any.
    fn concerned(&self, event: &RingEvent) -> Option<String> {
        let object = event.current.as_ref().or(event.previous.as_ref())?;
        let attributes = object.attributes();
        let made = match self.resource {
            NAMESPACES => {
                let is_alive = event.current.is_some() && is_active(object);
                return is_alive.then(|| attributes.name().to_owned());
            }
            ACCOUNTS => ACCOUNT,
            _ => AUTHORITY,
        };
        (attributes.name() == made).then(|| attributes.namespace().to_owned())
    }
}

fn is_active(namespace: &CachedObject) -> bool {
    let mut fields = namespace.attributes().fields();
    !fields.any(|field| field == "Terminating")
}

fn is_harmless(status: &Status) -> bool {
    let is_terminating = status.code == 403 && {
        let details = status.details.iter();
        let mut causes = details.flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    };
    let is_taken = [StatusReason::ALREADY_EXISTS, StatusReason::CONFLICT].contains(&status.reason);
    is_terminating || is_taken || status.code == 404
}

fn named(name: &str, kind: &str) -> Object {
    let mut object = Object::default();
    object.set_type(kind, "v1");
    object.set_meta("name", name);
    object
}
