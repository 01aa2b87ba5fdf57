//! The condition `Available` of APIServices (CN-14 to CN-16).
//!
//! One daemon of those on a store checks, the one that runs the controllers. An APIService is
//! checked when it, its Service or an EndpointSlice of that changes, and every half a minute. A
//! status is written only if it changed, with the uid and the version that the check was about.

mod check;
mod decision;
mod index;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use actors::backoff::random_unit;
use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::object::CachedObject;
use actors::tasks::{self, until_stopped};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::decision::{AVAILABLE, Verdict, with_verdict};
use self::index::Index;
use super::metrics;
use super::remote::RemoteServers;
use super::{APISERVICES, ApiService};
use crate::api::object::{Object, put};
use crate::api::status::Status;
use crate::clock;
use crate::controllers::work_queue::{Ended, Waits, WorkQueue};
use crate::controllers::{Caches, FurtherController, Milestone};
use crate::registry::{NamespacedName, Registry, RequestContext, decoded};
use crate::storage::Preconditions;

const SERVICES: &str = "services";
const SLICES: &str = "endpointslices.discovery.k8s.io";
/// The resources whose caches the controller follows.
pub const AVAILABILITY_CACHES: [&str; 3] = [APISERVICES, SERVICES, SLICES];
/// The label by which an EndpointSlice names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The waits after failures.
const WAITS: Waits = Waits {
    first: Duration::from_millis(5),
    most: Duration::from_secs(30),
    most_held: Duration::from_secs(1),
};
/// The time after which an APIService is checked again.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// The part of that time by which checks are spread.
const SPREAD: Duration = Duration::from_secs(3);
/// The APIServices that are checked at a time. A server that never answers takes five seconds.
const CHECKS_MAX: usize = 64;
/// The time limit for one write.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// The controller of one daemon.
pub struct AvailabilityController {
    parts: Arc<Parts>,
}

struct Parts {
    registry: Registry,
    caches: Caches,
    servers: Arc<RemoteServers>,
    milestones: AvailabilityMilestones,
}

/// The progress of the controller after a start.
#[derive(Clone, Debug, Default)]
pub struct AvailabilityMilestones {
    /// The local APIServices of the start were checked.
    pub local: Milestone,
    /// Services and EndpointSlices are known, and the APIServices of other servers are checked.
    pub remote: Milestone,
}

impl AvailabilityMilestones {
    fn reach_all(&self) {
        self.local.reach();
        self.remote.reach();
    }
}

impl AvailabilityController {
    /// Creates the controller, which asks these servers.
    pub fn new(
        registry: Registry,
        caches: Caches,
        servers: Arc<RemoteServers>,
    ) -> AvailabilityController {
        metrics::describe();
        let parts = Parts {
            registry,
            caches,
            servers,
            milestones: AvailabilityMilestones::default(),
        };
        AvailabilityController {
            parts: Arc::new(parts),
        }
    }

    /// Returns its progress.
    pub fn milestones(&self) -> AvailabilityMilestones {
        self.parts.milestones.clone()
    }
}

impl FurtherController for AvailabilityController {
    fn name(&self) -> &'static str {
        "the controller of the availability of APIServices"
    }

    fn start(&self, stopped: watch::Receiver<bool>) -> JoinHandle<()> {
        let parts = Arc::clone(&self.parts);
        tasks::spawn(until_stopped(stopped, async move {
            match Work::new(&parts) {
                Some(mut work) => work.run().await,
                // Without them there are no APIServices of other servers.
                None => parts.milestones.reach_all(),
            }
        }))
    }
}

/// The outcome of the work on an APIService.
struct Checked {
    name: String,
    how: Ended,
    /// The revision of the status, if one was written.
    wrote: Option<u64>,
}

/// The state of a running controller.
struct Work<'p> {
    parts: &'p Parts,
    apiservices: CacheFollower,
    services: CacheFollower,
    slices: CacheFollower,
    apiservices_cache: CacherHandle,
    queue: WorkQueue<String>,
    index: Index,
    /// The local APIServices of the first state that were not checked yet. `None` before that.
    unchecked: Option<HashSet<String>>,
    running: FuturesUnordered<BoxFuture<'p, Checked>>,
}

