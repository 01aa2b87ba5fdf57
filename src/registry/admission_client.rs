//! What admission reads and changes of other resources, answered from their stores.

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

/// How long nobody looks again in the store for what the cache does not have.
const ASKED_FOR: Duration = Duration::from_secs(30);

/// At most this many namespaces are remembered. Beyond it, all are looked up again.
const MAX_ASKED: usize = 4096;

/// More objects than a namespace has of what admission reads.
const MOST: usize = 100_000;

/// How long one change may take.
const TIME: Duration = Duration::from_secs(10);

/// The version of a list that may be old.
const ANY: &str = "0";

/// One resource, for admission.
pub(super) struct AdmissionClient {
    store: Arc<RegistryStore>,
    /// The namespaces that were empty in the store, and until when that is believed.
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
        // What can't be a name names nothing.
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
    ) -> Result<Vec<Object>, Box<Status>> {
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
            // The cache is being filled, so the store answers.
            Err(status) if status.reason == StatusReason::TOO_MANY_REQUESTS => {
                let options = ListOptions {
                    limit: MOST,
                    ..ListOptions::default()
                };
                self.store.list(namespace, &options, everything).await?
            }
            listed => listed?,
        };
        listed.items.iter().map(|item| decoded(item)).collect()
    }

    /// Whether the store should be asked about a namespace. It is so once in a while.
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

    fn list<'c>(&'c self, namespace: Option<&'c str>) -> Answering<'c, Vec<Object>> {
        async move {
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
