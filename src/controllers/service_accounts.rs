//! Creates the objects that pods need in each namespace to run under a service account (API-262):
//! the account `default`, and the CA certificate of the API in a ConfigMap. Creates them again when
//! they are deleted.

use std::time::Duration;

use actors::engine::Revision;
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Caches, until_stopped};
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

/// The interval between checks of the caches.
const PAUSE: Duration = Duration::from_millis(50);
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
        let mut seen = None;
        loop {
            let now = self.newest();
            if now.is_none() || now == seen {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            match self.look_after_all().await {
                Ok(()) => seen = now,
                Err(status) => {
                    tracing::warn!(
                        %status,
                        "creating the service account of a namespace failed, retrying"
                    );
                    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                }
            }
        }
    }

    /// The last events of the resources, as the caches have them.
    fn newest(&self) -> Option<[(u64, Revision); 3]> {
        let of = |resource| {
            let snapshot = (self.caches)(resource)?.snapshot()?;
            Some((snapshot.epoch, snapshot.last_event()))
        };
        Some([of(NAMESPACES)?, of(ACCOUNTS)?, of(MAPS)?])
    }

    async fn look_after_all(&self) -> Result<(), Box<Status>> {
        let cache = (self.caches)(NAMESPACES);
        let Some((cache, snapshot)) = cache.and_then(|cache| {
            let snapshot = cache.snapshot()?;
            Some((cache, snapshot))
        }) else {
            return Ok(());
        };
        let all = snapshot.range(cache.prefix(), None).flatten();
        let active = all.filter(|namespace| {
            let mut fields = namespace.attributes().fields();
            !fields.any(|field| field == "Terminating")
        });
        let names: Vec<String> = active
            .map(|namespace| namespace.attributes().name().to_owned())
            .collect();
        for some in names.chunks(AT_A_TIME) {
            let looking = some.iter().map(|namespace| self.look_after(namespace));
            join_all(looking)
                .await
                .into_iter()
                .collect::<Result<Vec<()>, _>>()?;
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
