//! Carries out one task: reads fresh state, gets a decision, and writes.

use std::collections::HashSet;
use std::sync::Arc;

use actors::object::CachedObject;
use serde_json::{Value, json};

use super::graph::{Claim, Place, Standing, Task};
use super::metadata::{Deletion, FOREGROUND, Metadata, ORPHAN, OwnerReference};
use super::requests::context;
use super::uid::Uid;
use super::verdict::{Dependents, Owner, Verdict, decide};
use super::{Collection, failed, invalid_namespace};
use crate::api::deep::Roomy;
use crate::api::options::{DeleteOptions, Propagation, WriteOptions};
use crate::api::patch::{Patch, PatchKind};
use crate::api::status::Status;
use crate::controllers::work_queue::Ended;
use crate::registry::{NamespacedName, RegistryStore, UpdateSource};
use crate::storage::Preconditions;
use crate::storage::codec::metadata_object_of;
use futures_util::stream::{self, StreamExt};

/// The number of dependents that are released concurrently.
const CONCURRENT_RELEASES: usize = 16;

/// Works on a task. It may be cancelled at any point.
pub(super) async fn work(collection: &Collection, task: &Task) -> Ended {
    Roomy::new(async {
        match task {
            Task::Judge(uid) => judge(collection, uid).await,
            Task::Orphan(uid) => orphan(collection, uid).await,
            Task::Verify(claim) => verify(collection, *claim).await,
        }
    })
    .await
}

/// Decides about an object.
async fn judge(collection: &Collection, uid: &Uid) -> Ended {
    let Some((place, deletion)) = collection.look(|graph| graph.found(uid)) else {
        return Ended::Done;
    };
    let judged = match deletion {
        // Others finish its deletion.
        Deletion::Begun | Deletion::Orphan => return Ended::Done,
        Deletion::Foreground => finish_foreground(collection, uid, &place).await,
        Deletion::None => judge_by_owners(collection, uid, &place).await,
    };
    ended(collection, judged, &place)
}

fn ended(collection: &Collection, outcome: Result<Ended, Box<Status>>, place: &Place) -> Ended {
    match outcome {
        Ok(ended) => ended,
        // It is gone.
        Err(status) if status.code == 404 => Ended::Done,
        Err(status) if status.code == 409 => {
            tracing::debug!(%status, object = %place.name, "changed meanwhile, trying again");
            Ended::Failed
        }
        Err(status) => failed(collection, &status, || {
            format!("can't collect {} {}", place.resource, place.name)
        }),
    }
}

/// Releases an object whose last blocking dependent is gone.
async fn finish_foreground(
    collection: &Collection,
    uid: &Uid,
    place: &Place,
) -> Result<Ended, Box<Status>> {
    if collection.look(|graph| graph.is_blocked(uid)) {
        if collection.look(|graph| graph.waits_for_itself(uid))
            && let Some(store) = store_of(collection, place)
        {
            unblock(&store, uid, place, None).await?;
        }
        return Ok(Ended::Done);
    }
    settle(collection).await?;
    match collection.look(|graph| graph.is_blocked(uid)) {
        true => Ok(Ended::Done),
        false => remove_finalizer(collection, uid, place, FOREGROUND).await,
    }
}

async fn settle(collection: &Collection) -> Result<(), Box<Status>> {
    let settled = collection.settle().await;
    settled.map_err(|error| Box::new(Status::internal(error)))
}

/// Releases the dependents of an object, and then the object.
async fn orphan(collection: &Collection, uid: &Uid) -> Ended {
    let Some((place, Deletion::Orphan)) = collection.look(|graph| graph.found(uid)) else {
        return Ended::Done;
    };
    ended(
        collection,
        release_all(collection, uid, &place).await,
        &place,
    )
}

