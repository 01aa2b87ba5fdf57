//! Follows the definitions in their watch cache, and does what follows from them.

mod deletions;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actors::cacher::{CacheFollower, CacheNews, CacherHandle};
use actors::engine::Revision;
use actors::object::CachedObject;
use actors::snapshot::Snapshot;
use actors::tasks;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use crate::api::deep::Roomy;
use crate::api::status::{Status, StatusReason};
use crate::clock;
use crate::custom_resources::definition::{Definition, ReadDefinition};
use crate::custom_resources::entry::{Checked, Entry, Step, Structural};
use crate::custom_resources::gate::Gate;
use crate::custom_resources::life::Leftovers;
use crate::custom_resources::made::Made;
use crate::custom_resources::names::Taken;
use crate::custom_resources::status::StatusChange;
use crate::custom_resources::{DeletionPause, Serving, Setup, ToServe};
use crate::registry::{DefinedVersions, NamespacedName, RegistryStore, RequestContext};
use crate::storage::Preconditions;

/// The pause before something that failed is tried again.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// How long a write of a status may take.
const TIME: Duration = Duration::from_secs(30);
/// The number of status writes at a time.
const WRITES: usize = 32;
/// The number of definitions whose schemas are checked at a time.
const CHECKS: usize = 16;

/// The controller of one daemon.
pub(super) struct Controller {
    store: Arc<RegistryStore>,
    definitions: CacherHandle,
    follower: CacheFollower,
    serving: Arc<dyn Serving>,
    gate: Arc<Gate>,
    pause: DeletionPause,
    defined: Arc<DefinedVersions>,
    entries: HashMap<String, Entry>,
    /// The names of definitions by group.
    groups: HashMap<String, BTreeSet<String>>,
    /// The definitions to look at, each once.
    queue: VecDeque<String>,
    queued: HashSet<String>,
    /// The definitions whose resources are being changed.
    changing: HashSet<String>,
    /// The definitions to look at later.
    later: BTreeMap<Instant, Vec<String>>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    writes: usize,
    /// The definitions whose schemas were not checked yet, the newest last.
    unchecked: Vec<String>,
    is_checking: bool,
    cleanups: usize,
    /// All definitions up to this revision were read.
    seen: Revision,
    is_ready: bool,
}

/// Work that has ended.
enum Done {
    /// Resources are served, or were refused. `None` is a resource that is not served any longer.
    Served(Vec<(String, Option<Made>, Result<(), String>)>),
    /// The schemas of definitions were checked.
    Checked(Vec<(String, Checked)>),
    /// A status was written.
    Written(Write, Result<(), Box<Status>>),
    /// An attempt to delete the objects of a definition.
    Cleaned(String, Result<bool, Box<Status>>),
    /// A look for the objects that a definition has left.
    Swept(String, Leftovers, Result<bool, Box<Status>>),
}

/// A write of the status of a definition.
struct Write {
    name: String,
    /// The version of the definition that it was computed from.
    version: u64,
}

impl Controller {
    pub fn new(setup: &Setup, store: Arc<RegistryStore>, gate: Arc<Gate>) -> Controller {
        Controller {
            store,
            follower: setup.definitions.follow(),
            definitions: setup.definitions.clone(),
            serving: Arc::clone(&setup.serving),
            gate,
            pause: setup.pause.clone(),
            defined: Arc::clone(&setup.defined),
            entries: HashMap::new(),
            groups: HashMap::new(),
            queue: VecDeque::new(),
            queued: HashSet::new(),
            changing: HashSet::new(),
            later: BTreeMap::new(),
            work: FuturesUnordered::new(),
            writes: 0,
            unchecked: Vec::new(),
            is_checking: false,
            cleanups: 0,
            seen: Revision::ZERO,
            is_ready: false,
        }
    }

    /// Works until it is stopped.
    pub async fn run(mut self) {
        self.definitions.settled().await;
        loop {
            if !self.read() {
                return;
            }
            self.look();
            self.report();
            let due = self.later.keys().next().copied();
            let changed = self.follower.changed();
            tokio::select! {
                Some(done) = self.work.next() => self.ended(done),
                () = changed => {}
                () = wait_until(due) => self.wake(),
            }
        }
    }

