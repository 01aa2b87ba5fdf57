//! The Authorizer that decides by the roles and bindings in the watch caches (API-288).
//!
//! Each decision first reads the news of the four caches, so a binding counts for the next request
//! after its acknowledgement. The store waits with that until its cache has the binding
//! ([`Effect::FullAtOnce`](crate::api::resource::Effect)).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::object::CachedObject;
use actors::snapshot::Snapshot;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use parking_lot::{RwLock, RwLockReadGuard};

use super::kept_grants::KeptGrants;
use crate::api::user_info::UserInfo;
use crate::auth::rbac::{
    Binding, Grant, PolicyRule, RbacIndex, RoleKind, Verdict, absent_roles, decide, read_rules,
};
use crate::auth::{
    Attributes, Authorization, Authorizer, Decision, NonResourceRule, ResourceRule, Rules,
};

/// The names of the resources whose caches the authorizer follows.
pub const RBAC_CACHES: [&str; 4] = [
    "clusterroles.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
];

/// How long a request for a resource waits at the start for the caches. A path, such as that of a
/// health check, does not wait.
const FILLED_WITHIN: Duration = Duration::from_secs(10);

/// Decides by roles and bindings.
pub struct RbacAuthorizer {
    caches: Vec<CacherHandle>,
    state: RwLock<State>,
    kept: RwLock<KeptGrants>,
    /// Whether all caches were filled once.
    is_filled: AtomicBool,
}

/// The roles and bindings that were read.
struct State {
    followed: Vec<Followed>,
    index: RbacIndex,
    /// Increases with each change of the index.
    generation: u64,
}

/// A resource, and the news of its cache.
struct Followed {
    part: Part,
    cache: CacherHandle,
    follower: CacheFollower,
    has_begun: bool,
}

/// The resources of RBAC.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Roles(RoleKind),
    /// `true` for the bindings of the whole cluster.
    Bindings(bool),
}

const PARTS: [Part; 4] = [
    Part::Roles(RoleKind::ClusterRole),
    Part::Roles(RoleKind::Role),
    Part::Bindings(true),
    Part::Bindings(false),
];

impl RbacAuthorizer {
    /// Creates an authorizer that follows these caches, in the order of [`RBAC_CACHES`].
    pub fn new(caches: [CacherHandle; 4]) -> RbacAuthorizer {
        let followed = PARTS.into_iter().zip(&caches);
        let followed = followed.map(|(part, cache)| Followed {
            part,
            follower: cache.follow(),
            cache: cache.clone(),
            has_begun: false,
        });
        RbacAuthorizer {
            state: RwLock::new(State {
                followed: followed.collect(),
                index: RbacIndex::default(),
                generation: 1,
            }),
            caches: caches.into(),
            kept: RwLock::default(),
            is_filled: AtomicBool::new(false),
        }
    }

    /// Returns what a user was granted in the whole cluster and in a namespace, by the newest roles
    /// and bindings in the caches.
    pub fn grants(&self, user: &UserInfo, namespace: &str) -> Arc<[Grant]> {
        let state = self.newest();
        let generation = state.generation;
        if let Some(kept) = self.kept.read().get(generation, user, namespace) {
            return kept;
        }
        let grants: Arc<[Grant]> = state.index.grants(user, namespace).into();
        drop(state);
        let mut kept = self.kept.write();
        kept.keep(generation, user, namespace, &grants);
        grants
    }

    /// Returns the rules of a role. `namespace` is empty for a ClusterRole.
    pub fn rules_of(&self, namespace: &str, name: &str) -> Option<Arc<[PolicyRule]>> {
        self.newest().index.role(namespace, name).cloned()
    }

    fn is_filled(&self) -> bool {
        if self.is_filled.load(Ordering::Acquire) {
            return true;
        }
        let is_filled = self.state.read().followed.iter().all(|one| one.has_begun);
        self.is_filled.fetch_or(is_filled, Ordering::Release);
        is_filled
    }

    /// Waits until all caches were filled once, for some time at most.
    async fn filled(&self) {
        if self.is_filled() {
            return;
        }
        let settled = join_all(self.caches.iter().map(CacherHandle::settled));
        // A cache that takes longer grants nothing yet.
        let _ = tokio::time::timeout(FILLED_WITHIN, settled).await;
    }

    /// Reads the news of the caches.
    fn newest(&self) -> RwLockReadGuard<'_, State> {
        let state = self.state.read();
        if !state.has_news() {
            return state;
        }
        drop(state);
        let mut state = self.state.write();
        state.read();
        parking_lot::RwLockWriteGuard::downgrade(state)
    }

    fn answer(&self, attributes: &Attributes<'_>) -> Authorization {
        let grants = self.grants(attributes.user, attributes.namespace);
        match decide(&grants, attributes) {
            Verdict::Allowed(reason) => Authorization {
                decision: Decision::Allow,
                ..Authorization::no_opinion(reason)
            },
            Verdict::NoOpinion(reason) => Authorization::no_opinion(reason),
        }
    }
}