async fn release_all(
    collection: &Collection,
    uid: &Uid,
    place: &Place,
) -> Result<Ended, Box<Status>> {
    // A dependent that is not known yet would be deleted as soon as its owner is gone.
    settle(collection).await?;
    let dependents = collection.look(|graph| graph.dependent_places(uid));
    let dependents: Vec<_> = dependents
        .into_iter()
        .filter(|(own, _)| own != uid)
        .collect();
    if dependents.is_empty() {
        return remove_finalizer(collection, uid, place, ORPHAN).await;
    }
    let releases = dependents.iter().map(|(dependent, place)| async move {
        let is_other = |reference: &OwnerReference| Uid::of(&reference.uid) != *uid;
        match unreference(collection, dependent, place, None, is_other).await {
            Err(status) if status.code == 404 => Ok(()),
            released => released,
        }
    });
    let releases: Vec<_> = releases.collect();
    let mut releases = stream::iter(releases).buffer_unordered(CONCURRENT_RELEASES);
    let mut failure = None;
    while let Some(released) = releases.next().await {
        failure = released.err().or(failure);
    }
    match failure {
        Some(status) => Err(status),
        // The feeds must show that no dependent is left.
        None => Ok(Ended::GoesOn),
    }
}

/// Finds out whether the owner of a claim exists.
async fn verify(collection: &Collection, id: u32) -> Ended {
    let claimed = collection.look(|graph| {
        let (claim, standing) = graph.claimed(id)?;
        Some((claim.clone(), standing))
    });
    let Some((claim, before)) = claimed else {
        return Ended::Done;
    };
    if before == Standing::Absent {
        return Ended::Done;
    }
    let standing = match look_up(collection, &claim).await {
        Ok(Owner::Absent) => Standing::Absent,
        Ok(Owner::Solid | Owner::Waiting) => Standing::Found,
        Ok(Owner::Unknown) => Standing::Unknown,
        Err(status) => {
            return failed(collection, &status, || {
                format!("can't look for {} {}", claim.kind, claim.name)
            });
        }
    };
    if standing == Standing::Absent && before == Standing::Unverified {
        invalid_namespace::report(collection, id, &claim).await;
    }
    collection.change(|graph, work| graph.verified(id, &claim, standing, work));
    Ended::Done
}

/// Looks up an owner by a read that is not older than this call.
async fn look_up(collection: &Collection, claim: &Claim) -> Result<Owner, Box<Status>> {
    let catalog = collection.registry.current();
    let (group, version) = claim
        .api_version
        .split_once('/')
        .unwrap_or(("", &claim.api_version));
    let served = catalog.of_kind(group, version, &claim.kind);
    let served = served.map(|store| Arc::clone(store.of_server()));
    let is_served = served.is_some();
    // A definition goes with its last object, and dependents may be read later than that.
    let former = || collection.registry.former(group, version, &claim.kind);
    let Some(store) = served.or_else(former) else {
        return Ok(Owner::Unknown);
    };
    let name = &*claim.name;
    let owner = match (store.definition().is_namespaced(), &*claim.namespace) {
        (false, _) => NamespacedName::in_cluster(name),
        // An object without a namespace can't say which namespace it means.
        (true, "") => return Ok(Owner::Unknown),
        (true, namespace) => NamespacedName::in_namespace(namespace, name),
    };
    let found = match store.get(owner, "").await {
        Ok(found) => {
            let found = Metadata::of(&found);
            let unreadable = || Box::new(Status::internal("the owner has no metadata"));
            Some(found.ok_or_else(unreadable)?)
        }
        Err(status) if status.code == 404 => None,
        Err(status) => return Err(status),
    };
    match found.filter(|found| Uid::of(&found.uid) == claim.uid) {
        Some(found) => Ok(match found.deletion() {
            Deletion::Foreground => Owner::Waiting,
            Deletion::None | Deletion::Begun | Deletion::Orphan => Owner::Solid,
        }),
        None if is_served || existed(&store, owner, &claim.uid).await? => Ok(Owner::Absent),
        // Nobody can say that an object of an unknown kind is absent.
        None => Ok(Owner::Unknown),
    }
}

/// Returns whether the history of a name has an object with this uid.
async fn existed(
    store: &RegistryStore,
    owner: NamespacedName<'_>,
    uid: &Uid,
) -> Result<bool, Box<Status>> {
    let mut span = None;
    loop {
        let history = store.history(owner, span).await?;
        let objects = history.changes.iter();
        let mut objects = objects.filter_map(|change| change.object.as_ref()?.as_ref().ok());
        let is_it = |object: &Arc<CachedObject>| {
            Metadata::of(object).is_some_and(|found| Uid::of(&found.uid) == *uid)
        };
        if objects.any(is_it) {
            return Ok(true);
        }
        span = history.rest;
        if span.is_none() {
            return Ok(false);
        }
    }
}

