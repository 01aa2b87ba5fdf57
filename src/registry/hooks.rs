//! The configurations of hooks in the watch caches (HK-18).
//!
//! Each look first reads the news of the cache, so a configuration counts for the next request
//! after its acknowledgement. The store waits with that until its cache has the object
//! ([`Effect::FullAtOnce`](crate::api::resource::Effect)).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::engine::Prefix;
use actors::object::CachedObject;
use actors::snapshot::Snapshot;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;

use crate::admission::hooks::policies::{Binding, Policy};
use crate::admission::hooks::webhooks::Configuration;
use crate::admission::hooks::{HookSource, Hooks};

/// The names of the resources that configure hooks, whose caches the daemon follows.
pub const HOOK_CACHES: [&str; 6] = [
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    MUTATING_POLICIES,
    MUTATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_BINDINGS,
];

/// The resource of mutating webhooks.
pub const MUTATING_WEBHOOKS: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
/// The resource of validating webhooks.
pub const VALIDATING_WEBHOOKS: &str =
    "validatingwebhookconfigurations.admissionregistration.k8s.io";
/// The resource of mutating policies.
pub const MUTATING_POLICIES: &str = "mutatingadmissionpolicies.admissionregistration.k8s.io";
/// The resource of bindings of mutating policies.
pub const MUTATING_BINDINGS: &str = "mutatingadmissionpolicybindings.admissionregistration.k8s.io";
/// The resource of validating policies.
pub const VALIDATING_POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
/// The resource of bindings of validating policies.
pub const VALIDATING_BINDINGS: &str =
    "validatingadmissionpolicybindings.admissionregistration.k8s.io";

/// How long a request waits at the start for the configurations.
const FILLED_WITHIN: Duration = Duration::from_secs(10);

/// An object that configures hooks.
pub trait FollowedHook: Sized + Send + Sync + 'static {
    /// Reads a stored object.
    ///
    /// # Errors
    /// The object is not one of the kind.
    fn read(object: &CachedObject) -> Result<Self, serde_json::Error>;
}

impl FollowedHook for Configuration {
    fn read(object: &CachedObject) -> Result<Configuration, serde_json::Error> {
        Configuration::read(&object.wire())
    }
}

impl FollowedHook for Policy {
    fn read(object: &CachedObject) -> Result<Policy, serde_json::Error> {
        Policy::read(&object.wire())
    }
}

impl FollowedHook for Binding {
    fn read(object: &CachedObject) -> Result<Binding, serde_json::Error> {
        Binding::read(&object.wire())
    }
}

/// The objects of one kind, as its cache shows them.
pub struct FollowedHooks<V> {
    cache: CacherHandle,
    state: RwLock<State<V>>,
}

struct State<V> {
    follower: CacheFollower,
    /// `None` until the cache was filled once.
    hooks: Option<Arc<Hooks<V>>>,
}

impl<V: FollowedHook> FollowedHooks<V> {
    /// Follows this cache.
    pub fn new(cache: CacherHandle) -> FollowedHooks<V> {
        let state = State {
            follower: cache.follow(),
            hooks: None,
        };
        FollowedHooks {
            cache,
            state: RwLock::new(state),
        }
    }
}

impl<V: FollowedHook> HookSource<V> for FollowedHooks<V> {
    fn newest(&self) -> Option<Arc<Hooks<V>>> {
        let state = self.state.read();
        if !state.follower.has_news() {
            return state.hooks.clone();
        }
        drop(state);
        let mut state = self.state.write();
        state.read(self.cache.prefix());
        state.hooks.clone()
    }

    fn filled(&self) -> BoxFuture<'_, ()> {
        async {
            // A cache that takes longer has its requests refused.
            let _ = tokio::time::timeout(FILLED_WITHIN, self.cache.settled()).await;
        }
        .boxed()
    }
}

impl<V: FollowedHook> State<V> {
    /// Reads all news of the cache.
    fn read(&mut self, prefix: &Prefix) {
        loop {
            let news = self.follower.read();
            if matches!(
                news,
                CacheNews::Nothing | CacheNews::Filling | CacheNews::Stopped
            ) {
                return;
            }
            // The map is copied only if a request still uses the state before.
            let hooks = Arc::make_mut(self.hooks.get_or_insert_default());
            hooks.generation += 1;
            match news {
                CacheNews::State(snapshot) => hooks.by_name = all(&snapshot, prefix),
                CacheNews::Events(events) => {
                    for event in events {
                        match (&event.current, &event.previous) {
                            (Some(current), _) => set(&mut hooks.by_name, current),
                            (None, Some(previous)) => {
                                hooks.by_name.remove(previous.attributes().name());
                            }
                            (None, None) => {}
                        }
                    }
                }
                CacheNews::Nothing | CacheNews::Filling | CacheNews::Stopped => {}
            }
        }
    }
}

fn all<V: FollowedHook>(snapshot: &Snapshot, prefix: &Prefix) -> BTreeMap<String, Arc<V>> {
    let mut by_name = BTreeMap::new();
    // The actor system reports values that can't be read.
    let objects = snapshot.range(prefix, None).filter_map(Result::ok);
    objects.for_each(|object| set(&mut by_name, object));
    by_name
}

fn set<V: FollowedHook>(by_name: &mut BTreeMap<String, Arc<V>>, object: &CachedObject) {
    let name = object.attributes().name();
    match V::read(object) {
        Ok(hook) => {
            by_name.insert(name.to_owned(), Arc::new(hook));
        }
        Err(error) => {
            tracing::warn!(name, %error, "the configuration of a hook can't be read and has no effect");
            by_name.remove(name);
        }
    }
}
