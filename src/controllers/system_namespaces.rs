//! The namespaces that always exist (API-262).

use std::time::Duration;

use futures_util::future::try_join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::status::{Status, StatusReason};
use crate::kinds::special::SYSTEM_NAMESPACES;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext};

/// The time limit for one creation.
const TIME: Duration = Duration::from_secs(30);

/// Creates missing system namespaces and returns their number.
///
/// # Errors
/// The first failed lookup or creation.
pub async fn ensure_system_namespaces(registry: &Registry) -> Result<usize, Box<Status>> {
    let Some(store) = registry.current().named("namespaces") else {
        return Ok(0);
    };
    // The creations run concurrently, so that they share one disk sync.
    let made = try_join_all(SYSTEM_NAMESPACES.iter().map(|name| ensure(&store, name))).await?;
    Ok(made.into_iter().filter(|created| *created).count())
}

async fn ensure(store: &RegistryStore, name: &str) -> Result<bool, Box<Status>> {
    match store.get(NamespacedName::in_cluster(name), "").await {
        Ok(_) => return Ok(false),
        Err(status) if status.code == 404 => {}
        Err(status) => return Err(status),
    }
    let mut namespace = Object::default();
    namespace.set_type("Namespace", "v1");
    namespace
        .0
        .insert("metadata".to_owned(), json!({"name": name}));
    let context = RequestContext::internal("namespaces", Instant::now() + TIME);
    match store
        .create(&context, None, namespace, &WriteOptions::default())
        .await
    {
        Ok(_) => Ok(true),
        // Another daemon on the same store created it first.
        Err(status) if status.reason == StatusReason::ALREADY_EXISTS => Ok(false),
        Err(status) => Err(status),
    }
}
