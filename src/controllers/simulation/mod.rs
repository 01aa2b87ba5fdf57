//! Parts of a cluster that tests need and that a server without nodes lacks: nodes, pods that run,
//! and controllers of workloads.
//!
//! One task follows the caches and decides about one object at a time by pure functions, which
//! return the writes that are missing. It knows its own writes at once. It keeps nothing that
//! the caches can't show again, except which nodes it was asked to make.

mod manager_lease;
mod nodes;
mod objects;
mod placement;
mod plan;
mod pods;
mod refusals;
mod steps;
mod workloads;

use std::collections::BTreeSet;
use std::time::Duration;

use actors::backoff::random_unit;
use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::object::CachedObject;
use actors::tasks::until_stopped;
use futures_util::future::{FutureExt, join_all, select_all};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Caches;
use super::work_queue::{Ended, Waits, WorkQueue};
use crate::api::object::Object;
use crate::clock;
use crate::registry::{Registry, decoded};
use manager_lease::ManagerLease;
use objects::{Id, Kind, Objects, controller_of};
use plan::{Plan, Step, selects};
use pods::Turns;
use refusals::Refusals;
use steps::{Done, Outcome, Writer};

/// Objects that are worked on at a time.
const AT_A_TIME: usize = 16;
/// A write that fails is retried soon, because a test waits.
const WAITS: Waits = Waits {
    first: Duration::from_millis(5),
    most: Duration::from_secs(1),
    most_held: Duration::from_millis(200),
};
/// The longest pause without news.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The parts of a cluster to simulate, for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Simulation {
    /// The number of nodes to make, which stay Ready.
    pub nodes: u32,
    /// Whether pods are bound and reported as running.
    pub pods_run: bool,
    /// Whether Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs have controllers.
    pub workloads: bool,
}

impl Simulation {
    /// The most nodes.
    pub const NODES_MAX: u32 = 1000;

    /// Whether nothing is simulated.
    pub fn is_empty(self) -> bool {
        self == Simulation::default()
    }

    /// The kinds that are followed.
    fn kinds(self) -> Vec<Kind> {
        let mut kinds = vec![Kind::Node, Kind::Lease];
        if self.pods_run || self.workloads {
            kinds.push(Kind::Pod);
        }
        if self.workloads {
            kinds.push(Kind::Claim);
            kinds.extend(Kind::WORKLOADS);
        }
        kinds
    }
}

/// The controller of one daemon.
pub(super) struct SimulationController {
    simulation: Simulation,
    writer: Writer,
    stopped: watch::Receiver<bool>,
    followed: Vec<(Kind, CacherHandle, CacheFollower)>,
    objects: Objects,
    queue: WorkQueue<Id>,
    turns: Turns,
    manager: ManagerLease,
    refusals: Refusals,
    /// The nodes that are still to be made.
    missing: BTreeSet<String>,
}

impl SimulationController {
    pub(super) fn new(
        registry: Registry,
        caches: Caches,
        simulation: Simulation,
        stopped: watch::Receiver<bool>,
    ) -> SimulationController {
        let kinds = simulation.kinds().into_iter();
        let followed = kinds.filter_map(|kind| {
            let cache = caches(kind.resource())?;
            cache.begin_use();
            let follower = cache.follow();
            Some((kind, cache, follower))
        });
        SimulationController {
            followed: followed.collect(),
            simulation,
            writer: Writer::new(registry),
            stopped,
            objects: Objects::default(),
            queue: WorkQueue::new(WAITS),
            turns: Turns::default(),
            manager: ManagerLease::default(),
            refusals: Refusals::default(),
            missing: (1..=simulation.nodes).map(nodes::name).collect(),
        }
    }

    /// Works until it is stopped.
    pub(super) async fn run(mut self) {
        until_stopped(self.stopped.clone(), self.follow()).await;
    }

