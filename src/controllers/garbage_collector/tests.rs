//! Random graphs: in the end exactly those objects remain that remain in a simple model. First
//! without a runtime, with events that come late and in any order, then with the whole collector.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::WAITS;
use super::graph::{Graph, Standing, Task};
use super::metadata::{Deletion, FOREGROUND, Metadata, ORPHAN};
use super::uid::Uid;
use super::verdict::{Dependents, Owner, Verdict, decide};
use crate::api::options::{DeleteOptions, Propagation};
use crate::controllers::Sharing;
use crate::controllers::tests::{cached_fixture, started};
use crate::controllers::work_queue::{Ended, WorkQueue};
use crate::registry::tests::fixture::Fixture;

/// Random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// The seeds of a test: one that was given, or some.
fn seeds(count: u64) -> Vec<u64> {
    let given = std::env::var("TAFFRAIL_SEED").ok();
    let given = given.and_then(|text| text.parse().ok());
    given.map_or_else(|| (1..=count).collect(), |seed: u64| vec![seed])
}

/// Owners by object. Objects are numbers.
type Owners = BTreeMap<usize, Vec<usize>>;

fn random_owners(random: &mut Random) -> Owners {
    let count = 3 + random.below(25);
    let object = |random: &mut Random, number: usize| {
        let owners = match random.below(4) {
            0 => 0,
            1 | 2 => 1,
            _ => 2,
        };
        let owners: BTreeSet<usize> = (0..owners)
            .map(|_| random.below(count))
            .filter(|owner| *owner != number)
            .collect();
        owners.into_iter().collect()
    };
    (0..count)
        .map(|number| (number, object(random, number)))
        .collect()
}

/// Returns the remaining objects with their owners, after these are released and those are deleted.
fn model(mut owners: Owners, orphaning: &BTreeSet<usize>, deleted: &BTreeSet<usize>) -> Owners {
    for list in owners.values_mut() {
        list.retain(|owner| !orphaning.contains(owner));
    }
    owners.retain(|object, _| !orphaning.contains(object) && !deleted.contains(object));
    loop {
        let left: BTreeSet<usize> = owners.keys().copied().collect();
        let is_owned = |list: &Vec<usize>| list.is_empty() || list.iter().any(|o| left.contains(o));
        let before = owners.len();
        owners.retain(|_, list| is_owned(list));
        if owners.len() == before {
            break;
        }
    }
    let left: BTreeSet<usize> = owners.keys().copied().collect();
    for list in owners.values_mut() {
        list.retain(|owner| left.contains(owner));
    }
    owners
}

fn some(random: &mut Random, owners: &Owners) -> BTreeSet<usize> {
    let objects = owners.keys().copied();
    objects.filter(|_| random.below(6) == 0).collect()
}

#[derive(Clone, Debug)]
struct Thing {
    owners: Vec<(usize, bool)>,
    finalizer: Option<&'static str>,
}

/// A store of plain structs, and what the graph has not heard of it yet, by resource.
struct World {
    things: BTreeMap<usize, Thing>,
    unheard: [VecDeque<(usize, Option<Thing>)>; 2],
    graph: Graph,
    queue: WorkQueue<Task>,
    random: Random,
}

const RESOURCES: [&str; 2] = ["configmaps", "secrets"];

fn uid(number: usize) -> String {
    format!("u-{number}")
}

fn number(uid: &Uid) -> usize {
    let text = uid.to_string();
    text.strip_prefix("u-")
        .and_then(|n| n.parse().ok())
        .expect("a uid of the test")
}

fn metadata(number: usize, thing: &Thing) -> Metadata {
    let reference = |(owner, blocks): &(usize, bool)| {
        json!({"apiVersion": "v1", "kind": "K", "name": owner.to_string(), "uid": uid(*owner),
            "blockOwnerDeletion": blocks})
    };
    let owners: Vec<_> = thing.owners.iter().map(reference).collect();
    let mut metadata = json!({"uid": uid(number), "ownerReferences": owners});
    if let Some(finalizer) = thing.finalizer {
        metadata["finalizers"] = json!([finalizer]);
        metadata["deletionTimestamp"] = json!("2024-01-02T03:04:05Z");
    }
    serde_json::from_value(metadata).expect("metadata")
}

impl World {
    fn write(&mut self, number: usize, thing: Option<Thing>) {
        match &thing {
            Some(thing) => self.things.insert(number, thing.clone()),
            None => self.things.remove(&number),
        };
        self.unheard[number % 2].push_back((number, thing));
    }

    fn delete(&mut self, number: usize, policy: Propagation) {
        let Some(thing) = self.things.get(&number).cloned() else {
            return;
        };
        let finalizer = match policy {
            Propagation::Background => return self.write(number, None),
            Propagation::Foreground => FOREGROUND,
            Propagation::Orphan => ORPHAN,
        };
        let finalizer = Some(finalizer);
        self.write(number, Some(Thing { finalizer, ..thing }));
    }