impl<'p> Work<'p> {
    /// `None` if a resource that is needed is not served.
    fn new(parts: &'p Parts) -> Option<Work<'p>> {
        let apiservices_cache = (parts.caches)(APISERVICES)?;
        Some(Work {
            parts,
            apiservices: apiservices_cache.follow(),
            services: (parts.caches)(SERVICES)?.follow(),
            slices: (parts.caches)(SLICES)?.follow(),
            apiservices_cache,
            queue: WorkQueue::new(WAITS),
            index: Index::default(),
            unchecked: None,
            running: FuturesUnordered::new(),
        })
    }

    async fn run(&mut self) {
        loop {
            // Signals count from before the caches are read.
            let changed = [&self.apiservices, &self.services, &self.slices];
            let changed = changed.map(|follower| follower.changed().boxed());
            if self.read_news().is_none() {
                return;
            }
            self.begin();
            self.note_progress();
            let has_room = self.running.len() < CHECKS_MAX;
            let due = self.queue.next_due().filter(|_| has_room);
            tokio::select! {
                Some(checked) = self.running.next() => self.ended(checked),
                _ = futures_util::future::select_all(changed) => {}
                () = super::wait_until(due) => {}
            }
        }
    }

    /// Reads the news of the caches. `None` if one of them has stopped.
    fn read_news(&mut self) -> Option<()> {
        let now = Instant::now();
        while let Some(news) = news(&mut self.apiservices)? {
            match news {
                CacheNews::State(snapshot) => {
                    let mut index = Index::default();
                    let all = snapshot.range(self.apiservices_cache.prefix(), None);
                    for object in all.flatten() {
                        index.set(object.attributes().name(), service_of(object), 0);
                    }
                    self.index = index;
                    let index = &self.index;
                    self.queue.retain(|name| index.has(name));
                    for name in self.index.names() {
                        self.queue.add(name.clone(), now);
                    }
                    let local = self.index.names().filter(|name| !index.is_remote(name));
                    self.unchecked
                        .get_or_insert_with(|| local.cloned().collect());
                }
                CacheNews::Events(events) => {
                    for event in events {
                        match (&event.current, &event.previous) {
                            (Some(current), _) => self.note(current, now),
                            (None, Some(gone)) => self.index.remove(gone.attributes().name()),
                            (None, None) => {}
                        }
                    }
                }
                _ => {}
            }
        }
        let (index, queue) = (&self.index, &mut self.queue);
        while let Some(news) = news(&mut self.services)? {
            add_concerned(queue, index, &news, own_name);
        }
        while let Some(news) = news(&mut self.slices)? {
            add_concerned(queue, index, &news, service_name);
        }
        Some(())
    }

    fn note(&mut self, object: &CachedObject, now: Instant) {
        let name = object.attributes().name();
        let revision = object.revision.0;
        if self.index.set(name, service_of(object), revision) {
            self.queue.add(name.to_owned(), now);
        }
    }

    /// Begins checks that are due.
    fn begin(&mut self) {
        while self.running.len() < CHECKS_MAX
            && let Some((name, _)) = self.queue.take(Instant::now())
        {
            let parts = self.parts;
            self.running
                .push(async move { parts.check(name).await }.boxed());
        }
    }

    fn note_progress(&self) {
        let milestones = &self.parts.milestones;
        if self.unchecked.as_ref().is_some_and(HashSet::is_empty) {
            milestones.local.reach();
        }
        let followers = [&self.apiservices, &self.services, &self.slices];
        if followers.iter().all(|one| one.reached().is_some()) {
            milestones.remote.reach();
        }
    }

    fn ended(&mut self, checked: Checked) {
        let Checked { name, how, wrote } = checked;
        if let Some(unchecked) = self.unchecked.as_mut()
            && how != Ended::Failed
        {
            unchecked.remove(&name);
        }
        let now = Instant::now();
        if let Some(revision) = wrote {
            self.index.wrote(&name, revision);
        }
        self.queue.ended(&name, how, now, random_unit());
        if self.index.is_remote(&name) {
            let spread = SPREAD.mul_f64(random_unit());
            // A task that is due earlier stays so.
            self.queue.add_at(&name, now + AGAIN_AFTER - spread);
        }
    }
}

/// Returns the next news of a cache. The outer `None` means that it has stopped.
fn news(follower: &mut CacheFollower) -> Option<Option<CacheNews>> {
    match follower.read() {
        CacheNews::Stopped => None,
        CacheNews::Nothing | CacheNews::Filling => Some(None),
        news => Some(Some(news)),
    }
}

/// Adds the APIServices whose Service has changed, by the name of that in an object.
fn add_concerned(
    queue: &mut WorkQueue<String>,
    index: &Index,
    news: &CacheNews,
    name: fn(&CachedObject) -> Option<&str>,
) {
    let now = Instant::now();
    match news {
        CacheNews::State(_) => {
            let remote = index.names().filter(|name| index.is_remote(name));
            remote.for_each(|name| {
                queue.add(name.clone(), now);
            });
        }
        CacheNews::Events(events) => {
            let both = events.iter();
            let objects = both.flat_map(|event| [&event.current, &event.previous]);
            for object in objects.flatten() {
                let service = name(object).unwrap_or_default();
                for name in index.of(object.attributes().namespace(), service) {
                    queue.add(name.clone(), now);
                }
            }
        }
        _ => {}
    }
}

fn own_name(service: &CachedObject) -> Option<&str> {
    Some(service.attributes().name())
}

/// The name of the Service of an EndpointSlice.
fn service_name(slice: &CachedObject) -> Option<&str> {
    slice.attributes().label(SERVICE_LABEL)
}

fn service_of(object: &CachedObject) -> Option<index::ServiceName> {
    let service = ApiService::read(object).ok()?.service?;
    Some((service.namespace, service.name))
}

impl Parts {
    /// Checks one APIService, and writes its condition.
    async fn check(&self, name: String) -> Checked {
        let (how, wrote) = match self.checked(&name).await {
            Ok((how, wrote)) => (how, wrote),
            // It is gone, or has changed: the cache shows it.
            Err(status) if status.code == 404 => (Ended::Done, None),
            Err(status) if status.code == 409 => (Ended::Held, None),
            Err(status) => {
                tracing::warn!(name, %status, "checking an APIService failed, retrying");
                (Ended::Failed, None)
            }
        };
        Checked { name, how, wrote }
    }

