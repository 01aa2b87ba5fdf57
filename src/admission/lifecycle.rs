//! NamespaceLifecycle (API-261): refuses creates in absent or terminating namespaces, and deletions
//! of the system's namespaces.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Admitted, Attributes, MutatingPlugin, Operation, Plugin};
use crate::api::object::Object;
use crate::api::status::Status;

/// Namespaces that are never deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// How long a namespace is looked up live after a request to delete it, because the cache may not
/// show the deletion yet.
const DISTRUST: Duration = Duration::from_secs(30);

/// The number of such namespaces that are remembered. Beyond it, every namespace is looked up live.
const MAX_DISTRUSTED: usize = 4096;

/// The state of a namespace, as the plugin needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    /// No namespace has that name.
    Absent,
    /// Objects may be created in it.
    Active,
    /// It is being deleted.
    Terminating,
}

/// The source of a namespace's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The cache, which may be outdated.
    Cached,
    /// The current state of the store.
    Live,
}

/// A source of the state of namespaces.
pub trait Namespaces: Send + Sync + 'static {
    /// The state of a namespace.
    ///
    /// # Errors
    /// The lookup failed.
    fn state<'n>(
        &'n self,
        name: &'n str,
        lookup: Lookup,
    ) -> BoxFuture<'n, Result<NamespaceState, Box<Status>>>;

    /// Whether a namespace has a label with this value, by the current state of the store.
    ///
    /// # Errors
    /// The lookup failed.
    fn has_label<'n>(
        &'n self,
        name: &'n str,
        key: &'n str,
        value: &'n str,
    ) -> BoxFuture<'n, Result<bool, Box<Status>>>;
}

/// The plugin.
pub struct NamespaceLifecycle {
    namespaces: Arc<dyn Namespaces>,
    distrusted: Mutex<Distrusted>,
}

impl NamespaceLifecycle {
    /// Creates the plugin with this source of namespaces.
    pub fn new(namespaces: Arc<dyn Namespaces>) -> NamespaceLifecycle {
        NamespaceLifecycle {
            namespaces,
            distrusted: Mutex::new(Distrusted::default()),
        }
    }

    /// The state of a namespace, from the cache when the cache can be trusted.
    async fn state(&self, name: &str) -> Result<NamespaceState, Box<Status>> {
        let is_distrusted = self.distrusted.lock().covers(name, Instant::now());
        if !is_distrusted {
            match self.namespaces.state(name, Lookup::Cached).await? {
                // The namespace may be too new for the cache.
                NamespaceState::Absent => {}
                known => return Ok(known),
            }
        }
        self.namespaces.state(name, Lookup::Live).await
    }

    async fn check(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        let Some(namespace) = attributes.namespace.filter(|n| !n.is_empty()) else {
            return Ok(());
        };
        let is_new = matches!(attributes.operation, Operation::Create(_));
        match self.state(namespace).await? {
            NamespaceState::Absent => Err(Box::new(Status::namespace_not_found(namespace))),
            NamespaceState::Terminating if is_new => {
                let (definition, name) = (attributes.definition, attributes.shown_name(object));
                Err(Box::new(Status::namespace_terminating(
                    definition, name, namespace,
                )))
            }
            NamespaceState::Terminating | NamespaceState::Active => Ok(()),
        }
    }
}

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    /// As in Kubernetes it runs in the first stage, before other plugins change the object.
    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for NamespaceLifecycle {
    fn changes(&self) -> bool {
        false
    }

    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        async move {
            let is_namespace = attributes.definition.is("", "namespaces");
            match attributes.operation {
                Operation::Delete(_) if is_namespace => {
                    if IMMORTAL.contains(&attributes.name) {
                        let (definition, name) = (attributes.definition, attributes.name);
                        return Err(Box::new(Status::namespace_undeletable(definition, name)));
                    }
                    self.distrusted.lock().add(attributes.name, Instant::now());
                    Ok(())
                }
                Operation::Delete(_) | Operation::Connect => Ok(()),
                _ if is_namespace => Ok(()),
                _ => self.check(attributes, object.as_deref()).await,
            }
        }
        .boxed()
    }
}

/// Namespaces that are looked up live for some time.
#[derive(Debug, Default)]
struct Distrusted {
    until: HashMap<String, Instant>,
    all_until: Option<Instant>,
}

impl Distrusted {
    fn add(&mut self, name: &str, now: Instant) {
        if self.until.len() >= MAX_DISTRUSTED {
            self.until.retain(|_, until| *until > now);
        }
        if self.until.len() >= MAX_DISTRUSTED {
            self.all_until = Some(now + DISTRUST);
        } else {
            self.until.insert(name.to_owned(), now + DISTRUST);
        }
    }

    fn covers(&mut self, name: &str, now: Instant) -> bool {
        if self.all_until.is_some_and(|until| until > now) {
            return true;
        }
        match self.until.get(name) {
            Some(until) if *until > now => true,
            Some(_) => {
                self.until.remove(name);
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-261: for half a minute after a deletion the cache is not trusted.
    #[test]
    fn a_deleted_namespace_is_distrusted_for_a_while() {
        let mut distrusted = Distrusted::default();
        let now = Instant::now();
        distrusted.add("a", now);
        assert!(distrusted.covers("a", now + DISTRUST / 2));
        assert!(!distrusted.covers("b", now));
        assert!(!distrusted.covers("a", now + DISTRUST));
        assert!(distrusted.until.is_empty());
    }

    #[test]
    fn with_too_many_deleted_namespaces_all_are_distrusted() {
        let mut distrusted = Distrusted::default();
        let now = Instant::now();
        for number in 0..=MAX_DISTRUSTED {
            distrusted.add(&number.to_string(), now);
        }
        assert_eq!(distrusted.until.len(), MAX_DISTRUSTED);
        assert!(distrusted.covers("never deleted", now));
        assert!(!distrusted.covers("never deleted", now + DISTRUST));
    }
}
