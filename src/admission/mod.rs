//! The chain of admission plugins, which may change or refuse a write (http.md section 8).
//!
//! This folder owns the plugin traits, the two stages and the built-in plugins, one in a file or a
//! folder. [`built`] makes the chain from the configured names. It takes a request with the object
//! that is about to be stored, and returns the object, perhaps changed, or a `Status` that refuses
//! the write. Every mutating plugin runs in order before validation, and every validating plugin
//! after it. The second stage can't change the object. A plugin runs once per stage and attempt and
//! keeps no state of an attempt, because a retried write runs it again. It may ask for a second
//! round of the first stage ([`Rounds`]). Plugins read other resources through
//! [`client::ResourceClient`]. This folder must not know HTTP or storage.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;

use crate::api::annotations::{self, Annotations};
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::resource::{Converter, ResourceDefinition};
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::api::warnings::Warnings;

pub mod admin_access;
mod certificates;
pub mod client;
pub mod configuration;
mod default_classes;
mod default_toleration_seconds;
pub mod hooks;
mod in_use_protection;
pub mod lifecycle;
mod limit_ranger;
mod measured;
mod node_declared_features;
mod node_restriction;
mod plugins;
mod pod_resize;
mod pod_resources;
mod pod_security;
mod pod_topology_labels;
mod priority;
mod resource_quota;
mod rounds;
mod runtime_class;
mod service_account;
mod taint_nodes_by_condition;
#[cfg(test)]
mod tests;
mod volume_resize;

pub use default_toleration_seconds::TolerationSeconds;
use measured::{Ended, Measured, MeasuredStages, Stage};
pub use plugins::{HookSources, PolicyHooks, Sources, built};
pub use pod_security::Settings as PodSecuritySettings;
pub use resource_quota::LimitedResource;
pub use rounds::Rounds;

/// The action of a request, with its options.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'w> {
    /// A new object.
    Create(&'w WriteOptions),
    /// A change of an object.
    Update(&'w WriteOptions),
    /// A deletion of an object.
    Delete(&'w DeleteOptions),
    /// A stream to the thing that an object represents, such as a pod's log or shell.
    Connect,
}

/// The names of operations in rules, reviews and metrics.
const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

impl Operation<'_> {
    /// Its place among all operations.
    fn place(&self) -> usize {
        match self {
            Operation::Create(_) => 0,
            Operation::Update(_) => 1,
            Operation::Delete(_) => 2,
            Operation::Connect => 3,
        }
    }

    /// Its name in rules, reviews and metrics.
    pub fn name(&self) -> &'static str {
        OPERATIONS.get(self.place()).copied().unwrap_or_default()
    }

    /// Whether the request stores nothing.
    pub fn is_dry_run(&self) -> bool {
        match self {
            Operation::Create(options) | Operation::Update(options) => options.dry_run,
            Operation::Delete(options) => options.dry_run,
            Operation::Connect => false,
        }
    }
}

/// A request as plugins see it. The new object is a separate argument, because the first stage may
/// change it.
pub struct Attributes<'w> {
    /// The action.
    pub operation: Operation<'w>,
    /// The resource of the request, in the version of the request.
    pub definition: &'w ResourceDefinition,
    /// The kind of the request's object: that of the resource, or of its subresource, such as Scale
    /// or PodExecOptions.
    pub kind: &'w ResourceDefinition,
    /// The version of the resource in which objects are stored. The new object and the stored one
    /// have its form. For requests that store nothing it is the kind.
    pub stored: &'w ResourceDefinition,
    /// The subresource, if any.
    pub subresource: Option<&'w str>,
    /// The namespace, or `None` at the cluster scope.
    pub namespace: Option<&'w str>,
    /// The object's name. It is empty until it is generated.
    pub name: &'w str,
    /// The stored object, or `None` if it does not exist.
    pub old_object: Option<&'w Object>,
    /// The user of the request.
    pub user: &'w UserInfo,
    /// Warnings for the response.
    pub warnings: &'w Warnings,
    /// The annotations of the request's audit events. `None` if it has no events.
    pub annotations: Option<&'w Annotations>,
    /// The versions of the resource, in which hooks may ask for its objects. Empty for requests
    /// that store nothing.
    pub versions: &'w [Arc<ResourceDefinition>],
    /// Converts between the versions, if that must be waited for.
    pub converter: Option<&'w dyn Converter>,
    /// The time by which the request ends.
    pub deadline: tokio::time::Instant,
    /// Whether the first stage runs again.
    pub rounds: Rounds,
}

