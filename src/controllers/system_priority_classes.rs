//! The PriorityClasses that always exist (API-262).

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::status::{Status, StatusReason};
use crate::registry::{NamespacedName, Registry, RequestContext};

/// The time limit for one creation.
const TIME: Duration = Duration::from_secs(30);

/// Name, value and description of each.
const CLASSES: [(&str, i64, &str); 2] = [
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

/// Creates the missing classes.
///
/// # Errors
/// The first failed lookup or creation.
pub async fn ensure_system_priority_classes(registry: &Registry) -> Result<(), Box<Status>> {
    let Some(store) = registry
        .current()
        .named("priorityclasses.scheduling.k8s.io")
    else {
        return Ok(());
    };
    for (name, value, description) in CLASSES {
        match store.get(NamespacedName::in_cluster(name), "").await {
            Ok(_) => continue,
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
        let mut class = Object::default();
        class.set_type("PriorityClass", &store.definition().api_version());
        class.set_meta("name", name);
        class.0.insert("value".to_owned(), value.into());
        class.0.insert("description".to_owned(), json!(description));
        let context = RequestContext::internal("priority-classes", Instant::now() + TIME);
        let options = WriteOptions::default();
        match store.create(&context, None, class, &options).await {
            Ok(_) => {}
            // Another daemon on the same store created it first.
            Err(status) if status.reason == StatusReason::ALREADY_EXISTS => {}
            Err(status) => return Err(status),
        }
    }
    Ok(())
}