    /// The graph hears of the next change of a resource.
    fn hear(&mut self, resource: usize) {
        let Some((number, thing)) = self.unheard[resource].pop_front() else {
            return;
        };
        let mut work = Vec::new();
        match thing {
            Some(thing) => {
                let name = number.to_string();
                let place = (RESOURCES[resource], "d", name.as_str());
                self.graph.put(place, &metadata(number, &thing), &mut work);
            }
            None => self.graph.deleted(&uid(number), &mut work),
        }
        self.add(work);
    }

    fn add(&mut self, work: Vec<Task>) {
        for task in work {
            self.queue.add(task, Instant::now());
        }
    }

    fn settle(&mut self) {
        for resource in 0..2 {
            while !self.unheard[resource].is_empty() {
                self.hear(resource);
            }
        }
    }

    /// Does what there is to do, in any order, until nothing is left.
    fn run(&mut self) {
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 100_000, "it never ends");
            if self.random.below(2) == 0 {
                let resource = self.random.below(2);
                self.hear(resource);
                continue;
            }
            if let Some((task, _)) = self.queue.take(Instant::now()) {
                let ended = self.work(&task);
                self.queue.ended(&task, ended, Instant::now(), 0.0);
            } else if self.unheard.iter().all(VecDeque::is_empty) {
                return;
            }
        }
    }

    fn owner(&self, number: usize) -> Owner {
        match self.things.get(&number).map(|thing| thing.finalizer) {
            None => Owner::Absent,
            Some(Some(FOREGROUND)) => Owner::Waiting,
            Some(_) => Owner::Solid,
        }
    }

    fn work(&mut self, task: &Task) -> Ended {
        match task {
            Task::Verify(id) => {
                let Some((claim, _)) = self.graph.claimed(*id) else {
                    return Ended::Done;
                };
                let claim = claim.clone();
                let standing = match self.owner(number(&claim.uid)) {
                    Owner::Absent => Standing::Absent,
                    _ => Standing::Found,
                };
                let mut work = Vec::new();
                self.graph.verified(*id, &claim, standing, &mut work);
                self.add(work);
                Ended::Done
            }
            Task::Judge(uid) => self.judge(uid),
            Task::Orphan(uid) => self.orphan(uid),
        }
    }

    fn judge(&mut self, uid: &Uid) -> Ended {
        let own = number(uid);
        match self.graph.found(uid) {
            Some((_, Deletion::Foreground)) if !self.graph.is_blocked(uid) => {
                self.settle();
                if !self.graph.is_blocked(uid) {
                    self.write(own, None);
                }
                return Ended::Done;
            }
            Some((_, Deletion::Foreground)) => {
                if self.graph.waits_for_itself(uid)
                    && let Some(mut thing) = self.things.get(&own).cloned()
                {
                    thing
                        .owners
                        .iter_mut()
                        .for_each(|(_, blocks)| *blocks = false);
                    self.write(own, Some(thing));
                }
                return Ended::Done;
            }
            Some((_, Deletion::None)) => {}
            _ => return Ended::Done,
        }
        let Some(mut thing) = self.things.get(&own).cloned() else {
            return Ended::Done;
        };
        if thing.finalizer.is_some() {
            return Ended::Done;
        }
        let owners = thing.owners.iter();
        let owners: Vec<(Uid, Owner)> = owners
            .map(|(owner, _)| (Uid::of(&self::uid(*owner)), self.owner(*owner)))
            .collect();
        let is_waited_for = owners.iter().any(|(_, owner)| *owner == Owner::Waiting);
        let dependents = match is_waited_for {
            true => self.graph.dependents_of(uid),
            false => Dependents::default(),
        };
        match decide(&owners, dependents, Propagation::Background) {
            Verdict::Keep => {}
            Verdict::Unreference(dangling) => {
                let is_kept =
                    |(owner, _): &(usize, bool)| !dangling.contains(&Uid::of(&self::uid(*owner)));
                thing.owners.retain(is_kept);
                self.write(own, Some(thing));
            }
            Verdict::Delete { policy, unblock } => {
                if unblock {
                    thing
                        .owners
                        .iter_mut()
                        .for_each(|(_, blocks)| *blocks = false);
                    self.write(own, Some(thing));
                }
                self.delete(own, policy);
            }
        }
        Ended::Done
    }

    fn orphan(&mut self, uid: &Uid) -> Ended {
        if !matches!(self.graph.found(uid), Some((_, Deletion::Orphan))) {
            return Ended::Done;
        }
        self.settle();
        let own = number(uid);
        let dependents = self.graph.dependent_places(uid);
        if dependents.is_empty() {
            self.write(own, None);
            return Ended::Done;
        }
        for (dependent, _) in dependents {
            let dependent = number(&dependent);
            if let Some(mut thing) = self.things.get(&dependent).cloned() {
                thing.owners.retain(|(owner, _)| *owner != own);
                self.write(dependent, Some(thing));
            }
        }
        Ended::GoesOn
    }

    fn left(&self) -> Owners {
        let owners = |thing: &Thing| thing.owners.iter().map(|(owner, _)| *owner).collect();
        let things = self.things.iter();
        things
            .map(|(number, thing)| (*number, owners(thing)))
            .collect()
    }
}

