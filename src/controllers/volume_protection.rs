//! Releases deleted claims, volumes and VolumeAttributesClasses that are no longer used (API-268):
//! it removes the finalizers that StorageObjectInUseProtection has added.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use actors::engine::Revision;
use actors::tasks::until_stopped;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Caches;
use crate::api::object::{Object, put};
use crate::api::options::{ListOptions, WriteOptions};
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::registry::{
    NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource, decoded,
};

const PODS: &str = "pods";
const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const CLASSES: &str = "volumeattributesclasses.storage.k8s.io";

/// The interval between checks of the caches.
const PAUSE: Duration = Duration::from_millis(100);
/// The wait before failed reads and writes are retried.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// Objects that are read before other tasks run.
const OBJECTS_AT_A_TIME: usize = 100;
/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);

/// The kinds of deleted objects that are released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protections {
    /// Claims that no pod on a node uses.
    pub claims: bool,
    /// Volumes that are not bound.
    pub volumes: bool,
    /// Classes that no claim and no volume names.
    pub classes: bool,
}

impl Protections {
    /// Whether no kind is released.
    pub fn is_empty(self) -> bool {
        self == Protections::default()
    }
}

/// The protection controller of one daemon.
pub(super) struct VolumeProtectionController {
    registry: Registry,
    caches: Caches,
    protections: Protections,
    stopped: watch::Receiver<bool>,
}

/// The last events of the resources in the caches.
type Seen = [Option<(u64, Revision)>; 4];

impl VolumeProtectionController {
    pub(super) fn new(
        registry: Registry,
        caches: Caches,
        protections: Protections,
        stopped: watch::Receiver<bool>,
    ) -> VolumeProtectionController {
        VolumeProtectionController {
            registry,
            caches,
            protections,
            stopped,
        }
    }

    /// Works until it is stopped.
    pub(super) async fn run(self) {
        until_stopped(self.stopped.clone(), self.follow()).await;
    }

