//! The writes of the registrar.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::super::service::{AUTOMANAGED, ApiService};
use super::decision::Action;
use super::priorities::Priorities;
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::status::{Status, StatusReason};
use crate::api::version::Preconditions;
use crate::registry::{NamespacedName, RegistryStore, RequestContext, UpdateSource};

/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);

/// A local APIService that the server wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'w> {
    pub group: &'w str,
    pub version: &'w str,
    pub priorities: Priorities,
    /// The value of the label [`AUTOMANAGED`].
    pub label: &'static str,
}

impl Wanted<'_> {
    fn spec(&self) -> Value {
        let mut spec = Map::new();
        if !self.group.is_empty() {
            spec.insert("group".to_owned(), self.group.into());
        }
        spec.insert("version".to_owned(), self.version.into());
        let Priorities { group, version } = self.priorities;
        spec.insert("groupPriorityMinimum".to_owned(), group.into());
        spec.insert("versionPriority".to_owned(), version.into());
        Value::Object(spec)
    }
}

/// Carries out a decision about an APIService of this name. Another server may be faster; the
/// cache will show that.
///
/// # Errors
/// The write failed, and is to be repeated.
pub(super) async fn carry_out(
    store: &RegistryStore,
    name: &str,
    action: Action,
    wanted: Option<Wanted<'_>>,
    stored: Option<&Arc<ApiService>>,
) -> Result<(), Box<Status>> {
    let context = RequestContext::internal("apiservice-registration", Instant::now() + TIME);
    let options = WriteOptions::default();
    let at = NamespacedName::in_cluster(name);
    let outcome = match (action, wanted, stored) {
        (Action::Create, Some(wanted), _) => {
            let mut object = Object::default();
            let definition = store.definition();
            object.set_type(&definition.kind, &definition.api_version());
            let metadata = json!({"name": name, "labels": {AUTOMANAGED: wanted.label}});
            object.0.insert("metadata".to_owned(), metadata);
            object.0.insert("spec".to_owned(), wanted.spec());
            let creating = store.create(&context, None, object, &options);
            creating.await.map(|_| ())
        }
        (Action::Restore, Some(wanted), Some(stored)) => match store.read(at, "").await {
            // It was replaced meanwhile, and is looked at again.
            Ok(object) if object.uid() != stored.uid => Ok(()),
            Ok(mut object) => {
                object.0.insert("spec".to_owned(), wanted.spec());
                let source = UpdateSource::Replace(object.into());
                let updating = store.update(&context, at, None, source, &options);
                updating.await.map(|_| ())
            }
            Err(status) => Err(status),
        },
        (Action::Delete, _, Some(stored)) => {
            let options = DeleteOptions {
                preconditions: Preconditions {
                    uid: Some(stored.uid.clone()),
                    ..Preconditions::default()
                },
                ..DeleteOptions::default()
            };
            let deleting = store.delete(&context, at, &options);
            deleting.await.map(|_| ())
        }
        _ => Ok(()),
    };
    match outcome {
        Err(status) if is_harmless(&status) => Ok(()),
        outcome => outcome,
    }
}

fn is_harmless(status: &Status) -> bool {
    let reasons = [
        StatusReason::ALREADY_EXISTS,
        StatusReason::CONFLICT,
        StatusReason::NOT_FOUND,
    ];
    reasons.contains(&status.reason)
}
