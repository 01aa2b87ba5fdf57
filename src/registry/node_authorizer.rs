//! The node authorizer over the watch caches (AC-42..AC-51).
//!
//! One task for each cache puts its changes into the graph. A request that asks the graph first
//! waits until the graph has everything that was written before the request: on the embedded
//! engine always; over etcd, and where clients read no cache, as far as the cache itself has got.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::engine::Revision;
use actors::object::CachedObject;
use actors::ring::RingEvent;
use actors::snapshot::Snapshot;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use metrics::Histogram;
use parking_lot::RwLock;
use tokio::sync::Notify;

use super::stored_version::StoredVersion;
use crate::api::user_info::UserInfo;
use crate::auth::node::{self, Graph, Kind, Named, Question, Verdict, judge, node_of, unrelated};
use crate::auth::{Attributes, Authorization, Authorizer, Rules};
use crate::storage::Storage;

/// The objects that are put before others may ask.
const PIECE: usize = 500;
/// The wait after changes, so that many are read at once.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a request waits for a cache that lags. Then it is answered by what is known.
const PATIENCE: Duration = Duration::from_secs(5);
/// The name of the histogram of changes (AC-75).
const DURATIONS: &str = "node_authorizer_graph_actions_duration_seconds";

/// The least revision that is reached with the first state.
const FILLED: u64 = 1;

/// The names of the resources whose caches the authorizer follows.
pub const NODE_CACHES: [&str; 4] = [
    "pods",
    "persistentvolumes",
    "volumeattachments.storage.k8s.io",
    "resourceslices.resource.k8s.io",
];

/// A resource whose objects relate others to nodes.
struct Followed {
    kind: Kind,
    group: &'static str,
    plural: &'static str,
    /// The names of the two actions, as in kube-apiserver.
    put: &'static str,
    removed: &'static str,
}

/// All such resources.
const FOLLOWED: [Followed; 4] = [
    Followed {
        kind: Kind::Pod,
        group: "",
        plural: "pods",
        put: "AddPod",
        removed: "DeletePod",
    },
    Followed {
        kind: Kind::Volume,
        group: "",
        plural: "persistentvolumes",
        put: "AddPV",
        removed: "DeletePV",
    },
    Followed {
        kind: Kind::Attachment,
        group: "storage.k8s.io",
        plural: "volumeattachments",
        put: "AddVolumeAttachment",
        removed: "DeleteVolumeAttachment",
    },
    Followed {
        kind: Kind::Slice,
        group: "resource.k8s.io",
        plural: "resourceslices",
        put: "AddResourceSlice",
        removed: "DeleteResourceSlice",
    },
];

/// Allows the kubelet of each node what its pods need. Clones share the same graph.
#[derive(Clone)]
pub struct NodeAuthorizer(Arc<Followers>);

/// The graph, and what is put into it.
struct Followers {
    graph: RwLock<Graph>,
    sources: Vec<Source>,
}

/// One followed resource.
struct Source {
    kind: Kind,
    /// The storage that clients read, if it reads the cache.
    storage: Option<Arc<dyn Storage>>,
    cache: CacherHandle,
    /// Everything up to this revision is in the graph; zero before the first state.
    reached: AtomicU64,
    /// Notified when that grows.
    progress: Notify,
    /// The number of those who wait for it.
    waiting: AtomicUsize,
    /// Notified when somebody wants the cache to be read at once.
    nudge: Notify,
    put: Histogram,
    removed: Histogram,
}

/// One who waits, and counts until this is dropped.
struct Waiting<'w>(&'w AtomicUsize);

impl Waiting<'_> {
    fn new(count: &AtomicUsize) -> Waiting<'_> {
        count.fetch_add(1, Ordering::AcqRel);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl NodeAuthorizer {
    /// Creates the authorizer over those of these resources that have a cache. `cache` finds the
    /// cache of a stored resource by name, and says whether clients read it too. Nothing is
    /// followed before [`NodeAuthorizer::run`].
    pub fn new(
        resources: &[StoredVersion],
        cache: impl Fn(&str) -> Option<(CacherHandle, bool)>,
    ) -> NodeAuthorizer {
        metrics::describe_histogram!(DURATIONS, "How long a change of the graph of nodes took");
        let source = |followed: &Followed| {
            let mut versions = resources.iter();
            // linear: called once for each of four resources.
            let found = versions.find(|(row, _)| row.is(followed.group, followed.plural));
            let (_, storages) = found?;
            let (cache, is_read) = cache(&storages.resource.name)?;
            Some(Source {
                kind: followed.kind,
                storage: is_read.then(|| Arc::clone(&storages.storage)),
                cache,
                reached: AtomicU64::new(0),
                progress: Notify::new(),
                waiting: AtomicUsize::new(0),
                nudge: Notify::new(),
                put: metrics::histogram!(DURATIONS, "operation" => followed.put),
                removed: metrics::histogram!(DURATIONS, "operation" => followed.removed),
            })
        };
        NodeAuthorizer(Arc::new(Followers {
            graph: RwLock::default(),
            sources: FOLLOWED.iter().filter_map(source).collect(),
        }))
    }

    /// Keeps the graph current until the caches stop.
    pub async fn run(&self) {
        join_all(
            self.0
                .sources
                .iter()
                .map(|source| source.run(&self.0.graph)),
        )
        .await;
    }

    /// Waits until the graph has had the whole state once.
    pub async fn filled(&self) {
        for source in &self.0.sources {
            source.reach(FILLED).await;
        }
    }

    /// Waits until the graph has what an answer about objects of this kind depends on.
    async fn catch_up(&self, kind: Kind) {
        for source in &self.0.sources {
            let matters = match kind {
                Kind::Secret | Kind::Volume => matches!(source.kind, Kind::Pod | Kind::Volume),
                Kind::Attachment | Kind::Slice => source.kind == kind,
                _ => source.kind == Kind::Pod,
            };
            if matters {
                let _ = tokio::time::timeout(PATIENCE, source.catch_up()).await;
            }
        }
    }
}

