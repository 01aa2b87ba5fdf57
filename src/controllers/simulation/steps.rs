//! Carries the writes of plans out, by the registry.

use std::sync::Arc;
use std::time::Duration;

use actors::object::CachedObject;
use serde_json::json;
use tokio::time::Instant;

use super::objects::{Id, Kind};
use super::plan::Step;
use super::refusals::Refusal;
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, Propagation, WriteOptions};
use crate::api::patch::Patch;
use crate::api::status::{Status, StatusReason};
use crate::api::version::Preconditions;
use crate::controllers::work_queue::Ended;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource};

/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);

/// A write that was carried out.
#[derive(Debug)]
pub(super) enum Done {
    /// The object as it is now.
    Written(Kind, Arc<CachedObject>),
    /// An object that was removed, and its last revision.
    Removed(Id, u64),
}

/// The result of steps.
pub(super) struct Outcome {
    /// The writes that were carried out.
    pub(super) done: Vec<Done>,
    pub(super) ended: Ended,
    /// The refusal of the step that failed.
    pub(super) refusal: Option<Refusal>,
}

/// Writes objects.
pub(super) struct Writer {
    registry: Registry,
}

impl Writer {
    pub(super) fn new(registry: Registry) -> Writer {
        Writer { registry }
    }

    /// Carries steps out until one fails.
    pub(super) async fn carry_out(&self, steps: Vec<Step>) -> Outcome {
        let mut done = Vec::new();
        for step in steps {
            match self.carry_out_one(&step).await {
                Ok(one) => done.extend(one),
                Err(status) => {
                    let ended = outcome(&status);
                    let failed = ended == Ended::Failed;
                    return Outcome {
                        done,
                        ended,
                        refusal: failed.then(|| Refusal::of(&step, &status.message)),
                    };
                }
            }
        }
        Outcome {
            done,
            ended: Ended::Done,
            refusal: None,
        }
    }

    async fn carry_out_one(&self, step: &Step) -> Result<Option<Done>, Box<Status>> {
        match step {
            Step::Create(kind, object) => {
                let Some(store) = self.store(*kind) else {
                    return Ok(None);
                };
                let namespace = Some(object.namespace()).filter(|text| !text.is_empty());
                let (context, options) = (context(*kind), WriteOptions::default());
                let made = store
                    .create(&context, namespace, object.clone(), &options)
                    .await?;
                Ok(Some(Done::Written(*kind, made)))
            }
            Step::Patch { id, part, patch } => {
                let Some(store) = self.store(id.kind) else {
                    return Ok(None);
                };
                let part = part.and_then(|part| store.definition().subresource(part));
                let source = UpdateSource::Patch(Patch::Merge(patch.clone(), Vec::new()));
                let (context, options) = (context(id.kind), WriteOptions::default());
                let written = store
                    .update(&context, at(id), part, source, &options)
                    .await?;
                Ok(Some(Done::Written(id.kind, written.object)))
            }
            Step::Delete { id, uid, grace } => self.delete(id, uid, *grace).await,
            Step::Bind { id, uid, node } => {
                let catalog = self.registry.current();
                let binding = catalog.endpoint("", "v1", "pods", "binding");
                let Some(creater) = binding.and_then(|binding| binding.named_creater()) else {
                    return Ok(None);
                };
                let object = json!({
                    "apiVersion": "v1", "kind": "Binding",
                    "metadata": {"name": id.name, "namespace": id.namespace, "uid": uid},
                    "target": {"kind": "Node", "name": node},
                });
                let object = Object::of(object.as_object().cloned().unwrap_or_default());
                let (context, options) = (context(id.kind), WriteOptions::default());
                creater
                    .create_named(&context, at(id), object, &options)
                    .await?;
                Ok(None)
            }
        }
    }

    async fn delete(
        &self,
        id: &Id,
        uid: &str,
        grace: Option<i64>,
    ) -> Result<Option<Done>, Box<Status>> {
        let Some(store) = self.store(id.kind) else {
            return Ok(None);
        };
        let options = DeleteOptions {
            grace_period_seconds: grace,
            propagation_policy: Some(Propagation::Background),
            preconditions: Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            },
            ..DeleteOptions::default()
        };
        let deleted = store.delete(&context(id.kind), at(id), &options).await?;
        Ok(Some(match deleted.removed {
            true => Done::Removed(id.clone(), deleted.object.revision.0),
            false => Done::Written(id.kind, deleted.object),
        }))
    }

    fn store(&self, kind: Kind) -> Option<Arc<RegistryStore>> {
        self.registry.current().named(kind.resource())
    }
}

fn at(id: &Id) -> NamespacedName<'_> {
    NamespacedName {
        namespace: Some(id.namespace.as_str()).filter(|text| !text.is_empty()),
        name: &id.name,
    }
}

/// The context of a write, with the field manager of other clusters.
fn context(kind: Kind) -> RequestContext {
    let context = RequestContext::controller("simulation", Instant::now() + TIME);
    match kind {
        Kind::Node | Kind::Pod | Kind::Lease => RequestContext {
            manager: "kubelet".to_owned(),
            ..context
        },
        _ => context,
    }
}

/// How work ends whose write was refused.
fn outcome(status: &Status) -> Ended {
    let details = status.details.iter();
    let mut causes = details.flat_map(|details| &details.causes);
    let is_terminating = causes.any(|cause| cause.reason == "NamespaceTerminating");
    if status.code == 404 || is_terminating {
        // The object is gone, or its namespace is about to be.
        return Ended::Done;
    }
    match &status.reason {
        reason if *reason == StatusReason::CONFLICT => Ended::Held,
        reason if *reason == StatusReason::ALREADY_EXISTS => Ended::Held,
        _ => Ended::Failed,
    }
}
