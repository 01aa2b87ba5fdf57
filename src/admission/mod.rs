//! What may change or refuse a write (http.md 8), called inside the write path with the
//! object as it is about to be stored.
//!
//! Plugins run in order, first all that may change the object, and after validation all that may
//! only refuse it. They keep no state of an attempt: a write that has to start again asks them
//! again.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};

use crate::api::object::Object;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;

pub mod lifecycle;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// Another content of an object.
    Update,
    /// An object goes.
    Delete,
}

/// A write as plugins see it.
pub struct Attributes<'w> {
    /// What it does.
    pub operation: Operation,
    /// To which resource.
    pub definition: &'w ResourceDefinition,
    /// To which part of it.
    pub subresource: Option<&'w str>,
    /// In which namespace; `None` at the cluster scope.
    pub namespace: Option<&'w str>,
    /// The object's name; empty while it is to be generated.
    pub name: &'w str,
    /// The new content; `None` when it is deleted.
    pub object: Option<&'w mut Object>,
    /// The stored content; `None` when there is none.
    pub stored: Option<&'w Object>,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// Who writes.
    pub user: &'w UserInfo,
    /// Warnings for the answer, added by plugins.
    pub warnings: Vec<String>,
}

impl Attributes<'_> {
    /// What a refusal calls the object (http.md 3.10): its name, else what its name is generated
    /// from.
    pub fn shown_name(&self) -> &str {
        let base = || {
            self.object
                .as_ref()
                .map_or("", |object| object.meta("generateName"))
        };
        [self.name, base()]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or("Unknown")
    }
}

/// One rule.
pub trait Plugin: Send + Sync + 'static {
    /// Kubernetes' name of it: `NamespaceLifecycle`.
    fn name(&self) -> &'static str;

    /// Looks at a write before validation; it may change the object.
    ///
    /// # Errors
    /// A Status refuses the write.
    fn admit<'p>(
        &'p self,
        _attributes: &'p mut Attributes<'_>,
    ) -> BoxFuture<'p, Result<(), Box<Status>>> {
        std::future::ready(Ok(())).boxed()
    }

    /// Looks at a write after validation.
    ///
    /// # Errors
    /// A Status refuses the write.
    fn validate<'p>(
        &'p self,
        _attributes: &'p mut Attributes<'_>,
    ) -> BoxFuture<'p, Result<(), Box<Status>>> {
        std::future::ready(Ok(())).boxed()
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

    /// Asks every plugin that may change the object.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Box<Status>> {
        for plugin in self.plugins.iter() {
            plugin.admit(attributes).await?;
        }
        Ok(())
    }

    /// Asks every plugin that may only refuse.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Box<Status>> {
        for plugin in self.plugins.iter() {
            plugin.validate(attributes).await?;
        }
        Ok(())
    }
}
