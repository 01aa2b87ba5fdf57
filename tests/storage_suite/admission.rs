//! Admission plugins that need durable objects (docs/design.md 6): updates of one key are chained
//! before they are durable, and a webhook must not see an object that may never be stored.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{FutureExt, join_all};
use parking_lot::Mutex;
use serde_json::json;
use taffrail::admission::{Admission, Admitted, Attributes, Plugin, ValidatingPlugin};
use taffrail::api::object::Object;
use taffrail::api::options::WriteOptions;
use taffrail::api::patch::{Patch, PatchKind};
use taffrail::registry::store::StoreOptions;
use taffrail::registry::{NamespacedName, RegistryStore, RequestContext, UpdateSource};
use taffrail::storage::{ResourceStorage, StoredResource};
use tokio::time::{Duration, Instant};

use crate::harness::{Harness, Kind, pods};

const WRITERS: usize = 16;

/// Records the versions of the stored objects that updates start from.
struct Recording {
    needs_durable: bool,
    versions: Mutex<Vec<String>>,
}

impl Plugin for Recording {
    fn name(&self) -> &'static str {
        "Recording"
    }

    fn needs_durable(&self, attributes: &Attributes<'_>) -> bool {
        self.needs_durable && attributes.updates("", "pods")
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl ValidatingPlugin for Recording {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        _object: Option<&'p Object>,
    ) -> Admitted<'p> {
        let stored = attributes.old_object;
        let version = stored.map(|object| object.resource_version().to_owned());
        self.versions.lock().extend(version);
        async { Ok(()) }.boxed()
    }
}

/// Has sixteen writers patch one pod at the same time, while no commit ends. Returns the versions
/// that a plugin has seen, and the number of labels that they have left.
async fn patched(h: &Rc<Harness>, needs_durable: bool) -> (Vec<String>, usize) {
    let plugin = Arc::new(Recording {
        needs_durable,
        versions: Mutex::default(),
    });
    let storages = ResourceStorage {
        resource: Arc::new(StoredResource::of(pods())),
        storage: h.storage.clone(),
        dry_run: h.dry.clone(),
        obeyed: None,
        converter: None,
        base: None,
    };
    let options = StoreOptions {
        admission: Admission::new(vec![plugin.clone()]),
        ..StoreOptions::default()
    };
    let store = Rc::new(RegistryStore::new(pods(), storages, options));
    let deadline = Instant::now() + Duration::from_secs(60);
    let context = Rc::new(RequestContext::internal("test", deadline));
    let name = if needs_durable { "durable" } else { "queued" };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let pod = Object::of(pod.as_object().unwrap().clone());
    let options = WriteOptions::default();
    let created = store.create(&context, Some("ns"), pod, &options).await;
    created.unwrap();
    let held = h.faults.hold_commits().await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, context) = (store.clone(), context.clone());
            tokio::task::spawn_local(async move {
                let patch = format!(r#"{{"metadata":{{"labels":{{"w{writer}":"1"}}}}}}"#);
                let patch = Patch::parse(PatchKind::Merge, patch.as_bytes()).unwrap();
                let at = NamespacedName {
                    namespace: Some("ns"),
                    name,
                };
                let (source, options) = (UpdateSource::Patch(patch), WriteOptions::default());
                let updating = store.update(&context, at, None, source, &options);
                updating.await.unwrap()
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(held);
    join_all(writers).await;
    let at = NamespacedName {
        namespace: Some("ns"),
        name,
    };
    let left = taffrail::registry::decoded(&store.get(at, "").await.unwrap()).unwrap();
    let labels = left
        .at(&["metadata", "labels"])
        .unwrap()
        .as_object()
        .unwrap();
    let versions = plugin.versions.lock().clone();
    (versions, labels.len())
}

pub async fn st_59_plugins_that_need_durable_objects_see_no_queued_ones(h: Rc<Harness>) {
    let unknown = u64::MAX.to_string();
    let (versions, labels) = patched(&h, true).await;
    assert_eq!(labels, WRITERS, "nothing is lost");
    assert!(versions.len() >= WRITERS);
    assert!(!versions.contains(&unknown), "{versions:?}");
    let (versions, labels) = patched(&h, false).await;
    assert_eq!(labels, WRITERS, "nothing is lost");
    // The embedded engine queues, so the plugin above has seen something else.
    if h.layer.engine == crate::harness::EngineKind::Embedded && h.layer.kind == Kind::Cached {
        assert!(versions.contains(&unknown), "{versions:?}");
    }
}
