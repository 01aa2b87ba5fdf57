//! The hooks whose rules are for a kind of request. They are found once for each kind of request
//! and each state of the configurations, so that a request does not visit hundreds of hooks that
//! are not for it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::RwLock;

use super::operation_name;
use crate::admission::Attributes;

/// The most kinds of requests that are remembered. When there are more, all are forgotten.
const KEPT_MAX: usize = 4096;

/// The most hooks and bindings that are remembered for all kinds of requests together.
const HOOKS_MAX: usize = 500_000;

/// A hook that is remembered.
pub(super) trait Kept {
    /// Returns how many hooks and bindings it stands for.
    fn count(&self) -> usize;
}

/// The hooks of each kind of request that was seen. `G` identifies a state of the configurations.
#[derive(Debug)]
pub(super) struct ByRequest<G, V>(RwLock<State<G, V>>);

#[derive(Debug)]
struct State<G, V> {
    kinds: HashMap<String, Found<G, V>>,
    /// How many hooks and bindings they have.
    hooks: usize,
}

/// Hooks, and the state of the configurations in which they were found.
type Found<G, V> = (G, Arc<[V]>);

impl<G, V> Default for ByRequest<G, V> {
    fn default() -> ByRequest<G, V> {
        ByRequest(RwLock::new(State {
            kinds: HashMap::new(),
            hooks: 0,
        }))
    }
}

impl<G: Copy + PartialEq, V: Kept> ByRequest<G, V> {
    /// Returns the hooks for a request, which are found if this state of the configurations has not
    /// seen such a request yet.
    pub(super) fn get_or_find(
        &self,
        state: G,
        attributes: &Attributes<'_>,
        find: impl FnOnce() -> Vec<V>,
    ) -> Arc<[V]> {
        let kind = kind_of_request(attributes);
        if let Some((known, found)) = self.0.read().kinds.get(&kind)
            && *known == state
        {
            return Arc::clone(found);
        }
        let found: Arc<[V]> = find().into();
        self.0.write().keep(kind, (state, Arc::clone(&found)));
        found
    }
}

impl<G, V: Kept> State<G, V> {
    fn keep(&mut self, kind: String, found: Found<G, V>) {
        let count = |(_, found): &Found<G, V>| found.iter().map(Kept::count).sum::<usize>();
        if let Some(before) = self.kinds.remove(&kind) {
            self.hooks -= count(&before);
        }
        self.hooks += count(&found);
        if self.kinds.len() >= KEPT_MAX || self.hooks > HOOKS_MAX {
            self.hooks = count(&found);
            self.kinds.clear();
        }
        self.kinds.insert(kind, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Kept for usize {
        fn count(&self) -> usize {
            *self
        }
    }

    /// HK-14: a thousand webhooks for everything are not kept a thousand times.
    #[test]
    fn the_hooks_that_are_kept_are_bounded() {
        let mut state = State {
            kinds: HashMap::new(),
            hooks: 0,
        };
        let mut keep = |kind: usize, count: usize| {
            state.keep(kind.to_string(), (0, Arc::from([count])));
            (state.kinds.len(), state.hooks)
        };
        assert_eq!(keep(1, HOOKS_MAX - 2), (1, HOOKS_MAX - 2));
        assert_eq!(keep(1, HOOKS_MAX - 1), (1, HOOKS_MAX - 1));
        assert_eq!(keep(2, 1), (2, HOOKS_MAX));
        assert_eq!(keep(3, 1), (1, 1));
        assert_eq!(keep(4, 2 * HOOKS_MAX), (1, 2 * HOOKS_MAX));
        assert_eq!(keep(5, 1), (1, 1));
        for kind in 0..2 * KEPT_MAX {
            assert!(keep(kind, 0).0 <= KEPT_MAX);
        }
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
        operation_name(&attributes.operation),
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