    /// Reads the news of the cache. Returns false if it has stopped.
    fn read(&mut self) -> bool {
        loop {
            match self.follower.read() {
                CacheNews::Nothing | CacheNews::Filling => return true,
                CacheNews::Stopped => return false,
                CacheNews::State(snapshot) => self.take_state(&snapshot),
                CacheNews::Events(events) => {
                    for event in events {
                        match (&event.current, &event.previous) {
                            (Some(current), previous) => {
                                let name = current.attributes().name();
                                let known = self.entries.get(name).and_then(Entry::definition);
                                let read = Definition::read(current, known);
                                self.take(current, read, previous.is_none());
                            }
                            (None, Some(previous)) => self.forget(previous.attributes().name()),
                            (None, None) => {}
                        }
                        self.seen = self.seen.max(event.revision);
                    }
                }
            }
        }
    }

    fn take_state(&mut self, snapshot: &Snapshot) {
        let mut found = HashSet::new();
        // Unreadable definitions are reported by the actor system, and their resources stay.
        let prefix = self.definitions.prefix().clone();
        let mut readable = Vec::new();
        for definition in snapshot.range(&prefix, None) {
            match definition {
                Ok(definition) => {
                    let name = definition.attributes().name();
                    found.insert(name.to_owned());
                    let known = self.entries.get(name).and_then(Entry::definition);
                    readable.push((definition, known));
                }
                Err(error) => {
                    let name = error.key.rsplit('/').next();
                    found.extend(name.map(str::to_owned));
                }
            }
        }
        for (cached, read) in Definition::read_all(&readable) {
            self.take(cached, read, false);
        }
        let known = self.entries.keys().filter(|name| !found.contains(*name));
        let gone: Vec<String> = known.cloned().collect();
        gone.iter().for_each(|name| self.forget(name));
        // A controller that was restarted has forgotten those that went meanwhile.
        self.defined.retain(|name| found.contains(name));
        self.seen = self.seen.max(snapshot.last_event());
    }

    fn take(&mut self, cached: &Arc<CachedObject>, read: ReadDefinition, is_new: bool) {
        let name = cached.attributes().name();
        let entry = self.entries.entry(name.to_owned()).or_default();
        let before = entry.definition().map(|known| known.accepted.clone());
        let definition = match read {
            Ok(definition) => definition,
            Err(error) => {
                tracing::warn!(definition = name, %error, "the definition can't be read");
                return;
            }
        };
        let group = definition.spec.group.clone();
        let served = definition.spec.versions.iter();
        let served = served.filter(|version| version.is_served);
        let served = served.map(|version| version.name.as_str());
        self.defined.set(name, &group, served);
        let has_changed = before.is_some_and(|before| before != definition.accepted);
        entry.take(definition, cached, is_new);
        let names = self.groups.entry(group.clone()).or_default();
        names.insert(name.to_owned());
        self.add(name);
        if has_changed {
            self.add_group(&group);
        }
    }

    /// Takes note that a definition is gone.
    fn forget(&mut self, name: &str) {
        self.defined.set(name, "", std::iter::empty());
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let current = entry.forget();
        self.add(name);
        if let Some(current) = current {
            let group = &current.definition.spec.group;
            if let Some(names) = self.groups.get_mut(group) {
                names.remove(name);
            }
            // Its names are free for others (CRD-63).
            self.add_group(group);
        }
    }

    fn add(&mut self, name: &str) {
        if self.queued.insert(name.to_owned()) {
            self.queue.push_back(name.to_owned());
        }
    }

    fn add_group(&mut self, group: &str) {
        let names = self.groups.get(group).cloned().unwrap_or_default();
        names.iter().for_each(|name| self.add(name));
    }

    fn add_later(&mut self, name: &str, pause: Duration) {
        let due = Instant::now() + pause;
        self.later.entry(due).or_default().push(name.to_owned());
    }

    fn wake(&mut self) {
        let rest = self.later.split_off(&Instant::now());
        let due = std::mem::replace(&mut self.later, rest);
        due.values().flatten().for_each(|name| self.add(name));
    }