    async fn follow(&mut self) {
        for name in self.missing.clone() {
            self.queue
                .add(Id::new(Kind::Node, "", &name), clock::moment());
        }
        while self.read() {
            let now = clock::moment();
            if self.manager.has_ended(now) {
                self.add_all_workloads();
            }
            let mut taken = Vec::new();
            while taken.len() < AT_A_TIME
                && let Some((id, _)) = self.queue.take(now)
            {
                let plan = self.plan(&id, clock::now());
                taken.push((id, plan));
            }
            if taken.is_empty() {
                self.wait().await;
                continue;
            }
            let writer = &self.writer;
            let written = taken.into_iter().map(|(id, plan)| async move {
                (id, plan.again, writer.carry_out(plan.steps).await)
            });
            for (id, again, outcome) in join_all(written).await {
                let ended = outcome.ended;
                self.note_outcome(&id, outcome);
                if let (Some(again), Ended::Done) = (again, ended) {
                    // From the plan on, because the clock may have jumped since.
                    self.queue.add_at(&id, now + again);
                }
            }
        }
    }

    /// Waits for news or until something is due.
    async fn wait(&mut self) {
        let changed = self.followed.iter();
        let changed = changed.map(|(_, _, follower)| follower.changed().boxed());
        let due = [self.queue.next_due(), self.manager.ends()].into_iter();
        let due = due.flatten().min();
        let until = due.unwrap_or_else(|| clock::moment() + PAUSE_MAX);
        tokio::select! {
            _ = select_all(changed) => {}
            () = clock::reached(until) => {}
        }
    }

    /// Reads all news. Returns false when the daemon stops.
    fn read(&mut self) -> bool {
        for place in 0..self.followed.len() {
            while let Some((kind, cache, follower)) = self.followed.get_mut(place) {
                let kind = *kind;
                match follower.read() {
                    CacheNews::Nothing | CacheNews::Filling => break,
                    CacheNews::Stopped => return false,
                    CacheNews::State(snapshot) => {
                        let all = snapshot.range(cache.prefix(), None).flatten();
                        let all: Vec<_> = all.cloned().collect();
                        self.objects.clear(kind);
                        for object in all {
                            self.put(kind, &object);
                        }
                    }
                    CacheNews::Events(events) => {
                        for event in events {
                            match (&event.current, &event.previous) {
                                (Some(object), _) => self.put(kind, object),
                                (None, Some(object)) => {
                                    let attributes = object.attributes();
                                    let id =
                                        Id::new(kind, attributes.namespace(), attributes.name());
                                    self.removed(&id, event.revision.0);
                                }
                                (None, None) => {}
                            }
                        }
                    }
                }
            }
        }
        true
    }

    fn put(&mut self, kind: Kind, object: &CachedObject) {
        // Unreadable objects are reported by the actor system.
        let Ok(object) = decoded(object) else {
            return;
        };
        let id = Id::of(kind, &object);
        if kind == Kind::Lease {
            self.manager.see(&id, &object, clock::moment());
        }
        // An object may leave its controller.
        if let Some(known) = self.objects.get(&id).cloned() {
            self.add_concerned(&id, &known);
        }
        self.add_concerned(&id, &object);
        self.objects.put(id, object);
    }

    fn removed(&mut self, id: &Id, revision: u64) {
        if let Some(known) = self.objects.get(id).cloned() {
            self.add_concerned(id, &known);
        }
        self.objects.remove(id, revision);
        self.refusals.end(id);
    }

    /// Takes note of the result of the writes for an object.
    fn note_outcome(&mut self, id: &Id, outcome: Outcome) {
        outcome.done.into_iter().for_each(|done| self.note(done));
        let now = clock::moment();
        match outcome.refusal {
            Some(refusal) => {
                if let Some(why) = self.refusals.note(id, refusal, now) {
                    let (kind, _) = id.kind.names();
                    let (namespace, name) = (&id.namespace, &id.name);
                    tracing::warn!(kind, namespace, name, "the simulation can't go on: {why}");
                }
            }
            None if outcome.ended == Ended::Done => self.refusals.end(id),
            None => {}
        }
        self.queue.ended(id, outcome.ended, now, random_unit());
    }