    async fn follow(&self) {
        let mut seen = Seen::default();
        // Pods matter only while a deleted claim waits for them.
        let mut waits = true;
        loop {
            let mut now = [CLAIMS, VOLUMES, CLASSES, PODS].map(|resource| self.newest(resource));
            if !waits {
                now[3] = seen[3];
            }
            if now == seen {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            match self.look_after_all().await {
                Ok(left) => (seen, waits) = (now, left > 0),
                Err(status) => {
                    tracing::debug!(%status, "releasing deleted volumes failed, retrying");
                    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                }
            }
        }
    }

    fn newest(&self, resource: &str) -> Option<(u64, Revision)> {
        let snapshot = (self.caches)(resource)?.snapshot()?;
        Some((snapshot.epoch, snapshot.last_event()))
    }

    /// Releases unused objects. Returns the number of deleted objects that are still in use.
    ///
    /// # Errors
    /// The first failed read or write. The other resources are still handled.
    async fn look_after_all(&self) -> Result<usize, Box<Status>> {
        let Protections {
            claims,
            volumes,
            classes,
        } = self.protections;
        let (mut left, mut outcome) = (0, Ok(()));
        let mut uses = Uses::default();
        for (is_on, resource, finalizer) in [
            (claims, CLAIMS, "kubernetes.io/pvc-protection"),
            (volumes, VOLUMES, "kubernetes.io/pv-protection"),
            (classes, CLASSES, "kubernetes.io/vac-protection"),
        ] {
            if !is_on {
                continue;
            }
            for deleted in self.deleted(resource, finalizer)? {
                let name = deleted.name().to_owned();
                let done = match self.is_used(resource, &deleted, &mut uses).await {
                    Ok(true) => {
                        left += 1;
                        Ok(())
                    }
                    Ok(false) => self.let_go(resource, deleted, finalizer).await,
                    Err(status) => Err(status),
                };
                if let Err(status) = &done {
                    tracing::warn!(
                        resource,
                        name,
                        %status,
                        "removing the protection finalizer failed"
                    );
                }
                outcome = outcome.and(done);
            }
        }
        outcome.map(|()| left)
    }

    /// Returns the deleted objects that have a finalizer, from the cache.
    fn deleted(&self, resource: &str, finalizer: &str) -> Result<Vec<Object>, Box<Status>> {
        let Some((cache, snapshot)) = (self.caches)(resource).and_then(|cache| {
            let snapshot = cache.snapshot()?;
            Some((cache, snapshot))
        }) else {
            return Ok(Vec::new());
        };
        // Most objects are not deleted. A search for the timestamp shows that without decoding
        // them.
        let mark = memchr::memmem::Finder::new("\"deletionTimestamp\"");
        let all = snapshot.range(cache.prefix(), None).flatten();
        let marked = all.filter(|object| mark.find(object.item_body()).is_some());
        let mut found = Vec::new();
        for object in marked {
            let object = decoded(object)?;
            if object.is_being_deleted() && object.finalizers().contains(&finalizer) {
                found.push(object);
            }
        }
        Ok(found)
    }

    async fn is_used(
        &self,
        resource: &str,
        deleted: &Object,
        uses: &mut Uses,
    ) -> Result<bool, Box<Status>> {
        match resource {
            CLAIMS => {
                let namespace = deleted.namespace();
                if !uses.claims.contains_key(namespace) {
                    let mut used = UsedClaims::default();
                    let add = &mut |pod: &Object| used.add(pod);
                    self.for_each(PODS, Some(namespace), add).await?;
                    uses.claims.insert(namespace.to_owned(), used);
                }
                let used = uses.claims.get(namespace);
                Ok(used.is_some_and(|used| used.contains(deleted)))
            }
            VOLUMES => Ok(deleted.text(&["status", "phase"]) == "Bound"),
            _ => {
                if uses.classes.is_none() {
                    let mut used = HashSet::new();
                    for resource in [VOLUMES, CLAIMS] {
                        let add = &mut |object: &Object| used.extend(named_classes(object));
                        self.for_each(resource, None, add).await?;
                    }
                    uses.classes = Some(used);
                }
                let used = uses.classes.as_ref();
                Ok(used.is_some_and(|used| used.contains(deleted.name())))
            }
        }
    }

    /// Passes all objects of a resource, in the newest state of the store, to a function.
    async fn for_each(
        &self,
        resource: &str,
        namespace: Option<&str>,
        show: &mut (dyn FnMut(&Object) + Send),
    ) -> Result<(), Box<Status>> {
        let Some(store) = self.registry.current().named(resource) else {
            return Ok(());
        };
        let (options, everything) = (ListOptions::default(), Arc::new(Selection::default()));
        let listed = store.list(namespace, &options, everything).await?;
        for (number, item) in listed.items.iter().enumerate() {
            show(&decoded(item)?);
            if number % OBJECTS_AT_A_TIME == OBJECTS_AT_A_TIME - 1 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    async fn let_go(
        &self,
        resource: &str,
        mut object: Object,
        finalizer: &str,
    ) -> Result<(), Box<Status>> {
        let Some(store) = self.registry.current().named(resource) else {
            return Ok(());
        };
        let others: Vec<Value> = object
            .finalizers()
            .into_iter()
            .filter(|other| *other != finalizer)
            .map(Value::from)
            .collect();
        put(&mut object, &["metadata", "finalizers"], others.into());
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let at = NamespacedName::of(&namespace, &name);
        match update(&store, at, object).await {
            // Another writer has changed or removed it. The caches will show it.
            Err(status) if status.reason == StatusReason::CONFLICT || status.code == 404 => Ok(()),
            outcome => outcome,
        }
    }
}

async fn update(
    store: &RegistryStore,
    at: NamespacedName<'_>,
    object: Object,
) -> Result<(), Box<Status>> {
    let context = RequestContext::controller("volume-protection", Instant::now() + TIME);
    let options = WriteOptions::default();
    let source = UpdateSource::Replace(object.into());
    let updating = store.update(&context, at, None, source, &options);
    updating.await.map(|_| ())
}

/// The uses of objects, as far as they were requested.
#[derive(Default)]
struct Uses {
    /// By namespace.
    claims: HashMap<String, UsedClaims>,
    /// The names of VolumeAttributesClasses.
    classes: Option<HashSet<String>>,
}

/// The claims that pods of a namespace use.
#[derive(Default)]
struct UsedClaims {
    named: HashSet<String>,
    /// Claims of ephemeral volumes: their names, and the uids of their pods.
    ephemeral: HashSet<(String, String)>,
}

impl UsedClaims {
    /// Adds the claims of a pod. A pod without a node is not started with a deleted claim.
    fn add(&mut self, pod: &Object) {
        if pod.text(&["spec", "nodeName"]).is_empty() {
            return;
        }
        for volume in pod.items(&["spec", "volumes"]) {
            let named = volume.pointer("/persistentVolumeClaim/claimName");
            self.named
                .extend(named.and_then(Value::as_str).map(str::to_owned));
            let name = volume.get("name").and_then(Value::as_str);
            if let (Some(_), Some(name), false) = (volume.get("ephemeral"), name, is_shut_down(pod))
            {
                let claim = format!("{}-{name}", pod.name());
                self.ephemeral.insert((claim, pod.uid().to_owned()));
            }
        }
    }

    /// Returns whether a claim is in use. The claim of an ephemeral volume must be controlled by
    /// its pod.
    fn contains(&self, claim: &Object) -> bool {
        let mut owners = claim.items(&["metadata", "ownerReferences"]).iter();
        self.named.contains(claim.name())
            || owners.any(|owner| {
                let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
                let of_pod = (claim.name().to_owned(), uid.to_owned());
                owner.get("controller") == Some(&Value::Bool(true))
                    && self.ephemeral.contains(&of_pod)
            })
    }
}

/// Whether the kubelet has finished with a pod.
fn is_shut_down(pod: &Object) -> bool {
    let grace = pod.at(&["metadata", "deletionGracePeriodSeconds"]);
    pod.is_being_deleted() && grace.and_then(Value::as_i64) == Some(0)
}

/// The VolumeAttributesClasses that a claim or a volume names.
fn named_classes(object: &Object) -> impl Iterator<Item = String> {
    let paths = [
        &["spec", "volumeAttributesClassName"][..],
        &["status", "currentVolumeAttributesClassName"],
        &[
            "status",
            "modifyVolumeStatus",
            "targetVolumeAttributesClassName",
        ],
    ];
    paths.into_iter().map(|path| object.text(path).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    fn uses_claim(pod: &Object, claim: &Object) -> bool {
        let mut used = UsedClaims::default();
        used.add(pod);
        used.contains(claim)
    }

    #[test]
    fn a_pod_on_a_node_uses_its_claims_api_268() {
        let owner = json!([{"uid": "u", "controller": true}]);
        let claim = object(&json!({"metadata": {"name": "p-v", "ownerReferences": owner}}));
        let pod = |node: &str, volume: Value, grace: Value| {
            object(&json!({
                "metadata": {"name": "p", "uid": "u", "deletionTimestamp": "t",
                    "deletionGracePeriodSeconds": grace},
                "spec": {"nodeName": node, "volumes": [volume]},
            }))
        };
        let named = json!({"name": "x", "persistentVolumeClaim": {"claimName": "p-v"}});
        let made = json!({"name": "v", "ephemeral": {}});
        for (pod, is_used) in [
            (pod("n", named.clone(), json!(30)), true),
            (pod("n", named.clone(), json!(0)), true),
            (pod("", named, json!(30)), false),
            (pod("n", made.clone(), json!(30)), true),
            (pod("n", made, json!(0)), false),
            (
                pod("n", json!({"name": "w", "ephemeral": {}}), json!(30)),
                false,
            ),
            (
                pod("n", json!({"name": "v", "emptyDir": {}}), json!(30)),
                false,
            ),
        ] {
            assert_eq!(uses_claim(&pod, &claim), is_used, "{:?}", pod.0);
        }
        let foreign = object(&json!({"metadata": {"name": "p-v"}}));
        let made = json!({"name": "v", "ephemeral": {}});
        assert!(!uses_claim(&pod("n", made, json!(30)), &foreign));
    }

    #[test]
    fn claims_and_volumes_name_classes_api_268() {
        let of = |value: Value| named_classes(&object(&value)).any(|name| name == "gold");
        assert!(of(json!({"spec": {"volumeAttributesClassName": "gold"}})));
        assert!(of(
            json!({"status": {"currentVolumeAttributesClassName": "gold"}})
        ));
        let status = json!({"targetVolumeAttributesClassName": "gold"});
        assert!(of(json!({"status": {"modifyVolumeStatus": status}})));
        assert!(!of(
            json!({"spec": {"volumeAttributesClassName": "silver"}})
        ));
    }
}