/// Returns the answer that needs no graph, or the question to the graph.
fn judged<'a>(attributes: &'a Attributes<'a>) -> Result<Authorization, Question<'a>> {
    match judge(attributes) {
        Verdict::Allowed => Ok(Authorization::allow_if(true)),
        Verdict::NoOpinion(reason) => Ok(Authorization::no_opinion(reason)),
        Verdict::IfRelated(question) => Err(question),
    }
}

impl Authorizer for NodeAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        async move {
            let allowed = Authorization::allow_if(true);
            let question = match judged(attributes) {
                Ok(answer) => return answer,
                Err(question) => question,
            };
            self.catch_up(question.object.kind).await;
            let graph = self.0.graph.read();
            match graph.is_related(question.object, question.node) {
                true => allowed,
                false => Authorization::no_opinion(unrelated(question.node)),
            }
        }
        .boxed()
    }

    fn authorize_at_once(&self, attributes: &Attributes<'_>) -> Option<Authorization> {
        judged(attributes).ok()
    }

    fn rules_for<'a>(&'a self, user: &'a UserInfo, _namespace: &'a str) -> BoxFuture<'a, Rules> {
        let rules = match node_of(user) {
            Some(_) => Rules::unlisted("node authorizer does not support user rule resolution"),
            None => Rules::default(),
        };
        ready(rules).boxed()
    }
}

impl Source {
    /// Reads until the cache stops. Nobody else reads, because requests may go away at any time,
    /// and a state that was half applied would stay so.
    async fn run(&self, graph: &RwLock<Graph>) {
        self.cache.begin_use();
        let mut follower = self.cache.follow();
        while self.pump(&mut follower, graph).await {
            tokio::select! {
                () = follower.changed() => {}
                () = self.nudge.notified() => continue,
            }
            if self.waiting.load(Ordering::Acquire) == 0 {
                let _ = tokio::time::timeout(PAUSE, self.nudge.notified()).await;
            }
        }
    }

    /// Waits until everything up to a revision is in the graph.
    async fn reach(&self, wanted: u64) {
        let _waiting = Waiting::new(&self.waiting);
        loop {
            let progress = self.progress.notified();
            if self.reached.load(Ordering::Acquire) >= wanted {
                return;
            }
            self.nudge.notify_one();
            progress.await;
        }
    }

    /// Waits until everything is in the graph that was written before the call.
    async fn catch_up(&self) {
        let storage = self.storage.as_ref();
        if let Some(storage) = storage.filter(|storage| storage.is_always_fresh()) {
            // A consistent read: afterwards the cache shows everything that was written before it.
            let _ = storage.stats().await;
        }
        // While the cache is filled again, the state from before is the best that is known.
        let shown = self.cache.snapshot().map(|snapshot| snapshot.revision.0);
        let wanted = shown.unwrap_or_default().max(FILLED);
        if self.reached.load(Ordering::Acquire) < wanted {
            self.reach(wanted).await;
        }
    }

    /// Applies the news of the cache. Returns false if it has stopped.
    async fn pump(&self, follower: &mut CacheFollower, graph: &RwLock<Graph>) -> bool {
        loop {
            match follower.read() {
                CacheNews::Nothing | CacheNews::Filling => break,
                CacheNews::Stopped => return false,
                CacheNews::State(snapshot) => self.apply_state(&snapshot, graph).await,
                CacheNews::Events(events) => {
                    self.apply_events(&events, &mut graph.write());
                    tokio::task::yield_now().await;
                }
            }
        }
        if let Some(Revision(reached)) = follower.reached() {
            let reached = reached.max(FILLED);
            if self.reached.swap(reached, Ordering::AcqRel) < reached {
                self.progress.notify_waiters();
            }
        }
        true
    }

    async fn apply_state(&self, snapshot: &Snapshot, graph: &RwLock<Graph>) {
        let listing = graph.write().begin_listing(self.kind);
        // Objects that can't be read relate nothing.
        let mut objects = snapshot
            .range(self.cache.prefix(), None)
            .flatten()
            .peekable();
        while objects.peek().is_some() {
            {
                let mut graph = graph.write();
                for object in objects.by_ref().take(PIECE) {
                    self.put(object, &mut graph);
                }
            }
            tokio::task::yield_now().await;
        }
        graph.write().end_listing(listing);
    }

    fn apply_events(&self, events: &[Arc<RingEvent>], graph: &mut Graph) {
        for event in events {
            match (&event.current, &event.previous) {
                (Some(current), _) => self.put(current, graph),
                (None, Some(previous)) => self.remove(previous, graph),
                (None, None) => {}
            }
        }
    }

    fn put(&self, object: &CachedObject, graph: &mut Graph) {
        let began = Instant::now();
        let json = [b"{", object.item_body()].concat();
        if let Err(error) = node::references::put(self.kind, &json, graph) {
            let key = String::from_utf8_lossy(object.key());
            tracing::debug!(%key, %error, "an object relates nothing to its node");
            self.remove(object, graph);
        }
        self.put.record(began.elapsed().as_secs_f64());
    }

    fn remove(&self, object: &CachedObject, graph: &mut Graph) {
        let began = Instant::now();
        let attributes = object.attributes();
        graph.remove(Named {
            kind: self.kind,
            namespace: attributes.namespace(),
            name: attributes.name(),
        });
        self.removed.record(began.elapsed().as_secs_f64());
    }
}
