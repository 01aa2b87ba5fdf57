//! The hooks whose rules are for a kind of request, and whose selectors select its namespace. They
//! are found once for each kind of request and namespace in each state of the configurations and of
//! the namespace, so that a request does not visit hundreds of hooks that are not for it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value as Json;

use super::matching::{RequestNamespace, selected_namespace};
use crate::admission::Attributes;
use crate::admission::client::ResourceClient;
use crate::api::status::Status;

/// The most hooks that are remembered, for all kinds of requests and namespaces. A kind of request
/// counts as one more. When there are more, all are forgotten.
const KEPT_MAX: usize = 100_000;

/// A hook that may be for a request.
pub(super) trait Candidate: Clone {
    /// Whether it selects namespaces by their labels.
    fn selects_namespaces(&self) -> bool;

    /// Returns the part of it that is for a namespace with these labels, if any.
    fn in_namespace(&self, labels: Option<&Json>) -> Option<Self>;
}

/// The hooks that may be for a request.
pub(super) struct Candidates<V> {
    /// The hooks in their order.
    pub list: Arc<[V]>,
    /// How their selectors select the namespace of the request.
    pub namespace: RequestNamespace,
}

/// The hooks of each kind of request that was seen. `G` identifies a state of the configurations.
#[derive(Debug)]
pub(super) struct ByRequest<G, V>(RwLock<Kept<G, V>>);

#[derive(Debug)]
struct Kept<G, V> {
    by_kind: HashMap<String, Found<G, V>>,
    /// The number of kinds and hooks.
    size: usize,
}

/// Hooks, and the state in which they were found: that of the configurations, and the version of
/// the namespace, or 0 for all namespaces.
#[derive(Debug)]
struct Found<G, V> {
    state: (G, u64),
    list: Arc<[V]>,
}

impl<G, V> Default for ByRequest<G, V> {
    fn default() -> ByRequest<G, V> {
        let kept = Kept {
            by_kind: HashMap::new(),
            size: 0,
        };
        ByRequest(RwLock::new(kept))
    }
}

impl<G: Copy + PartialEq, V: Candidate> ByRequest<G, V> {
    /// Returns the hooks whose rules are for a request, which are found if this state of the
    /// configurations has not seen such a request yet.
    pub(super) fn by_rules(
        &self,
        state: G,
        attributes: &Attributes<'_>,
        find: impl FnOnce() -> Vec<V>,
    ) -> Arc<[V]> {
        let (kind, state) = (kind_of_request(attributes), (state, 0));
        self.kept(&kind, state)
            .unwrap_or_else(|| self.keep(kind, state, find()))
    }

    /// Returns the hooks whose rules are for a request, and whose selectors select its namespace as
    /// far as its labels are known.
    pub(super) async fn of(
        &self,
        state: G,
        attributes: &Attributes<'_>,
        namespaces: &dyn ResourceClient,
        find: impl FnOnce() -> Vec<V>,
    ) -> Candidates<V> {
        let settled = |list| Candidates {
            list,
            namespace: RequestNamespace::Settled,
        };
        let name = match selected_namespace(attributes) {
            Ok(name) => name,
            Err(namespace) => {
                let list = self.by_rules(state, attributes, find);
                return Candidates { list, namespace };
            }
        };
        let mut kind = kind_of_request(attributes);
        kind.push_str(name);
        if let Some(version) = namespaces.known_version(None, name)
            && let Some(list) = self.kept(&kind, (state, version))
        {
            return settled(list);
        }
        let list = self.by_rules(state, attributes, find);
        // linear: once for a state of the configurations and of the namespace.
        if !list.iter().any(V::selects_namespaces) {
            return settled(list);
        }
        let namespace = match namespaces.get(None, name).await {
            Ok(Some(namespace)) => {
                let labels = namespace.metadata().and_then(|found| found.get("labels"));
                let selecting = list.iter().filter_map(|one| one.in_namespace(labels));
                let selecting: Vec<V> = selecting.collect();
                let version = namespace.resource_version().parse().unwrap_or_default();
                return settled(self.keep(kind, (state, version), selecting));
            }
            Ok(None) => RequestNamespace::Unknown(Box::new(Status::namespace_not_found(name))),
            Err(status) => RequestNamespace::Unknown(Box::new(Status::internal(&status.message))),
        };
        Candidates { list, namespace }
    }

    fn kept(&self, kind: &str, state: (G, u64)) -> Option<Arc<[V]>> {
        let kept = self.0.read();
        let found = kept.by_kind.get(kind)?;
        (found.state == state).then(|| Arc::clone(&found.list))
    }

    fn keep(&self, kind: String, state: (G, u64), list: Vec<V>) -> Arc<[V]> {
        let list: Arc<[V]> = list.into();
        let mut kept = self.0.write();
        if kept.size > KEPT_MAX {
            kept.by_kind.clear();
            kept.size = 0;
        }
        kept.size += 1 + list.len();
        let found = Found {
            state,
            list: Arc::clone(&list),
        };
        if let Some(former) = kept.by_kind.insert(kind, found) {
            kept.size -= 1 + former.list.len();
        }
        list
    }
}

/// Returns everything of a request that rules look at, except the name of its object, at which only
/// rules of policies look.
fn kind_of_request(attributes: &Attributes<'_>) -> String {
    let definition = attributes.definition;
    let mut kind = String::with_capacity(96);
    let scope = if attributes.namespace.is_some() {
        "N"
    } else {
        "C"
    };
    for part in [
        attributes.operation.name(),
        scope,
        &definition.group,
        &definition.version,
        &definition.plural,
        attributes.subresource.unwrap_or_default(),
    ] {
        kind.push_str(part);
        kind.push('|');
    }
    for version in attributes.versions {
        // Writing to a String never fails.
        let _ = write!(kind, "{}/{}|", version.group, version.version);
    }
    kind
}
