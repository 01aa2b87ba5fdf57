//! Access of admission plugins to other resources, through their stores.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actors::object::CachedObject;
use futures_util::future::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::context::RequestContext;
use super::errors::{FailedOperation, decoded, interpret};
use super::namespaced_name::NamespacedName;
use super::store::RegistryStore;
use crate::admission::client::{Answering, Change, ResourceClient};
use crate::api::object::Object;
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::storage::{Asked, GetRequest};

/// How long a namespace without objects is not listed in the store again. A cache over etcd may
/// lag, so an empty answer of the cache alone is not trusted.
const ASKED_FOR: Duration = Duration::from_secs(30);

/// The number of remembered namespaces. When it is reached, all are forgotten and listed again.
const MAX_ASKED: usize = 4096;

/// A limit for lists, above the number of objects that plugins read in one namespace. A list with a
/// limit is answered by the store while the cache fills.
const MOST: usize = 100_000;

/// The deadline of one change.
const TIME: Duration = Duration::from_secs(10);

/// The `resourceVersion` of a list that may be outdated.
const ANY: &str = "0";

/// The client of one resource.
pub(super) struct AdmissionClient {
    store: Arc<RegistryStore>,
    /// Namespaces that the store was asked about, and when it may be asked again.
    asked: Mutex<HashMap<String, Instant>>,
}

impl AdmissionClient {
    pub(super) fn new(store: Arc<RegistryStore>) -> AdmissionClient {
        AdmissionClient {
            store,
            asked: Mutex::default(),
        }
    }

    async fn find(
        &self,
        at: NamespacedName<'_>,
        asked: Asked,
    ) -> Result<Option<Arc<CachedObject>>, Box<Status>> {
        let definition = self.store.definition();
        let key = super::keys::object_key(definition, at.namespace, at.name);
        // No object can have a name that is not a valid path segment.
        let Ok(key) = key else {
            return Ok(None);
        };
        let found = self.store.storage().get(GetRequest { key, asked }).await;
        found.map_err(|error| interpret(error, FailedOperation::Get, definition, at.name))
    }

    async fn all(
        &self,
        namespace: Option<&str>,
        resource_version: &str,
    ) -> Result<Vec<Arc<CachedObject>>, Box<Status>> {
        let everything = Arc::new(Selection::default());
        let options = ListOptions {
            resource_version: resource_version.to_owned(),
            ..ListOptions::default()
        };
        let listed = self
            .store
            .list(namespace, &options, Arc::clone(&everything))
            .await;
        let listed = match listed {
            // The cache is still being filled, so the store answers.
            Err(status) if status.reason == StatusReason::TOO_MANY_REQUESTS => {
                let options = ListOptions {
                    limit: MOST,
                    ..ListOptions::default()
                };
                self.store.list(namespace, &options, everything).await?
            }
            listed => listed?,
        };
        Ok(listed.items)
    }

    /// Returns the objects in a namespace, or all, as [`ResourceClient::list`] says.
    async fn known(&self, namespace: Option<&str>) -> Result<Vec<Arc<CachedObject>>, Box<Status>> {
        if self.store.is_known_empty(namespace) {
            return Ok(Vec::new());
        }
        if self.store.storage().is_always_fresh() {
            return self.all(namespace, "").await;
        }
        let known = self.all(namespace, ANY).await?;
        if known.is_empty() && self.should_ask(namespace.unwrap_or_default()) {
            return self.all(namespace, "").await;
        }
        Ok(known)
    }

    /// Returns whether to list an apparently empty namespace in the store: once in [`ASKED_FOR`].
    fn should_ask(&self, namespace: &str) -> bool {
        let now = Instant::now();
        let mut asked = self.asked.lock();
        if asked.get(namespace).is_some_and(|until| *until > now) {
            return false;
        }
        if asked.len() >= MAX_ASKED {
            asked.clear();
        }
        asked.insert(namespace.to_owned(), now + ASKED_FOR);
        true
    }
}

impl ResourceClient for AdmissionClient {
    fn get<'c>(
        &'c self,
        namespace: Option<&'c str>,
        name: &'c str,
    ) -> Answering<'c, Option<Object>> {
        async move {
            let at = NamespacedName { namespace, name };
            let known = match self.store.storage().is_always_fresh() {
                true => None,
                false => self.find(at, Asked::Any).await?,
            };
            let found = match known {
                Some(found) => Some(found),
                None => self.find(at, Asked::Unset).await?,
            };
            found.map(|found| decoded(&found)).transpose()
        }
        .boxed()
    }

    fn known_version(&self, namespace: Option<&str>, name: &str) -> Option<u64> {
        self.store.known_version(NamespacedName { namespace, name })
    }

    fn list<'c>(&'c self, namespace: Option<&'c str>) -> Answering<'c, Vec<Object>> {
        async move {
            let known = self.known(namespace).await?;
            known.iter().map(|item| decoded(item)).collect()
        }
        .boxed()
    }

    fn labelled<'c>(
        &'c self,
        namespace: &'c str,
        label: (&'c str, &'c str),
    ) -> Answering<'c, Vec<Object>> {
        async move {
            let known = self.known(Some(namespace)).await?;
            let (name, value) = label;
            let found = known.iter();
            let found = found.filter(|item| item.attributes().label(name) == Some(value));
            found.map(|item| decoded(item)).collect()
        }
        .boxed()
    }

    fn change_status<'c>(
        &'c self,
        namespace: Option<&'c str>,
        name: &'c str,
        change: Change<'c>,
    ) -> Answering<'c, ()> {
        async move {
            let context = RequestContext::internal("admission", Instant::now() + TIME);
            let at = NamespacedName { namespace, name };
            let changing = self.store.change_status(&context, at, false, change);
            changing.await.map(|_| ())
        }
        .boxed()
    }
}