    /// Looks at all queued definitions, and begins what follows.
    fn look(&mut self) {
        let mut to_serve = Vec::new();
        let mut waiting = Vec::new();
        while let Some(name) = self.queue.pop_front() {
            self.queued.remove(&name);
            let is_hidden = self.is_hidden(&name);
            let Some(entry) = self.entries.get_mut(&name) else {
                continue;
            };
            // It is looked at again when the work that it waits for has ended.
            if entry.is_serving {
                continue;
            }
            let left = entry.sweep();
            let is_gone = entry.current.is_none();
            if let Some(left) = left {
                self.sweep(&name, left);
            }
            let Some(entry) = self.entries.get_mut(&name) else {
                continue;
            };
            if is_gone && entry.left.is_some() {
                continue;
            }
            match entry.step(is_hidden) {
                Step::Serve { made, ends_watches } => {
                    entry.is_serving = true;
                    let is_replaced = entry
                        .served
                        .as_ref()
                        .is_some_and(|served| served.form != made.form);
                    let made = *made;
                    let resource = ToServe {
                        made: made.clone(),
                        ends_watches,
                    };
                    match is_replaced {
                        // It may take long, so it is served apart from others.
                        true => self.serve(vec![(name, made, resource)]),
                        false => to_serve.push((name, made, resource)),
                    }
                }
                Step::Withdraw => self.withdraw(name),
                Step::None if entry.current.is_none() => {
                    self.entries.remove(&name);
                }
                Step::None => {
                    if !self.write(&name) {
                        waiting.push(name.clone());
                    }
                    self.clean(&name);
                }
            }
        }
        if !to_serve.is_empty() {
            self.serve(to_serve);
        }
        waiting.iter().for_each(|name| self.add(name));
        self.check();
    }