/// Decides about an object that is not being deleted.
async fn judge_by_owners(
    collection: &Collection,
    uid: &Uid,
    place: &Place,
) -> Result<Ended, Box<Status>> {
    let Some(store) = store_of(collection, place) else {
        return Ok(Ended::Done);
    };
    // Any state will do, because the deletion carries its version.
    let Some(found) = read(&store, uid, place, "0").await? else {
        return Ok(Ended::Done);
    };
    if found.deletion() != Deletion::None {
        return Ok(Ended::Done);
    }
    let mut owners = Vec::with_capacity(found.owner_references.len());
    for reference in &found.owner_references {
        let owner = owner(collection, &place.namespace, reference).await?;
        owners.push((Uid::of(&reference.uid), owner));
    }
    let is_waited_for = owners.iter().any(|(_, owner)| *owner == Owner::Waiting);
    let dependents = match is_waited_for {
        true => collection.look(|graph| graph.dependents_of(uid)),
        false => Dependents::default(),
    };
    let version = found.resource_version.as_str();
    match decide(&owners, dependents, own_policy(&found)) {
        Verdict::Keep => {}
        Verdict::Unreference(dangling) => {
            let dangling: HashSet<Uid> = dangling.into_iter().collect();
            let is_kept = |reference: &OwnerReference| !dangling.contains(&Uid::of(&reference.uid));
            unreference(collection, uid, place, Some(version), is_kept).await?;
        }
        Verdict::Delete {
            policy,
            unblock: true,
        } => {
            let unblocked = unblock(&store, uid, place, Some(version)).await?;
            let version = unblocked.as_deref().unwrap_or(version);
            delete(&store, uid, place, version, policy).await?;
        }
        Verdict::Delete { policy, .. } => delete(&store, uid, place, version, policy).await?,
    }
    Ok(Ended::Done)
}

async fn owner(
    collection: &Collection,
    namespace: &Arc<str>,
    reference: &OwnerReference,
) -> Result<Owner, Box<Status>> {
    match collection.look(|graph| graph.standing(namespace, reference)) {
        // A fresh read has found that, and uids are never reused.
        Standing::Absent => return Ok(Owner::Absent),
        Standing::Unknown => return Ok(Owner::Unknown),
        Standing::Unverified | Standing::Found => {}
    }
    let claim = Claim {
        api_version: reference.api_version.as_str().into(),
        kind: reference.kind.as_str().into(),
        name: reference.name.as_str().into(),
        uid: Uid::of(&reference.uid),
        namespace: Arc::clone(namespace),
    };
    look_up(collection, &claim).await
}

/// Returns the policy that the finalizers of an object require.
fn own_policy(metadata: &Metadata) -> Propagation {
    let has = |name: &str| {
        metadata
            .finalizers
            .iter()
            .any(|finalizer| finalizer == name)
    };
    match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => Propagation::Orphan,
        (false, true) => Propagation::Foreground,
        (false, false) => Propagation::Background,
    }
}

async fn delete(
    store: &RegistryStore,
    uid: &Uid,
    place: &Place,
    version: &str,
    policy: Propagation,
) -> Result<(), Box<Status>> {
    let options = DeleteOptions {
        propagation_policy: Some(policy),
        preconditions: Preconditions {
            uid: Some(uid.to_string()),
            resource_version: Some(version.to_owned()),
        },
        ..DeleteOptions::default()
    };
    tracing::debug!(resource = %place.resource, namespace = %place.namespace, name = %place.name,
        ?policy, "deleting an object without owners");
    let deleted = store.delete(&context(), named(place), &options).await;
    deleted.map(|_| ())
}

/// Keeps only some of an object's references: in the version that was judged, or in the current
/// one.
async fn unreference(
    collection: &Collection,
    uid: &Uid,
    place: &Place,
    version: Option<&str>,
    is_kept: impl Fn(&OwnerReference) -> bool,
) -> Result<(), Box<Status>> {
    let Some(store) = store_of(collection, place) else {
        return Ok(());
    };
    let change = |references: &mut Vec<Value>| {
        references.retain(|reference| {
            let read = serde_json::from_value(reference.clone());
            read.map_or(true, |reference| is_kept(&reference))
        });
    };
    let patched = patch_references(&store, uid, place, version, change).await;
    patched.map(|_| ())
}