fn simulate(seed: u64) {
    let mut random = Random::new(seed);
    let owners = random_owners(&mut random);
    let (orphaning, deleted) = (some(&mut random, &owners), some(&mut random, &owners));
    let expected = model(owners.clone(), &orphaning, &deleted);
    let mut world = World {
        things: BTreeMap::new(),
        unheard: Default::default(),
        graph: Graph::default(),
        queue: WorkQueue::new(WAITS),
        random,
    };
    // Circles can't be created in one write.
    for number in owners.keys() {
        let bare = Thing {
            owners: Vec::new(),
            finalizer: None,
        };
        world.write(*number, Some(bare));
    }
    for (number, list) in &owners {
        let owners = list
            .iter()
            .map(|owner| (*owner, world.random.below(2) == 0));
        let owners = owners.collect();
        world.write(
            *number,
            Some(Thing {
                owners,
                finalizer: None,
            }),
        );
    }
    if world.random.below(2) == 0 {
        world.run();
    }
    for object in orphaning {
        world.delete(object, Propagation::Orphan);
    }
    world.run();
    for object in deleted {
        let policy = match world.random.below(2) {
            0 => Propagation::Background,
            _ => Propagation::Foreground,
        };
        world.delete(object, policy);
    }
    world.run();
    assert_eq!(world.left(), expected, "of {owners:?}");
    let size = world.graph.size();
    let owned = expected.values().filter(|owners| !owners.is_empty());
    assert_eq!(size.nodes, owned.count(), "nothing is forgotten");
}

#[test]
fn random_graphs_end_as_the_model_says() {
    for seed in seeds(2000) {
        let ended = std::panic::catch_unwind(|| simulate(seed));
        assert!(ended.is_ok(), "run again with TAFFRAIL_SEED={seed}");
    }
}

/// A feed that starts again finds objects that were deleted meanwhile, and owners that are back.
#[test]
fn a_new_listing_tells_of_what_was_missed() {
    let (mut graph, mut work) = (Graph::default(), Vec::new());
    let child = |owners: &[usize]| Thing {
        owners: owners.iter().map(|owner| (*owner, false)).collect(),
        finalizer: None,
    };
    let listed = |graph: &mut Graph, names: &[usize], owners: &[usize], work: &mut Vec<Task>| {
        let began = graph.begin_listing();
        for name in names {
            let text = name.to_string();
            graph.put(
                (RESOURCES[0], "d", &text),
                &metadata(*name, &child(&[9])),
                work,
            );
        }
        let owners = owners.iter().map(|owner| Uid::of(&uid(*owner))).collect();
        let is_kind = |_: &str, kind: &str| kind == "K";
        let seen = super::graph::Seen {
            owners,
            is_kind: &is_kind,
        };
        graph.end_listing(RESOURCES[0], began, Some(seen), work);
    };
    listed(&mut graph, &[1, 2], &[9], &mut work);
    let [Task::Verify(id)] = work[..] else {
        panic!("{work:?}");
    };
    let claim = graph.claimed(id).expect("it is claimed").0.clone();
    graph.verified(id, &claim, Standing::Found, &mut work);
    work.clear();
    listed(&mut graph, &[1, 2], &[9], &mut work);
    assert_eq!(work, []);
    listed(&mut graph, &[1], &[], &mut work);
    assert_eq!(work, [Task::Verify(id)]);
    assert_eq!(graph.size().nodes, 1);
    work.clear();
    graph.verified(id, &claim, Standing::Absent, &mut work);
    assert_eq!(work, [Task::Judge(Uid::of(&uid(1)))]);
    work.clear();
    listed(&mut graph, &[1], &[9], &mut work);
    assert_eq!(work, [Task::Verify(id)], "the store was restored");
    graph.remove_resource(RESOURCES[0], &mut work);
    assert_eq!((graph.size().nodes, graph.size().claims), (0, 0));
}