    /// Checks the schemas of some definitions on another thread, because after a start they are
    /// those of all definitions.
    fn check(&mut self) {
        if self.is_checking || self.unchecked.is_empty() {
            return;
        }
        let rest = self.unchecked.len().saturating_sub(CHECKS);
        let names = self.unchecked.split_off(rest).into_iter();
        let current = names.filter_map(|name| {
            let entry = self.entries.get(&name)?;
            // It may have been queued twice.
            let is_unknown = matches!(entry.structural(), Structural::Unknown);
            Some((name, entry.current.clone().filter(|_| is_unknown)?))
        });
        let current: Vec<_> = current.collect();
        self.is_checking = true;
        let checking = tasks::spawn_blocking(move || {
            let checked = current.into_iter();
            let checked = checked.map(|(name, current)| (name, current.check()));
            checked.collect::<Vec<_>>()
        });
        let checked = async move {
            match checking.await {
                Ok(checked) => Done::Checked(checked),
                // A check panicked. The controller is restarted.
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => std::future::pending().await,
                },
            }
        };
        self.work.push(checked.boxed());
    }

    fn is_hidden(&self, name: &str) -> bool {
        let group = name.split_once('.').map_or("", |(_, group)| group);
        self.serving.is_built_in(group)
    }

    fn serve(&mut self, resources: Vec<(String, Made, ToServe)>) {
        let mut made = Vec::new();
        let mut to_serve = Vec::new();
        for (name, one, resource) in resources {
            self.changing.insert(name.clone());
            made.push((name, one));
            to_serve.push(resource);
        }
        let serving = self.serving.serve(to_serve);
        let served = async move {
            let outcomes = serving.await;
            let served = made.into_iter().zip(outcomes);
            let served = served.map(|((name, made), outcome)| (name, Some(made), outcome));
            Done::Served(served.collect())
        };
        self.work.push(served.boxed());
    }

    fn withdraw(&mut self, name: String) {
        let Some(entry) = self.entries.get_mut(&name) else {
            return;
        };
        let Some(served) = &entry.served else {
            return;
        };
        entry.is_serving = true;
        self.changing.insert(name.clone());
        let resource = &served.resource;
        let withdrawing = self.serving.withdraw(&resource.group, &resource.plural);
        let done = async move { Done::Served(vec![(name, None, withdrawing.await)]) };
        self.work.push(done.boxed());
    }

    /// Writes the next change of a definition's status, if there is one. Returns false if too many
    /// are being written.
    fn write(&mut self, name: &str) -> bool {
        let Some(entry) = self.entries.get(name) else {
            return true;
        };
        if entry.is_writing {
            return true;
        }
        let Some(current) = entry.current.as_ref() else {
            return true;
        };
        let structural = match entry.structural() {
            Structural::Yes => None,
            Structural::No(condition) => Some(condition),
            Structural::Unknown => {
                // It is looked at again when its schemas were checked.
                self.unchecked.push(name.to_owned());
                return true;
            }
        };
        let definition = &current.definition;
        let peers = self
            .groups
            .get(&definition.spec.group)
            .into_iter()
            .flatten();
        let peers = peers.filter_map(|peer| self.entries.get(peer)?.current.as_ref());
        let taken = Taken::of(peers.map(|peer| &peer.definition));
        let Some(change) = StatusChange::next(definition, &taken, structural) else {
            return true;
        };
        if self.writes >= WRITES {
            return false;
        }
        self.writes += 1;
        let version = definition.version;
        let preconditions = Preconditions {
            uid: Some(definition.uid.clone()),
            resource_version: Some(definition.version.to_string()),
        };
        if let Some(entry) = self.entries.get_mut(name) {
            entry.is_writing = true;
            // Other definitions of the group must not be given the same names meanwhile.
            if let (Some(names), Some(current)) = (change.names(), &mut entry.current) {
                current.definition.accepted = names.clone();
            }
        }
        let (store, name) = (Arc::clone(&self.store), name.to_owned());
        let write = Write {
            name: name.clone(),
            version,
        };
        let writing = async move {
            let context = RequestContext::internal("definitions", Instant::now() + TIME);
            let at = NamespacedName::in_cluster(&name);
            let mut apply = |object: &mut _| {
                change.apply(object, clock::now());
                Ok(())
            };
            let written = store.change_status_of(&context, at, preconditions, false, &mut apply);
            let written = written.await.map(drop);
            Done::Written(write, written)
        };
        self.work.push(Roomy::new(writing).boxed());
        true
    }

    fn ended(&mut self, done: Done) {
        match done {
            Done::Served(outcomes) => {
                for (name, made, outcome) in outcomes {
                    self.served(&name, made, outcome);
                }
            }
            Done::Checked(checked) => {
                self.is_checking = false;
                for (name, checked) in checked {
                    if let Some(entry) = self.entries.get_mut(&name) {
                        entry.take_checked(checked);
                        self.add(&name);
                    }
                }
            }
            Done::Written(Write { name, version }, outcome) => {
                self.writes = self.writes.saturating_sub(1);
                let Some(entry) = self.entries.get_mut(&name) else {
                    return;
                };
                entry.is_writing = false;
                let current = entry.current.as_ref();
                let is_newer = current.is_some_and(|now| now.definition.version != version);
                if outcome.is_err() {
                    entry.forget_decisions();
                }
                match outcome {
                    // Otherwise the new state is about to come.
                    _ if is_newer => self.add(&name),
                    Ok(()) => {}
                    Err(status) => {
                        self.attempt_failed(&name, &status, "the status can't be written");
                    }
                }
            }
            Done::Swept(name, left, outcome) => self.swept(&name, &left, outcome),
            Done::Cleaned(name, outcome) => self.cleaned(&name, outcome),
        }
    }

    fn served(&mut self, name: &str, made: Option<Made>, outcome: Result<(), String>) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        entry.is_serving = false;
        self.changing.remove(name);
        match outcome {
            Ok(()) => {
                entry.served = made;
                self.add(name);
            }
            Err(error) => {
                tracing::warn!(definition = name, error, "the resource can't be served");
                self.add_later(name, PAUSE_AFTER_ERROR);
            }
        }
    }

    fn attempt_failed(&mut self, name: &str, status: &Status, what: &str) {
        // The definition has changed, and its new state is about to come.
        let is_outdated =
            [StatusReason::CONFLICT, StatusReason::NOT_FOUND].contains(&status.reason);
        if !is_outdated {
            tracing::warn!(definition = name, %status, "{what}");
        }
        self.add_later(name, PAUSE_AFTER_ERROR);
    }

    /// Reports what is known to requests that wait.
    fn report(&mut self) {
        let changing = self.changing.iter();
        let groups = changing.map(|name| name.split_once('.').map_or("", |(_, group)| group));
        let changing: HashSet<String> = groups.map(str::to_owned).collect();
        let has_state = self.follower.reached().is_some();
        self.is_ready |= has_state && changing.is_empty();
        let (seen, is_ready) = (self.seen, self.is_ready);
        self.gate.report(|state| {
            state.has_begun |= has_state;
            state.is_ready |= is_ready;
            state.revision = seen;
            state.changing = Arc::new(changing);
        });
    }
}

async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
