//! The namespaces and PriorityClasses that always exist (API-262).

use std::time::Duration;

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::status::{Status, StatusReason};
use crate::kinds::strategies::SYSTEM_NAMESPACES;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext};

/// The time limit for one creation.
const TIME: Duration = Duration::from_secs(30);

/// Name, value and description of each PriorityClass.
const PRIORITY_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another \
         node if necessary.",
    ),
];

/// Creates missing system namespaces and returns their number.
///
/// # Errors
/// The first failed lookup or creation.
pub async fn ensure_system_namespaces(registry: &Registry) -> Result<usize, Box<Status>> {
    let namespaces = SYSTEM_NAMESPACES.iter().map(|name| (*name, []));
    ensure(registry, "namespaces", "namespaces", namespaces).await
}

/// Creates missing system PriorityClasses and returns their number.
///
/// # Errors
/// The first failed lookup or creation.
pub async fn ensure_system_priority_classes(registry: &Registry) -> Result<usize, Box<Status>> {
    let classes = PRIORITY_CLASSES.iter().map(|(name, value, description)| {
        let members = [
            ("value", (*value).into()),
            ("description", (*description).into()),
        ];
        (*name, members)
    });
    let resource = "priorityclasses.scheduling.k8s.io";
    ensure(registry, resource, "priority-classes", classes).await
}

/// Creates those of these objects that are missing, on behalf of a part of the daemon. Each has a
/// name and further fields. Does nothing for a resource that is not served.
async fn ensure<const N: usize>(
    registry: &Registry,
    resource: &str,
    part: &str,
    objects: impl Iterator<Item = (&str, [(&str, Value); N])>,
) -> Result<usize, Box<Status>> {
    let Some(store) = registry.current().named(resource) else {
        return Ok(0);
    };
    // The creations run concurrently, so that they share one disk sync.
    let creating = objects.map(|(name, members)| {
        let store = &store;
        async move {
            let definition = store.definition();
            let mut object = Object::default();
            object.set_type(&definition.kind, &definition.api_version());
            object
                .0
                .insert("metadata".to_owned(), json!({"name": name}));
            for (name, value) in members {
                object.0.insert(name.to_owned(), value);
            }
            create_missing(store, NamespacedName::in_cluster(name), part, object).await
        }
    });
    let made = try_join_all(creating).await?;
    Ok(made.into_iter().filter(|created| *created).count())
}

/// Creates an object, if it is missing. Returns whether it did.
async fn create_missing(
    store: &RegistryStore,
    at: NamespacedName<'_>,
    part: &str,
    object: Object,
) -> Result<bool, Box<Status>> {
    match store.get(at, "").await {
        Ok(_) => return Ok(false),
        Err(status) if status.code == 404 => {}
        Err(status) => return Err(status),
    }
    create_unless_taken(store, at.namespace, part, object).await
}

/// Creates an object on behalf of a part of the daemon. Returns whether it did: another daemon on
/// the same store may have been faster.
///
/// # Errors
/// A failed creation.
pub(super) async fn create_unless_taken(
    store: &RegistryStore,
    namespace: Option<&str>,
    part: &str,
    object: Object,
) -> Result<bool, Box<Status>> {
    let context = RequestContext::internal(part, Instant::now() + TIME);
    let options = WriteOptions::default();
    match store.create(&context, namespace, object, &options).await {
        Ok(_) => Ok(true),
        Err(status) if status.reason == StatusReason::ALREADY_EXISTS => Ok(false),
        Err(status) => Err(status),
    }
}
