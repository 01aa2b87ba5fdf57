//! Makes Kubernetes' roles and bindings at the start, and adds to stored ones what they lack
//! (AC-67, AC-68). Nothing follows them afterwards: what somebody deletes stays deleted until the
//! next start.

mod policy;
mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use super::system_objects::create_unless_taken;
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::status::Status;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource};
use crate::storage::Preconditions;
use policy::{GROUP, Wanted};
use reconcile::{Reconciled, copy, moved_roles, reconciled};

/// The name of this part of the daemon.
const PART: &str = "bootstrap-policy";
/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The log says that roles are missing after so many failures, and then as often.
const FAILURES_BETWEEN_LINES: u32 = 30;

/// Makes and completes roles and bindings, until that has succeeded.
pub async fn ensure_bootstrap_policy(registry: &Registry) {
    let mut failures = 0;
    loop {
        let Err(status) = reconcile_all(registry).await else {
            return;
        };
        if failures % FAILURES_BETWEEN_LINES == 0 {
            tracing::warn!(
                %status,
                "roles and bindings of Kubernetes are missing, so users lack rights; retrying"
            );
        }
        failures += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn reconcile_all(registry: &Registry) -> Result<(), Box<Status>> {
    move_old_roles(registry).await?;
    let all = policy::wanted().map_err(|error| Box::new(Status::internal(error)))?;
    let mut each = Vec::new();
    for Wanted { resource, objects } in all {
        if let Some(store) = registry.current().named(resource) {
            let objects = objects.into_iter();
            each.extend(objects.map(|wanted| reconcile(Arc::clone(&store), wanted)));
        }
    }
    // All of them run concurrently, so that they share disk syncs. A binding gives nothing until
    // its role is there.
    try_join_all(each).await.map(|_| ())
}

/// Copies the roles and subjects that a store of an old Kubernetes has under other names.
async fn move_old_roles(registry: &Registry) -> Result<(), Box<Status>> {
    let named = |plural: &str| registry.current().named(&format!("{plural}.{GROUP}"));
    if let Some(store) = named("clusterroles") {
        let names = ["admin", "edit", "view"];
        let parts = names.map(|name| format!("system:aggregate-to-{name}"));
        let mut found = Vec::new();
        for name in names
            .iter()
            .copied()
            .chain(parts.iter().map(String::as_str))
        {
            found.extend(read(&store, NamespacedName::in_cluster(name)).await?);
        }
        // linear: six objects.
        for role in moved_roles(|name| found.iter().find(|role| role.name() == name).cloned()) {
            create(&store, role).await?;
        }
    }
    if let Some(store) = named("clusterrolebindings") {
        let viewer = "system:public-info-viewer";
        let old = read(&store, NamespacedName::in_cluster("system:discovery")).await?;
        let new = read(&store, NamespacedName::in_cluster(viewer)).await?;
        if let (Some(old), None) = (old, new) {
            let mut moved = copy(&old, viewer);
            if let Some(role) = moved.at_mut(&["roleRef", "name"]) {
                *role = viewer.into();
            }
            create(&store, moved).await?;
        }
    }
    Ok(())
}

async fn reconcile(store: Arc<RegistryStore>, wanted: Object) -> Result<(), Box<Status>> {
    let store = &*store;
    let namespace = Some(wanted.namespace().to_owned()).filter(|name| !name.is_empty());
    let name = wanted.name().to_owned();
    let at = NamespacedName {
        namespace: namespace.as_deref(),
        name: &name,
    };
    let Some(stored) = read(store, at).await? else {
        return create(store, wanted).await;
    };
    match reconciled(&stored, &wanted) {
        Reconciled::Complete => Ok(()),
        Reconciled::Protected => {
            tracing::warn!(
                resource = %store.definition().qualified(),
                namespace,
                name,
                "not completed, because its annotation forbids it: it lacks rights of Kubernetes"
            );
            Ok(())
        }
        Reconciled::Changed(changed) => {
            let source = UpdateSource::Replace(changed.into());
            let (context, options) = (context(), WriteOptions::default());
            let updating = store.update(&context, at, None, source, &options);
            updating.await.map(|_| ())
        }
        Reconciled::Recreated(again) => {
            let options = DeleteOptions {
                preconditions: Preconditions {
                    uid: Some(stored.uid().to_owned()),
                    resource_version: None,
                },
                ..DeleteOptions::default()
            };
            store.delete(&context(), at, &options).await?;
            create(store, again).await
        }
    }
}

async fn read(
    store: &RegistryStore,
    at: NamespacedName<'_>,
) -> Result<Option<Object>, Box<Status>> {
    match store.read(at, "").await {
        Ok(found) => Ok(Some(found)),
        Err(status) if status.code == 404 => Ok(None),
        Err(status) => Err(status),
    }
}

async fn create(store: &RegistryStore, object: Object) -> Result<(), Box<Status>> {
    let namespace = Some(object.namespace().to_owned()).filter(|name| !name.is_empty());
    let creating = create_unless_taken(store, namespace.as_deref(), PART, object);
    creating.await.map(|_| ())
}

fn context() -> RequestContext {
    RequestContext::internal(PART, Instant::now() + TIME)
}
