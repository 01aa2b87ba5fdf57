//! The hooks whose rules are for a kind of request, and whose selectors select its namespace. They
//! are found once for each kind of request and namespace in each state of the configurations and of
//! the namespace, so that a request does not visit hundreds of hooks that are not for it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value as Json;

use super::matching::{RequestLabels, RequestNamespace, selected_namespace};
use crate::admission::Attributes;
use crate::admission::client::ResourceClient;
use crate::api::status::Status;

/// The most kinds of requests that are remembered, each in each namespace. When there are more, all
/// are forgotten.
const KINDS_MAX: usize = 16_384;

/// The most hooks and bindings that are remembered for all of them together.
const HOOKS_MAX: usize = 500_000;

/// A hook that may be for a request.
pub(super) trait Candidate: Clone {
    /// Returns how many hooks and bindings it stands for.
    fn count(&self) -> usize;

    /// Whether it selects namespaces by their labels.
    fn selects_namespaces(&self) -> bool;

    /// Returns the part of it that is for a namespace with these labels, if any.
    fn in_namespace(&self, labels: Option<&Json>) -> Option<Self>;

    /// Returns a label that it demands of objects, if there is one.
    fn demanded_label(&self) -> Option<&str>;
}

/// Hooks in their order.
#[derive(Debug)]
pub(super) struct HookList<V> {
    hooks: Vec<V>,
    /// The labels that hooks demand, each once.
    labels: Vec<String>,
    /// The place of the label that each hook demands.
    demands: Vec<Option<usize>>,
}

impl<V: Candidate> HookList<V> {
    fn new(hooks: Vec<V>) -> HookList<V> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut labels = Vec::new();
        let demands = hooks.iter().map(|hook| {
            let label = hook.demanded_label()?;
            let place = places.entry(label).or_insert_with(|| {
                labels.push(label.to_owned());
                labels.len() - 1
            });
            Some(*place)
        });
        let demands = demands.collect();
        HookList {
            hooks,
            labels,
            demands,
        }
    }

    /// Returns whether it has no hooks.
    pub(super) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Returns all hooks.
    pub(super) fn all(&self) -> impl Iterator<Item = &V> {
        self.hooks.iter()
    }

    /// Returns the hooks that demand no label that the objects of a request lack.
    pub(super) fn for_labels(&self, labels: &RequestLabels<'_>) -> impl Iterator<Item = &V> {
        let has: Vec<bool> = self.labels.iter().map(|label| labels.have(label)).collect();
        let hooks = self.hooks.iter().zip(&self.demands);
        let fitting = hooks.filter(move |(_, demand)| {
            let has = |place: usize| has.get(place).copied();
            demand.and_then(has).unwrap_or(true)
        });
        fitting.map(|(hook, _)| hook)
    }

    fn count(&self) -> usize {
        self.hooks.iter().map(V::count).sum()
    }
}

/// The hooks that may be for a request.
pub(super) struct Candidates<V> {
    /// The hooks.
    pub list: Arc<HookList<V>>,
    /// How their selectors select the namespace of the request.
    pub namespace: RequestNamespace,
}

/// The hooks of each kind of request that was seen. `G` identifies a state of the configurations.
#[derive(Debug)]
pub(super) struct ByRequest<G, V>(RwLock<Kept<G, V>>);

#[derive(Debug)]
struct Kept<G, V> {
    by_kind: HashMap<String, Found<G, V>>,
    /// How many hooks and bindings they have.
    hooks: usize,
}

/// Hooks, and the state in which they were found: that of the configurations, and the version of
/// the namespace, or 0 for all namespaces.
#[derive(Debug)]
struct Found<G, V> {
    state: (G, u64),
    list: Arc<HookList<V>>,
}

