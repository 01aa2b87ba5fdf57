//! Checks the expressions of ValidatingAdmissionPolicies by the types of the objects that they
//! match, and shows warnings in their status (HK-76), as the controller of the same name in
//! kube-controller-manager does.

use actors::tasks::until_stopped;
use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::Caches;
use super::cache_changes::{LooksAtAll, apply_as, at_each_change};
use crate::api::cel::{Type, type_of_kind, type_of_schema};
use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::kinds::validation::admissionregistration::{
    ExpressionWarning, NamedType, expression_warnings, named_resources,
};
use crate::registry::{Catalog, NamespacedName, Registry, decoded};

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
/// The field owner of the status. The name is that of Kubernetes' controller, so both agree.
const MANAGER: &str = "validatingadmissionpolicy-status";

/// The controller of one daemon.
pub(super) struct PolicyStatusController {
    registry: Registry,
    caches: Caches,
    stopped: watch::Receiver<bool>,
}

impl PolicyStatusController {
    pub(super) fn new(
        registry: Registry,
        caches: Caches,
        stopped: watch::Receiver<bool>,
    ) -> PolicyStatusController {
        PolicyStatusController {
            registry,
            caches,
            stopped,
        }
    }

    /// Works until it is stopped.
    pub(super) async fn run(self) {
        until_stopped(self.stopped.clone(), self.follow()).await;
    }

    async fn follow(&self) {
        let Some(cache) = (self.caches)(POLICIES) else {
            return;
        };
        let retrying = "checking the types of a policy failed, retrying";
        at_each_change(&cache, retrying, self).await;
    }

    async fn check_all(&self) -> Result<(), Box<Status>> {
        let catalog = self.registry.current();
        let (cache, store) = ((self.caches)(POLICIES), catalog.named(POLICIES));
        let (Some(cache), Some(store)) = (cache, store) else {
            return Ok(());
        };
        let Some(snapshot) = cache.snapshot() else {
            return Ok(());
        };
        for policy in snapshot.range(cache.prefix(), None).flatten() {
            let policy = decoded(policy)?;
            if !is_due(&policy) {
                continue;
            }
            let status = status_of(&policy, &warnings(&policy, &catalog));
            let at = NamespacedName::in_cluster(policy.name());
            let part = store.definition().subresource("status");
            match apply_as(MANAGER, &store, at, part, status).await {
                // A policy that was deleted or replaced meanwhile comes again, if at all.
                Err(status) if matches!(status.code, 404 | 409) => {}
                written => {
                    written?;
                }
            }
        }
        Ok(())
    }
}

impl LooksAtAll for PolicyStatusController {
    fn look_at_all(&self) -> BoxFuture<'_, Result<(), Box<Status>>> {
        self.check_all().boxed()
    }
}

/// Returns whether the generation of a policy was not checked yet.
fn is_due(policy: &Object) -> bool {
    let number = |path: [&str; 2]| policy.at(&path).and_then(Value::as_i64).unwrap_or(0);
    number(["status", "observedGeneration"]) < number(["metadata", "generation"])
        && !policy.is_being_deleted()
}

/// Returns the warnings about a policy, by the types of the resources that it names.
fn warnings(policy: &Object, catalog: &Catalog) -> Vec<ExpressionWarning> {
    let mut types: Vec<NamedType> = Vec::new();
    for named in named_resources(policy) {
        let found = catalog.find(&named.group, &named.version, &named.plural);
        let found = found.and_then(|store| {
            let definition = store.definition();
            let (group, version, kind) = (&definition.group, &named.version, &definition.kind);
            Some(NamedType {
                name: format!("{group}/{version}, Kind={kind}"),
                of: type_of_objects(definition)?,
            })
        });
        types.extend(found);
    }
    let text = |name: &str| policy.text(&["spec", "paramKind", name]);
    let (version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let params = catalog.of_kind(group, version, kind);
    let params = params.and_then(|store| type_of_objects(store.definition()));
    expression_warnings(policy, &types, params.as_ref())
}

/// Returns the type of the objects of a resource, if it is known.
fn type_of_objects(definition: &ResourceDefinition) -> Option<Type> {
    match definition.behaviour.json_schema() {
        Some(custom) if custom.keeps_unknown => None,
        Some(custom) => type_of_schema(&custom.schema?),
        None => type_of_kind(definition.object_type()),
    }
}

/// Returns the status to apply.
fn status_of(policy: &Object, warnings: &[ExpressionWarning]) -> Object {
    let mut checking = Map::new();
    if !warnings.is_empty() {
        let warnings = warnings
            .iter()
            .map(|one| json!({"fieldRef": one.field_ref, "warning": one.warning}));
        let warnings: Vec<Value> = warnings.collect();
        checking.insert("expressionWarnings".to_owned(), warnings.into());
    }
    let generation = policy.at(&["metadata", "generation"]);
    let mut status = Map::new();
    status.insert(
        "observedGeneration".to_owned(),
        generation.cloned().unwrap_or_default(),
    );
    status.insert("typeChecking".to_owned(), checking.into());
    let document = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        // Another policy of the same name is not changed.
        "metadata": {"name": policy.name(), "uid": policy.uid()},
        "status": status,
    });
    match document {
        Value::Object(members) => Object::of(members),
        _ => Object::default(),
    }
}