    async fn checked(&self, name: &str) -> Result<(Ended, Option<u64>), Box<Status>> {
        let store = self.registry.current().named(APISERVICES);
        let store = store.ok_or_else(|| Box::new(Status::route_not_found()))?;
        let at = NamespacedName::in_cluster(name);
        let found = store.get(at, "0").await?;
        let unreadable = |error: serde_json::Error| Box::new(Status::internal(error.to_string()));
        let apiservice = ApiService::read(&found).map_err(unreadable)?;
        let verdict = match &apiservice.service {
            None => Verdict::local(),
            Some(_) => match check::verdict(&self.servers, &apiservice).await {
                Some(verdict) => verdict,
                None => return Ok((Ended::Failed, None)),
            },
        };
        let how = match verdict.is_retried() {
            true => Ended::Failed,
            false => Ended::Done,
        };
        let object = decoded(&found)?;
        if with_verdict(&object, &verdict, clock::now()).is_none() {
            return Ok((how, None));
        }
        let was_available = is_available(&object);
        let preconditions = Preconditions {
            uid: Some(object.uid().to_owned()),
            resource_version: Some(found.revision.0.to_string()),
        };
        let context = RequestContext::internal("apiservices", Instant::now() + WRITE_TIME);
        let mut apply = |object: &mut Object| {
            if let Some(conditions) = with_verdict(object, &verdict, clock::now()) {
                put(object, &["status", "conditions"], conditions);
            }
            Ok(())
        };
        let writing = store.change_status_of(&context, at, preconditions, false, &mut apply);
        let written = writing.await?;
        if verdict.status != "True" && was_available != Some(false) {
            metrics::became_unavailable(name, verdict.reason);
        }
        Ok((how, Some(written.revision.0)))
    }
}

/// Whether an APIService is available. `None` if it was never checked.
fn is_available(object: &Object) -> Option<bool> {
    let mut conditions = object.items(&["status", "conditions"]).iter();
    // linear: an object has a few conditions.
    let found = conditions.find(|one| one.get("type").is_some_and(|kind| kind == AVAILABLE))?;
    Some(found.get("status").is_some_and(|status| status == "True"))
}