    /// Takes note of a write.
    fn note(&mut self, done: Done) {
        match done {
            Done::Written(kind, object) => self.put(kind, &object),
            Done::Removed(id, revision) => self.removed(&id, revision),
        }
    }

    /// Queues what depends on an object that has changed: itself, its controller, and those that
    /// may adopt it.
    fn add_concerned(&mut self, id: &Id, object: &Object) {
        let now = clock::moment();
        match id.kind {
            Kind::Lease => return,
            Kind::Node => {
                let unbound = self.objects.of_kind(Kind::Pod);
                let unbound = unbound.filter(|(_, pod)| pod.text(&["spec", "nodeName"]).is_empty());
                let daemons = self.objects.of_kind(Kind::DaemonSet);
                let concerned: Vec<Id> = unbound.chain(daemons).map(|(id, _)| id.clone()).collect();
                concerned.into_iter().for_each(|id| self.add(id, now));
            }
            Kind::Pod | Kind::ReplicaSet if self.simulation.workloads => {
                let owners: Vec<Id> = match controller_of(object) {
                    Some(owner) => {
                        let text = |name: &str| owner.get(name).and_then(serde_json::Value::as_str);
                        let (kind, name) = (text("kind"), text("name").unwrap_or_default());
                        let kinds = Kind::WORKLOADS.into_iter();
                        let kinds = kinds.filter(|one| Some(one.names().0) == kind);
                        kinds
                            .map(|kind| Id::new(kind, &id.namespace, name))
                            .collect()
                    }
                    None => self.adopters(id, object),
                };
                owners.into_iter().for_each(|id| self.add(id, now));
            }
            _ => {}
        }
        self.add(id.clone(), now);
    }

    /// The workloads that select an object without a controller.
    fn adopters(&self, id: &Id, object: &Object) -> Vec<Id> {
        let kinds: &[Kind] = match id.kind {
            Kind::Pod => &Kind::WORKLOADS,
            _ => &[Kind::Deployment],
        };
        let all = kinds
            .iter()
            .flat_map(|kind| self.objects.within(*kind, &id.namespace));
        let all = all.filter(|(_, workload)| selects(workload.at(&["spec", "selector"]), object));
        all.map(|(id, _)| id.clone()).collect()
    }

    fn add(&mut self, id: Id, now: Instant) {
        let is_followed = match id.kind {
            Kind::Node => true,
            Kind::Pod => self.simulation.pods_run,
            kind => self.simulation.workloads && kind.is_workload(),
        };
        if is_followed {
            self.queue.add(id, now);
        }
    }

    fn add_all_workloads(&mut self) {
        let kinds = Kind::WORKLOADS.into_iter();
        let all = kinds.flat_map(|kind| self.objects.of_kind(kind));
        let all: Vec<Id> = all.map(|(id, _)| id.clone()).collect();
        all.into_iter().for_each(|id| self.add(id, clock::moment()));
    }

    /// Decides about one object.
    fn plan(&mut self, id: &Id, now: Timestamp) -> Plan {
        let Some(object) = self.objects.get(id).cloned() else {
            // A node that a test deletes stays deleted.
            return match id.kind == Kind::Node && self.missing.remove(&id.name) {
                true => Plan::of([Step::Create(Kind::Node, nodes::new(&id.name, now))]),
                false => Plan::default(),
            };
        };
        match id.kind {
            Kind::Node => {
                self.missing.remove(&id.name);
                nodes::plan(&self.objects, &object, now)
            }
            Kind::Pod => pods::plan(&self.objects, &object, &mut self.turns, now),
            _ if self.manager.is_held(clock::moment()) => Plan::default(),
            kind => {
                let refusal = self.refusals.of_creates(id);
                workloads::plan(&self.objects, kind, &object, refusal, now)
            }
        }
    }
}
