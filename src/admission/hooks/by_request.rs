//! The hooks whose rules are for a kind of request. They are found once for each kind of request
//! and each state of the configurations, so that a request does not visit hundreds of hooks that
//! are not for it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::admission::Attributes;

/// The most kinds of requests that are remembered. When there are more, all are forgotten.
const KEPT_MAX: usize = 4096;

/// The hooks of each kind of request that was seen. `G` identifies a state of the configurations.
#[derive(Debug)]
pub(super) struct ByRequest<G, V>(RwLock<HashMap<String, Found<G, V>>>);

/// Hooks, and the state of the configurations in which they were found.
type Found<G, V> = (G, Arc<[V]>);

impl<G, V> Default for ByRequest<G, V> {
    fn default() -> ByRequest<G, V> {
        ByRequest(RwLock::default())
    }
}

impl<G: Copy + PartialEq, V> ByRequest<G, V> {
    /// Returns the hooks for a request, which are found if this state of the configurations has not
    /// seen such a request yet.
    pub(super) fn get_or_find(
        &self,
        state: G,
        attributes: &Attributes<'_>,
        find: impl FnOnce() -> Vec<V>,
    ) -> Arc<[V]> {
        let kind = kind_of_request(attributes);
        if let Some((known, found)) = self.0.read().get(&kind)
            && *known == state
        {
            return Arc::clone(found);
        }
        let found: Arc<[V]> = find().into();
        let mut all = self.0.write();
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        all.insert(kind, (state, Arc::clone(&found)));
        found
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