impl Attributes<'_> {
    /// Adds an annotation to the request's audit events.
    pub fn annotate(&self, name: impl Into<Cow<'static, str>>, text: impl FnOnce() -> String) {
        annotations::annotate(self.annotations, name, text);
    }

    /// The object's name in an error (http.md 3.10): its name, or else the base of its generated
    /// name.
    pub fn shown_name<'n>(&'n self, object: Option<&'n Object>) -> &'n str {
        let base = object.map_or("", |object| object.meta("generateName"));
        let mut names = [self.name, base].into_iter();
        names.find(|name| !name.is_empty()).unwrap_or("Unknown")
    }

    /// Adds an annotation whose size a hook decides.
    pub fn annotate_by_hook(&self, name: String, text: impl FnOnce() -> String) {
        if let Some(annotations) = self.annotations {
            annotations.add_of_hook(name, text());
        }
    }

    /// The error with this reason (API-275).
    pub fn forbidden(&self, object: Option<&Object>, why: &str) -> Box<Status> {
        Box::new(Status::forbidden(
            self.definition,
            self.shown_name(object),
            why,
        ))
    }

    /// Whether an object of this resource is created, and not a subresource.
    pub fn creates(&self, group: &str, plural: &str) -> bool {
        matches!(self.operation, Operation::Create(_)) && self.is_whole(group, plural)
    }

    /// Whether an object of this resource is updated, and not a subresource.
    pub fn updates(&self, group: &str, plural: &str) -> bool {
        matches!(self.operation, Operation::Update(_)) && self.is_whole(group, plural)
    }

    /// Whether this subresource of an object of this resource is updated.
    pub fn updates_part(&self, group: &str, plural: &str, part: &str) -> bool {
        matches!(self.operation, Operation::Update(_))
            && self.definition.is(group, plural)
            && self.subresource == Some(part)
    }

    fn is_whole(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_none() && self.definition.is(group, plural)
    }
}

/// The result of a plugin: success, or the Status that refuses the write.
pub type Admitted<'p> = BoxFuture<'p, Result<(), Box<Status>>>;

/// A plugin's part in the first stage.
pub trait MutatingPlugin: Send + Sync {
    /// Checks a request before validation. It may change the new object, which is present on create
    /// and update.
    ///
    /// # Errors
    /// A Status refuses the write.
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p>;

    /// Returns whether it ever changes the object without saying so to [`Rounds`]. An object that
    /// may have changed is defaulted and canonicalized again.
    fn changes(&self) -> bool {
        true
    }
}

/// A plugin's part in the second stage.
pub trait ValidatingPlugin: Send + Sync {
    /// Checks a request after validation.
    ///
    /// # Errors
    /// A Status refuses the write.
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p>;
}

/// A plugin, with a part in one stage or in both.
pub trait Plugin: Send + Sync + 'static {
    /// Its name in Kubernetes: `NamespaceLifecycle`.
    fn name(&self) -> &'static str;

    /// Whether the plugin applies to the request. If not, it is not called.
    fn handles(&self, _attributes: &Attributes<'_>) -> bool {
        true
    }

    /// Whether it must not see an object that is not durable yet. An update of such an object
    /// waits for the commit of the write before it. Otherwise it may start from an object that is
    /// still queued, whose `resourceVersion` is not known.
    fn needs_durable(&self, _attributes: &Attributes<'_>) -> bool {
        false
    }

    /// Whether it asks another server about such a request. Its write takes no turn at the key,
    /// because a turn holds up all other writes of the object.
    fn waits(&self, _attributes: &Attributes<'_>) -> bool {
        false
    }

    /// Its part in the first stage, if it has one.
    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        None
    }

    /// Its part in the second stage, if it has one.
    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        None
    }
}

