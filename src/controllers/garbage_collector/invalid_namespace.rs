//! Reports owners in other namespaces to users, by Kubernetes' event `OwnerRefInvalidNamespace`.
//!
//! Objects can't own objects in other namespaces: such an owner counts as absent. A user who wrote
//! such a reference sees only that the object disappears, so an event explains it.

use std::time::Duration;

use actors::cacher::CacherHandle;
use memchr::memmem;
use serde_json::json;
use tokio::time::Instant;

use super::Collection;
use super::graph::{Claim, Place};
use super::metadata::Metadata;
use super::requests::context;
use super::uid::Uid;
use crate::api::object::{Object, whole_seconds};
use crate::api::options::WriteOptions;
use crate::clock;

/// The most dependents of one owner that get an event.
const MAX_REPORTED: usize = 10;
/// The shortest time between two searches, each of which reads all objects of a kind.
const SEARCHED_EVERY: Duration = Duration::from_millis(100);

/// Creates events for the dependents of an absent owner, if it is in another namespace.
pub(super) async fn report(collection: &Collection, id: u32, claim: &Claim) {
    if claim.namespace.is_empty() || !is_time(collection) {
        return;
    }
    let Some(namespace) = found_elsewhere(collection, claim) else {
        return;
    };
    let Claim {
        api_version,
        kind,
        name,
        uid,
        namespace: own,
    } = claim;
    let message = format!(
        "ownerRef [{api_version}/{kind}, namespace: {own}, name: {name}, uid: {uid}] does not \
         exist in namespace {own:?}"
    );
    tracing::info!(%api_version, %kind, %name, %uid, namespace, expected = %own,
        "an owner is in another namespace than its dependents");
    for (uid, place) in collection.look(|graph| graph.claimants(id, MAX_REPORTED)) {
        create(collection, &uid, &place, &message).await;
    }
}

fn is_time(collection: &Collection) -> bool {
    let mut reported = collection.reported.lock();
    let now = Instant::now();
    let is_time = reported.is_none_or(|at| now.duration_since(at) >= SEARCHED_EVERY);
    if is_time {
        *reported = Some(now);
    }
    is_time
}

/// The namespace of the object with the uid of the claim, if a cache has one of the same kind.
fn found_elsewhere(collection: &Collection, claim: &Claim) -> Option<String> {
    let cache = cache_of(collection, claim)?;
    let snapshot = cache.snapshot()?;
    let text = format!("\"uid\":\"{}\"", claim.uid);
    let finder = memmem::Finder::new(&text);
    let mut objects = snapshot.range(cache.prefix(), None).flatten();
    let found = objects.find(|object| {
        finder.find(object.item_body()).is_some()
            && Metadata::of(object).is_some_and(|metadata| Uid::of(&metadata.uid) == claim.uid)
    })?;
    Some(found.attributes().namespace().to_owned()).filter(|found| **found != *claim.namespace)
}

fn cache_of(collection: &Collection, claim: &Claim) -> Option<CacherHandle> {
    let catalog = collection.registry.current();
    let feeds = collection.feeds.lock();
    let mut feeds = feeds.values();
    let feed = feeds.find(|feed| feed.is_kind(&catalog, &claim.api_version, &claim.kind))?;
    feed.cache().cloned()
}

/// Events are best effort, so a failure is not retried.
async fn create(collection: &Collection, uid: &Uid, place: &Place, message: &str) {
    let catalog = collection.registry.current();
    let resource = catalog.versions_stored_as(&place.resource).first();
    let (Some(resource), Some(events)) = (resource, catalog.find("", "v1", "events")) else {
        return;
    };
    let now = clock::now();
    let time = whole_seconds(now);
    let event = json!({
        "metadata": {
            "name": format!("{}.{:x}", place.name, now.as_nanosecond()),
            "namespace": &*place.namespace,
        },
        "involvedObject": {
            "kind": resource.definition().kind,
            "apiVersion": resource.definition().api_version(),
            "namespace": &*place.namespace,
            "name": &*place.name,
            "uid": uid.to_string(),
        },
        "reason": "OwnerRefInvalidNamespace",
        "message": message,
        "source": {"component": "garbage-collector-controller"},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "type": "Warning",
        "reportingComponent": "garbage-collector-controller",
    });
    let serde_json::Value::Object(members) = event else {
        return;
    };
    let mut event = Object::of(members);
    event.set_type("Event", "v1");
    let (context, options) = (context(), WriteOptions::default());
    let created = events.create(&context, Some(&place.namespace), event, &options);
    if let Err(status) = created.await {
        tracing::debug!(%status, "can't create an event");
    }
}
