//! What may change or refuse a write (http.md section 8), called inside the write path with the
//! object as it is about to be stored.
//!
//! A write goes through two stages: before validation every mutating plugin is asked, in order,
//! and after validation every validating plugin. The second stage sees the object and can't change
//! it. A plugin is asked once per stage and attempt. It keeps no state of an attempt: a write that
//! has to start again asks again.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::api::warnings::Warnings;

pub mod lifecycle;
#[cfg(test)]
mod tests;

/// What a request does, with its options.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'w> {
    /// A new object.
    Create(&'w WriteOptions),
    /// Another content of an object.
    Update(&'w WriteOptions),
    /// An object goes.
    Delete(&'w DeleteOptions),
    /// A stream to what an object stands for, such as a pod's log or a shell in it.
    Connect,
}

impl Operation<'_> {
    /// Whether nothing will be stored.
    pub fn is_dry_run(&self) -> bool {
        match self {
            Operation::Create(options) | Operation::Update(options) => options.dry_run,
            Operation::Delete(options) => options.dry_run,
            Operation::Connect => false,
        }
    }
}

/// A request as plugins see it. The new object comes beside it, as one stage may change it.
pub struct Attributes<'w> {
    /// What it does.
    pub operation: Operation<'w>,
    /// To which resource.
    pub definition: &'w ResourceDefinition,
    /// To which part of it.
    pub subresource: Option<&'w str>,
    /// In which namespace; `None` at the cluster scope.
    pub namespace: Option<&'w str>,
    /// The object's name; empty while it is to be generated.
    pub name: &'w str,
    /// The stored content; `None` when there is none.
    pub old_object: Option<&'w Object>,
    /// Who asks.
    pub user: &'w UserInfo,
    /// Warnings for the answer.
    pub warnings: &'w Warnings,
}

impl Attributes<'_> {
    /// What a refusal calls the object (http.md 3.10): its name, else what its name is generated
    /// from.
    pub fn shown_name<'n>(&'n self, object: Option<&'n Object>) -> &'n str {
        let base = object.map_or("", |object| object.meta("generateName"));
        let mut names = [self.name, base].into_iter();
        names.find(|name| !name.is_empty()).unwrap_or("Unknown")
    }
}

/// The answer of a plugin: nothing, or the Status that refuses the write.
pub type Admitted<'p> = BoxFuture<'p, Result<(), Box<Status>>>;

/// A plugin's part in the first stage.
pub trait MutatingPlugin: Send + Sync {
    /// Looks at a request before validation. It may change the new object, which is there on
    /// create and update.
    ///
    /// # Errors
    /// A Status refuses the write.
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p>;
}

/// A plugin's part in the second stage.
pub trait ValidatingPlugin: Send + Sync {
    /// Looks at a request after validation.
    ///
    /// # Errors
    /// A Status refuses the write.
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p>;
}

/// One rule, with a part in one stage or in both.
pub trait Plugin: Send + Sync + 'static {
    /// Kubernetes' name of it: `NamespaceLifecycle`.
    fn name(&self) -> &'static str;

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
    plugins: Arc<[Arc<dyn Plugin>]>,
}

impl Admission {
    /// Admission by these plugins.
    pub fn new(plugins: Vec<Arc<dyn Plugin>>) -> Admission {
        Admission {
            plugins: plugins.into(),
        }
    }

    /// The first stage: asks every mutating plugin.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn admit(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
    ) -> Result<(), Box<Status>> {
        for plugin in self.plugins.iter() {
            if let Some(mutating) = plugin.mutating() {
                let admitted = mutating.admit(attributes, object.as_deref_mut()).await;
                told(&**plugin, admitted)?;
            }
        }
        Ok(())
    }

    /// The second stage: asks every validating plugin.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        for plugin in self.plugins.iter() {
            if let Some(validating) = plugin.validating() {
                told(&**plugin, validating.validate(attributes, object).await)?;
            }
        }
        Ok(())
    }
}

/// Notes in the log who refused a write.
fn told(plugin: &dyn Plugin, answer: Result<(), Box<Status>>) -> Result<(), Box<Status>> {
    if let Err(status) = &answer {
        tracing::debug!(plugin = plugin.name(), %status, "admission refused a write");
    }
    answer
}
