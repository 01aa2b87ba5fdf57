//! Pure. The objects that the simulation knows, and who controls them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::api::object::Object;

/// The resources that the simulation reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Node,
    Lease,
    Pod,
    Claim,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
}

impl Kind {
    /// The kinds with controllers.
    pub(super) const WORKLOADS: [Kind; 5] = [
        Kind::Deployment,
        Kind::ReplicaSet,
        Kind::StatefulSet,
        Kind::DaemonSet,
        Kind::Job,
    ];

    /// The name of the resource, with its group.
    pub(super) fn resource(self) -> &'static str {
        match self {
            Kind::Node => "nodes",
            Kind::Lease => "leases.coordination.k8s.io",
            Kind::Pod => "pods",
            Kind::Claim => "persistentvolumeclaims",
            Kind::Deployment => "deployments.apps",
            Kind::ReplicaSet => "replicasets.apps",
            Kind::StatefulSet => "statefulsets.apps",
            Kind::DaemonSet => "daemonsets.apps",
            Kind::Job => "jobs.batch",
        }
    }

    /// The kind and the version of objects.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Node => ("Node", "v1"),
            Kind::Lease => ("Lease", "coordination.k8s.io/v1"),
            Kind::Pod => ("Pod", "v1"),
            Kind::Claim => ("PersistentVolumeClaim", "v1"),
            Kind::Deployment => ("Deployment", "apps/v1"),
            Kind::ReplicaSet => ("ReplicaSet", "apps/v1"),
            Kind::StatefulSet => ("StatefulSet", "apps/v1"),
            Kind::DaemonSet => ("DaemonSet", "apps/v1"),
            Kind::Job => ("Job", "batch/v1"),
        }
    }

    /// Whether the objects have controllers of `workloads`.
    pub(super) fn is_workload(self) -> bool {
        // linear: five kinds.
        Kind::WORKLOADS.contains(&self)
    }
}

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Id {
    pub(super) fn new(kind: Kind, namespace: &str, name: &str) -> Id {
        Id {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(super) fn of(kind: Kind, object: &Object) -> Id {
        Id::new(kind, object.namespace(), object.name())
    }
}

/// The reference to the controller of an object, if it has one.
pub(super) fn controller_of(object: &Object) -> Option<&Value> {
    let mut owners = object.items(&["metadata", "ownerReferences"]).iter();
    // linear: an object has a few owners.
    owners.find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// The uid of the controller of an object, or an empty text.
pub(super) fn controller_uid(object: &Object) -> &str {
    let uid = controller_of(object).and_then(|owner| owner.get("uid"));
    uid.and_then(Value::as_str).unwrap_or_default()
}

/// The known objects.
#[derive(Debug, Default)]
pub(super) struct Objects {
    all: BTreeMap<Id, Arc<Object>>,
    /// The objects that have this controller.
    controlled: HashMap<String, BTreeSet<Id>>,
}

impl Objects {
    /// Takes note of an object, unless a newer state is known.
    pub(super) fn put(&mut self, id: Id, object: Object) {
        let known = self.all.get(&id);
        if known.is_some_and(|known| version(known) > version(&object)) {
            return;
        }
        self.forget(&id);
        let uid = controller_uid(&object);
        if !uid.is_empty() {
            let controlled = self.controlled.entry(uid.to_owned()).or_default();
            controlled.insert(id.clone());
        }
        self.all.insert(id, Arc::new(object));
    }

    /// Forgets an object that was removed at this revision, unless it was made again since.
    pub(super) fn remove(&mut self, id: &Id, revision: u64) {
        if self
            .all
            .get(id)
            .is_some_and(|known| version(known) <= revision)
        {
            self.forget(id);
        }
    }

    /// Forgets all objects of a kind.
    pub(super) fn clear(&mut self, kind: Kind) {
        let ids: Vec<Id> = self.of_kind(kind).map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.forget(id));
    }

    fn forget(&mut self, id: &Id) {
        let Some(object) = self.all.remove(id) else {
            return;
        };
        let uid = controller_uid(&object);
        if let Some(controlled) = self.controlled.get_mut(uid) {
            controlled.remove(id);
            if controlled.is_empty() {
                self.controlled.remove(uid);
            }
        }
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Arc<Object>> {
        self.all.get(id)
    }

    /// All objects of a kind.
    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Id, &Arc<Object>)> {
        let range = self.all.range(Id::new(kind, "", "")..);
        range.take_while(move |(id, _)| id.kind == kind)
    }

    /// The objects of a kind in a namespace.
    pub(super) fn within<'o>(
        &'o self,
        kind: Kind,
        namespace: &'o str,
    ) -> impl Iterator<Item = (&'o Id, &'o Arc<Object>)> {
        let range = self.all.range(Id::new(kind, namespace, "")..);
        range.take_while(move |(id, _)| id.kind == kind && id.namespace == namespace)
    }

    /// The objects of a kind with this controller.
    pub(super) fn controlled_by<'o>(
        &'o self,
        kind: Kind,
        uid: &str,
    ) -> impl Iterator<Item = &'o Arc<Object>> {
        let ids = self.controlled.get(uid).into_iter().flatten();
        let ids = ids.filter(move |id| id.kind == kind);
        ids.filter_map(|id| self.all.get(id))
    }
}

fn version(object: &Object) -> u64 {
    object.resource_version().parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, version: u64, owner: &str) -> (Id, Object) {
        let owner = json!({"uid": owner, "controller": true});
        let value = json!({"metadata": {"name": name, "namespace": "n",
            "resourceVersion": version.to_string(), "ownerReferences": [owner]}});
        let object = Object::of(value.as_object().unwrap().clone());
        (Id::of(Kind::Pod, &object), object)
    }

    #[test]
    fn old_news_change_nothing() {
        let mut objects = Objects::default();
        let mut put = |(id, object): (Id, Object)| objects.put(id, object);
        put(pod("a", 5, "u"));
        put(pod("a", 4, "v"));
        put(pod("b", 6, "u"));
        let (id, _) = pod("a", 0, "");
        objects.remove(&id, 4);
        assert_eq!(objects.controlled_by(Kind::Pod, "u").count(), 2);
        assert_eq!(objects.controlled_by(Kind::Pod, "v").count(), 0);
        assert_eq!(objects.within(Kind::Pod, "n").count(), 2);
        objects.remove(&id, 7);
        assert_eq!(objects.controlled_by(Kind::Pod, "u").count(), 1);
        assert!(objects.get(&id).is_none());
        objects.clear(Kind::Pod);
        assert!(objects.all.is_empty() && objects.controlled.is_empty());
    }
}