/// The plugins of a daemon, in order.
#[derive(Clone, Default)]
pub struct Admission {
    plugins: Arc<[(Arc<dyn Plugin>, Measured)]>,
    stages: Arc<MeasuredStages>,
}

impl Admission {
    /// Creates a chain of these plugins.
    pub fn new(plugins: Vec<Arc<dyn Plugin>>) -> Admission {
        Admission {
            plugins: plugins
                .into_iter()
                .map(|plugin| (plugin, Measured::default()))
                .collect(),
            stages: Arc::default(),
        }
    }

    /// Returns whether a plugin that applies to such a request needs durable objects.
    pub fn needs_durable(&self, attributes: &Attributes<'_>) -> bool {
        let mut asked = self.asked(attributes);
        asked.any(|(plugin, _)| plugin.needs_durable(attributes))
    }

    /// Returns whether a plugin asks another server about such a request.
    pub fn waits(&self, attributes: &Attributes<'_>) -> bool {
        self.asked(attributes)
            .any(|(plugin, _)| plugin.waits(attributes))
    }

    /// Runs the first stage with every mutating plugin, and once more if a plugin asks for it.
    /// Returns whether the object may have changed.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<bool, Box<Status>> {
        let began = Instant::now();
        let admitted = self.admit_in_rounds(attributes, object).await;
        self.ended(attributes, Stage::Admit, &admitted, began);
        admitted
    }

    fn ended<T>(
        &self,
        attributes: &Attributes<'_>,
        stage: Stage,
        outcome: &Result<T, Box<Status>>,
        began: Instant,
    ) {
        let (operation, is_rejected) = (&attributes.operation, outcome.is_err());
        let ended = Ended::new(stage, operation, is_rejected, began.elapsed());
        self.stages.record(ended);
    }

    async fn admit_in_rounds(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
    ) -> Result<bool, Box<Status>> {
        let mut may_have_changed = self.admit_once(attributes, object.as_deref_mut()).await?;
        if attributes.rounds.begin_another() {
            may_have_changed |= self.admit_once(attributes, object).await?;
        }
        Ok(may_have_changed || attributes.rounds.has_changed())
    }

    async fn admit_once(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
    ) -> Result<bool, Box<Status>> {
        let mut may_have_changed = false;
        for (plugin, measured) in self.asked(attributes) {
            if let Some(mutating) = plugin.mutating() {
                let began = Instant::now();
                let admitted = mutating.admit(attributes, object.as_deref_mut()).await;
                let (operation, is_rejected) = (&attributes.operation, admitted.is_err());
                let ended = Ended::new(Stage::Admit, operation, is_rejected, began.elapsed());
                measured.record(plugin.name(), ended);
                log_refusal(&**plugin, admitted)?;
                may_have_changed |= mutating.changes();
            }
        }
        Ok(may_have_changed)
    }

    fn asked<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> impl Iterator<Item = &'a (Arc<dyn Plugin>, Measured)> {
        let plugins = self.plugins.iter();
        plugins.filter(|(plugin, _)| plugin.handles(attributes))
    }

    /// Runs the second stage with every validating plugin.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        let began = Instant::now();
        let validated = self.validate_once(attributes, object).await;
        self.ended(attributes, Stage::Validate, &validated, began);
        validated
    }

    async fn validate_once(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        for (plugin, measured) in self.asked(attributes) {
            if let Some(validating) = plugin.validating() {
                let began = Instant::now();
                let validated = validating.validate(attributes, object).await;
                let (operation, is_rejected) = (&attributes.operation, validated.is_err());
                let ended = Ended::new(Stage::Validate, operation, is_rejected, began.elapsed());
                measured.record(plugin.name(), ended);
                log_refusal(&**plugin, validated)?;
            }
        }
        Ok(())
    }
}

/// Logs the plugin that refused a write.
fn log_refusal(plugin: &dyn Plugin, answer: Result<(), Box<Status>>) -> Result<(), Box<Status>> {
    if let Err(status) = &answer {
        tracing::debug!(plugin = plugin.name(), %status, "admission refused a write");
    }
    answer
}