/// Makes the references of an object block no owner. Returns its new version if that changed it.
async fn unblock(
    store: &RegistryStore,
    uid: &Uid,
    place: &Place,
    version: Option<&str>,
) -> Result<Option<String>, Box<Status>> {
    let change = |references: &mut Vec<Value>| {
        for reference in references {
            if let Value::Object(members) = reference {
                members.insert("blockOwnerDeletion".to_owned(), false.into());
            }
        }
    };
    patch_references(store, uid, place, version, change).await
}

/// Changes the references of an object. Returns its new version, or `None` if nothing changed or
/// the name now belongs to another object.
async fn patch_references(
    store: &RegistryStore,
    uid: &Uid,
    place: &Place,
    version: Option<&str>,
    change: impl FnOnce(&mut Vec<Value>),
) -> Result<Option<String>, Box<Status>> {
    let cached = store.get(named(place), "0").await?;
    let object = metadata_object_of(&cached).map_err(Status::internal)?;
    if Uid::of(object.uid()) != *uid {
        return Ok(None);
    }
    let references = object.at(&["metadata", "ownerReferences"]);
    let before = references.and_then(Value::as_array).cloned();
    let before = before.unwrap_or_default();
    let mut after = before.clone();
    change(&mut after);
    if after == before {
        return Ok(None);
    }
    let references = match after.is_empty() {
        true => Value::Null,
        false => after.into(),
    };
    let version = version.unwrap_or(object.resource_version());
    let metadata = json!({
        "uid": uid.to_string(), "resourceVersion": version, "ownerReferences": references,
    });
    patch(store, place, &metadata).await.map(Some)
}

/// Removes one of the collector's own finalizers from an object, which is deleted if it was the
/// last.
async fn remove_finalizer(
    collection: &Collection,
    uid: &Uid,
    place: &Place,
    finalizer: &str,
) -> Result<Ended, Box<Status>> {
    let Some(store) = store_of(collection, place) else {
        return Ok(Ended::Done);
    };
    let Some(found) = read(&store, uid, place, "").await? else {
        return Ok(Ended::Done);
    };
    let rest = found.finalizers.iter().filter(|own| *own != finalizer);
    let rest: Vec<&String> = rest.collect();
    if rest.len() == found.finalizers.len() {
        return Ok(Ended::Done);
    }
    let metadata = json!({
        "uid": uid.to_string(), "resourceVersion": found.resource_version, "finalizers": rest,
    });
    patch(&store, place, &metadata).await?;
    Ok(Ended::Done)
}

/// Merges metadata into an object. Returns its new version.
async fn patch(
    store: &RegistryStore,
    place: &Place,
    metadata: &Value,
) -> Result<String, Box<Status>> {
    let body = json!({ "metadata": metadata }).to_string();
    let patch = Patch::parse(PatchKind::Merge, body.as_bytes())?;
    let source = UpdateSource::Patch(patch);
    let (context, options) = (context(), WriteOptions::default());
    let updated = store.update(&context, named(place), None, source, &options);
    Ok(updated.await?.object.revision.to_string())
}

/// The metadata of an object; `None` if its name now belongs to another object.
async fn read(
    store: &RegistryStore,
    uid: &Uid,
    place: &Place,
    version: &str,
) -> Result<Option<Metadata>, Box<Status>> {
    let found = store.get(named(place), version).await?;
    let metadata = Metadata::of(&found);
    Ok(metadata.filter(|metadata| Uid::of(&metadata.uid) == *uid))
}

fn store_of(collection: &Collection, place: &Place) -> Option<Arc<RegistryStore>> {
    let catalog = collection.registry.current();
    catalog.versions_stored_as(&place.resource).first().cloned()
}

fn named(place: &Place) -> NamespacedName<'_> {
    match &*place.namespace {
        "" => NamespacedName::in_cluster(&place.name),
        namespace => NamespacedName::in_namespace(namespace, &place.name),
    }
}