impl Authorizer for RbacAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        async move {
            if attributes.is_resource_request {
                self.filled().await;
            }
            self.answer(attributes)
        }
        .boxed()
    }

    fn authorize_at_once(&self, attributes: &Attributes<'_>) -> Option<Authorization> {
        let is_known = !attributes.is_resource_request || self.is_filled();
        is_known.then(|| self.answer(attributes))
    }

    fn rules_for<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules> {
        async move {
            self.filled().await;
            rules(&self.grants(user, namespace))
        }
        .boxed()
    }
}

/// The most bytes of rules that a review shows, with [`TEXT_BYTES`] for each text of a rule. Many
/// bindings may name one large role.
const RULES_BYTES_MAX: usize = 4 << 20;

/// The bytes that a text takes in addition to its own.
const TEXT_BYTES: usize = 16;

/// Returns the rules of grants as reviews show them: one entry for each rule, as it is written
/// (AC-70). The list is incomplete if it would be very long.
fn rules(grants: &[Grant]) -> Rules {
    let mut all = Rules {
        errors: absent_roles(grants).into_iter().collect(),
        ..Rules::default()
    };
    let mut left = RULES_BYTES_MAX;
    for rule in grants
        .iter()
        .flat_map(|grant| grant.rules.iter().flat_map(|rules| rules.iter()))
    {
        let bytes = bytes_of(rule);
        if bytes > left {
            all.is_incomplete = true;
            all.errors
                .push("the rules are too many to be listed".to_owned());
            break;
        }
        left -= bytes;
        if !rule.non_resource_urls.is_empty() {
            all.of_paths.push(NonResourceRule {
                verbs: rule.verbs.clone(),
                paths: rule.non_resource_urls.clone(),
            });
        }
        if !rule.api_groups.is_empty() {
            all.of_resources.push(ResourceRule {
                verbs: rule.verbs.clone(),
                api_groups: rule.api_groups.clone(),
                resources: rule.resources.clone(),
                resource_names: rule.resource_names.clone(),
            });
        }
    }
    all
}

fn bytes_of(rule: &PolicyRule) -> usize {
    let lists = [
        &rule.verbs,
        &rule.api_groups,
        &rule.resources,
        &rule.resource_names,
        &rule.non_resource_urls,
    ];
    let texts = lists.into_iter().flatten();
    let texts: usize = texts.map(|text| TEXT_BYTES + text.len()).sum();
    4 * TEXT_BYTES + texts
}

impl State {
    fn has_news(&self) -> bool {
        self.followed.iter().any(|one| one.follower.has_news())
    }

    /// Reads all news into the index.
    fn read(&mut self) {
        let State {
            followed,
            index,
            generation,
        } = self;
        for one in followed {
            loop {
                match one.follower.read() {
                    CacheNews::Nothing | CacheNews::Filling | CacheNews::Stopped => break,
                    CacheNews::State(snapshot) => {
                        one.take_state(&snapshot, index);
                        one.has_begun = true;
                    }
                    CacheNews::Events(events) => {
                        for event in events {
                            match (&event.current, &event.previous) {
                                (Some(current), _) => one.part.set(current, index),
                                (None, Some(previous)) => one.part.remove(previous, index),
                                (None, None) => {}
                            }
                        }
                    }
                }
                *generation += 1;
            }
        }
    }
}

impl Followed {
    fn take_state(&self, snapshot: &Snapshot, index: &mut RbacIndex) {
        match self.part {
            Part::Roles(kind) => index.clear_roles(kind),
            Part::Bindings(of_cluster) => index.clear_bindings(of_cluster),
        }
        // Values that can't be read grant nothing. The actor system reports them.
        let objects = snapshot.range(self.cache.prefix(), None);
        objects
            .filter_map(Result::ok)
            .for_each(|object| self.part.set(object, index));
    }
}

impl Part {
    fn set(self, object: &CachedObject, index: &mut RbacIndex) {
        let attributes = object.attributes();
        let (namespace, name) = (attributes.namespace(), attributes.name());
        let text = object.wire();
        let read = match self {
            Part::Roles(_) => read_rules(&text).map(|rules| index.set_role(namespace, name, rules)),
            Part::Bindings(_) => {
                Binding::read(namespace, name, &text).map(|binding| index.set_binding(binding))
            }
        };
        if let Err(error) = read {
            tracing::warn!(namespace, name, %error, "a role or binding can't be read and grants nothing");
            self.remove(object, index);
        }
    }

    fn remove(self, object: &CachedObject, index: &mut RbacIndex) {
        let attributes = object.attributes();
        let (namespace, name) = (attributes.namespace(), attributes.name());
        match self {
            Part::Roles(_) => index.remove_role(namespace, name),
            Part::Bindings(_) => index.remove_binding(namespace, name),
        }
    }
}