/// Owners whose kind comes later are looked for again.
#[test]
fn owners_of_new_kinds_are_looked_for_again() {
    let (mut graph, mut work) = (Graph::default(), Vec::new());
    let thing = Thing {
        owners: vec![(9, true)],
        finalizer: None,
    };
    graph.put((RESOURCES[0], "d", "1"), &metadata(1, &thing), &mut work);
    let [Task::Verify(id)] = work[..] else {
        panic!("{work:?}");
    };
    let claim = graph.claimed(id).expect("it is claimed").0.clone();
    work.clear();
    graph.verified(id, &claim, Standing::Unknown, &mut work);
    assert_eq!(work, []);
    graph.resources_changed(&|_, _| true, &mut work);
    assert_eq!(work, [Task::Verify(id)]);
    work.clear();
    graph.verified(id, &claim, Standing::Found, &mut work);
    assert_eq!(work, [Task::Judge(Uid::of(&uid(1)))]);
}

fn resource(number: usize) -> &'static str {
    RESOURCES[number % 2]
}

/// Returns the remaining objects of the fixture, by the names of their owners.
async fn left(fixture: &Fixture) -> Owners {
    let mut left = Owners::new();
    for resource in RESOURCES {
        for name in fixture.names(resource, Some("d")).await {
            let Ok(object) = fixture.get(resource, Some("d"), &name).await else {
                continue;
            };
            let owners = object.at(&["metadata", "ownerReferences"]);
            let owners = owners.and_then(serde_json::Value::as_array);
            let owners = owners.into_iter().flatten();
            let owners = owners.filter_map(|owner| owner["name"].as_str()?.parse().ok());
            left.insert(name.parse().expect("a number"), owners.collect());
        }
    }
    left
}

async fn until_left(fixture: &Fixture, expected: &Owners, seed: u64) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let now = left(fixture).await;
        if now == *expected {
            return;
        }
        let late = Instant::now() >= deadline;
        assert!(
            !late,
            "TAFFRAIL_SEED={seed}: {now:?} is left, and not {expected:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn delete_all(fixture: &Fixture, objects: &BTreeSet<usize>, policies: &[Propagation]) {
    for (at, object) in objects.iter().enumerate() {
        let options = DeleteOptions {
            propagation_policy: Some(policies[at % policies.len()]),
            ..DeleteOptions::default()
        };
        let name = object.to_string();
        let deleted = fixture.delete(resource(*object), Some("d"), &name, &options);
        // It may have gone with its owner.
        let _ = deleted.await;
    }
}

/// The whole collector, over caches and a store in memory.
async fn collect(fixture: &Fixture, seed: u64) {
    let mut random = Random::new(seed);
    let owners = random_owners(&mut random);
    let (orphaning, deleted) = (some(&mut random, &owners), some(&mut random, &owners));
    let mut uids = BTreeMap::new();
    for number in owners.keys() {
        let body = format!(r#"{{"metadata":{{"name":"{number}"}}}}"#);
        let created = fixture.create(resource(*number), Some("d"), &body).await;
        uids.insert(*number, created.expect("created").uid().to_owned());
    }
    for (number, list) in owners.iter().filter(|(_, list)| !list.is_empty()) {
        let reference = |owner: &usize| {
            let kind = ["ConfigMap", "Secret"][owner % 2];
            json!({"apiVersion": "v1", "kind": kind, "name": owner.to_string(),
                "uid": uids[owner], "blockOwnerDeletion": random.below(2) == 0})
        };
        let list: Vec<_> = list.iter().map(reference).collect();
        let patch = json!({"metadata": {"ownerReferences": list}}).to_string();
        let path = (Some("d"), number.to_string());
        let merged = fixture.merge(resource(*number), (path.0, &path.1, None), &patch);
        merged.await.expect("merged");
    }
    delete_all(fixture, &orphaning, &[Propagation::Orphan]).await;
    let nothing = BTreeSet::new();
    until_left(fixture, &model(owners.clone(), &orphaning, &nothing), seed).await;
    let policies = [Propagation::Background, Propagation::Foreground];
    delete_all(fixture, &deleted, &policies).await;
    until_left(fixture, &model(owners, &orphaning, &deleted), seed).await;
    let all = left(fixture).await.into_keys().collect();
    delete_all(fixture, &all, &[Propagation::Background]).await;
    until_left(fixture, &Owners::new(), seed).await;
}

#[test]
fn the_collector_leaves_what_the_model_says() {
    actix_rt::System::new().block_on(async {
        let (fixture, actor_system) = cached_fixture();
        actor_system.all_ready().await;
        let controllers = started(&fixture, &actor_system, Sharing::Alone);
        let body = r#"{"metadata":{"name":"d"}}"#;
        let created = fixture.create("namespaces", None, body).await;
        created.expect("created");
        for seed in seeds(20) {
            collect(&fixture, seed).await;
        }
        controllers.stop().await;
        actor_system.stop().await;
    });
}