impl<G, V> Default for ByRequest<G, V> {
    fn default() -> ByRequest<G, V> {
        let kept = Kept {
            by_kind: HashMap::new(),
            hooks: 0,
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
    ) -> Arc<HookList<V>> {
        self.of_kind(state, &kind_of_request(attributes), find)
    }

    fn of_kind(&self, state: G, kind: &str, find: impl FnOnce() -> Vec<V>) -> Arc<HookList<V>> {
        let state = (state, 0);
        let kept = self.kept(kind, state);
        kept.unwrap_or_else(|| self.keep(kind.to_owned(), state, find()))
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
        let mut kind = kind_of_request(attributes);
        let name = match selected_namespace(attributes) {
            Ok(name) => name,
            Err(namespace) => {
                let list = self.of_kind(state, &kind, find);
                return Candidates { list, namespace };
            }
        };
        let without_name = kind.len();
        kind.push_str(name);
        if let Some(version) = namespaces.known_version(None, name)
            && let Some(list) = self.kept(&kind, (state, version))
        {
            return settled(list);
        }
        let (rules, _) = kind.split_at(without_name);
        let list = self.of_kind(state, rules, find);
        // linear: once for a state of the configurations and of the namespace.
        if !list.all().any(V::selects_namespaces) {
            return settled(list);
        }
        let namespace = match namespaces.get(None, name).await {
            Ok(Some(namespace)) => {
                let labels = namespace.metadata().and_then(|found| found.get("labels"));
                let selecting = list.all().filter_map(|one| one.in_namespace(labels));
                let selecting: Vec<V> = selecting.collect();
                let version = namespace.resource_version().parse().unwrap_or_default();
                return settled(self.keep(kind, (state, version), selecting));
            }
            Ok(None) => RequestNamespace::Unknown(Box::new(Status::namespace_not_found(name))),
            Err(status) => RequestNamespace::Unknown(Box::new(Status::internal(&status.message))),
        };
        Candidates { list, namespace }
    }

    fn kept(&self, kind: &str, state: (G, u64)) -> Option<Arc<HookList<V>>> {
        let kept = self.0.read();
        let found = kept.by_kind.get(kind)?;
        (found.state == state).then(|| Arc::clone(&found.list))
    }

    fn keep(&self, kind: String, state: (G, u64), hooks: Vec<V>) -> Arc<HookList<V>> {
        let list = Arc::new(HookList::new(hooks));
        let found = Found {
            state,
            list: Arc::clone(&list),
        };
        self.0.write().keep(kind, found);
        list
    }
}

impl<G, V: Candidate> Kept<G, V> {
    fn keep(&mut self, kind: String, found: Found<G, V>) {
        if let Some(before) = self.by_kind.remove(&kind) {
            self.hooks -= before.list.count();
        }
        let count = found.list.count();
        self.hooks += count;
        if self.by_kind.len() >= KINDS_MAX || self.hooks > HOOKS_MAX {
            self.hooks = count;
            self.by_kind.clear();
        }
        self.by_kind.insert(kind, found);
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

#[cfg(test)]
mod tests {
    use super::*;

    impl Candidate for usize {
        fn count(&self) -> usize {
            *self
        }

        fn selects_namespaces(&self) -> bool {
            false
        }

        fn in_namespace(&self, _labels: Option<&Json>) -> Option<usize> {
            Some(*self)
        }

        fn demanded_label(&self) -> Option<&str> {
            None
        }
    }

    /// HK-14: a thousand webhooks for everything are not kept a thousand times.
    #[test]
    fn the_hooks_that_are_kept_are_bounded() {
        let mut kept = Kept {
            by_kind: HashMap::new(),
            hooks: 0,
        };
        let mut keep = |kind: usize, count: usize| {
            let list = Arc::new(HookList::new(vec![count]));
            let state = ((), 0);
            kept.keep(kind.to_string(), Found { state, list });
            (kept.by_kind.len(), kept.hooks)
        };
        assert_eq!(keep(1, HOOKS_MAX - 2), (1, HOOKS_MAX - 2));
        assert_eq!(keep(1, HOOKS_MAX - 1), (1, HOOKS_MAX - 1));
        assert_eq!(keep(2, 1), (2, HOOKS_MAX));
        assert_eq!(keep(3, 1), (1, 1));
        assert_eq!(keep(4, 2 * HOOKS_MAX), (1, 2 * HOOKS_MAX));
        assert_eq!(keep(5, 1), (1, 1));
        for kind in 0..2 * KINDS_MAX {
            assert!(keep(kind, 0).0 <= KINDS_MAX);
        }
    }
}
