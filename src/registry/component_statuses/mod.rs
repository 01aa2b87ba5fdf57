//! The health of the components of a cluster (API-232).
//!
//! This folder serves the path `componentstatuses`. Nothing is stored: a read asks the components,
//! which are the stores of this daemon, and the controller manager and the scheduler if they run on
//! this machine. It does not know what a store is.
//! machine. It must not know what a store is.

mod probe;

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{Key, Revision};
use actors::object::CachedObject;
use actors::watch::Predicate;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use serde_json::{Map, Value, json};

use crate::api::object::{Object, put};
use crate::api::options::ListOptions;
use crate::api::resource::ResourceDefinition;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::kinds::definitions::core;
use crate::registry::NamespacedName;
use crate::registry::rest::{Answering, Getter, Lister, RestStorage};
use crate::storage::ObjectList;
use crate::storage::codec::Codec;

use probe::{HealthzProbe, Outcome};

/// The most time that a component may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks a store whether it works.
pub type StoreProbe = Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The way to check the health of a component.
enum Part {
    Store(StoreProbe),
    Server(HealthzProbe),
}

/// Serves the path of the health of components.
pub struct ComponentStatusStore {
    kind: Arc<ResourceDefinition>,
    codec: Codec,
    parts: Vec<(String, Part)>,
}

impl ComponentStatusStore {
    /// Serves the health of these stores, and of the servers that kube-apiserver asks.
    pub fn new(stores: Vec<(String, StoreProbe)>) -> ComponentStatusStore {
        let kind = Arc::new(core::componentstatuses());
        let servers = [("controller-manager", 10257), ("scheduler", 10259)].into_iter();
        let servers =
            servers.map(|(name, port)| (name.to_owned(), Part::Server(HealthzProbe { port })));
        let stores = stores.into_iter();
        let stores = stores.map(|(name, probe)| (name, Part::Store(probe)));
        ComponentStatusStore {
            codec: Codec::new(Arc::clone(&kind)),
            kind,
            parts: servers.chain(stores).collect(),
        }
    }

    async fn found(&self, name: &str) -> Result<Arc<CachedObject>, Box<Status>> {
        let mut parts = self.parts.iter();
        match parts.find(|(known, _)| known == name) {
            Some((name, part)) => self.shown(name, part).await,
            None => {
                // kube-apiserver's message has the singular instead of the resource.
                let one = &self.kind.singular;
                let kind = ResourceDefinition::named("", &self.kind.version, &self.kind.kind, one);
                Err(Box::new(Status::not_found(&kind, name)))
            }
        }
    }

    async fn selected(&self, selection: &Selection) -> Result<ObjectList, Box<Status>> {
        let asked = self.parts.iter().map(|(name, part)| self.shown(name, part));
        let mut items = join_all(asked)
            .await
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        items.retain(|item| selection.matches(item));
        Ok(ObjectList {
            revision: Revision::ZERO,
            items,
            continue_token: None,
            remaining_item_count: None,
        })
    }

    /// Asks a component for its health.
    async fn shown(&self, name: &str, part: &Part) -> Result<Arc<CachedObject>, Box<Status>> {
        let asked = match part {
            Part::Store(probe) => probe().map(Outcome::of_store).boxed(),
            Part::Server(probe) => probe.ask().boxed(),
        };
        let late = |_| Outcome::failed(format!("no answer within {PATIENCE:?}"));
        let outcome = tokio::time::timeout(PATIENCE, asked).await;
        let object = status(name, &outcome.unwrap_or_else(late));
        let shown = self.codec.wire(&Key::new(name), &object, Revision::ZERO);
        let shown = shown.map_err(|error| Box::new(Status::internal(error)))?;
        Ok(Arc::new(shown))
    }
}

/// Returns the health of a component as an object.
fn status(name: &str, outcome: &Outcome) -> Object {
    let mut condition = Map::new();
    condition.insert("type".to_owned(), "Healthy".into());
    condition.insert("status".to_owned(), outcome.is_healthy.into());
    let texts = [("message", &outcome.message), ("error", &outcome.error)];
    for (member, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        condition.insert(member.to_owned(), text.as_str().into());
    }
    let mut object = Object::default();
    object.set_meta("name", name);
    put(
        &mut object,
        &["conditions"],
        json!([Value::from(condition)]),
    );
    object
}

impl RestStorage for ComponentStatusStore {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn getter(&self) -> Option<&dyn Getter> {
        Some(self)
    }

    fn lister(&self) -> Option<&dyn Lister> {
        Some(self)
    }
}

impl Getter for ComponentStatusStore {
    /// Ignores the version, because these objects have none.
    fn get<'a>(
        &'a self,
        at: NamespacedName<'a>,
        _resource_version: &'a str,
    ) -> Answering<'a, Arc<CachedObject>> {
        self.found(at.name).boxed()
    }
}

impl Lister for ComponentStatusStore {
    /// Returns all components in one page, whichever page is requested.
    fn list<'a>(
        &'a self,
        _namespace: Option<&'a str>,
        _options: &'a ListOptions,
        selection: Arc<Selection>,
    ) -> Answering<'a, ObjectList> {
        async move { self.selected(&selection).await }.boxed()
    }
}

#[cfg(test)]
mod tests;
