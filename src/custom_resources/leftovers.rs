//! Deletes what this daemon stored under a definition that another daemon had released (CRD-72).
//!
//! The daemon that cleans up cannot know which requests the others admit until they see the
//! deletion. So each daemon looks for such objects when it sees that a definition is gone.

use std::sync::Arc;

use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::cleanup::{AT_A_TIME, TIME};
use super::life::Leftovers;
use crate::api::options::{DeleteOptions, ListOptions};
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::registry::{NamespacedName, RegistryStore, RequestContext};
use crate::storage::Preconditions;

/// A look for such objects.
pub(super) struct Sweep {
    /// The store of definitions.
    pub definitions: Arc<RegistryStore>,
    /// The store of its objects.
    pub instances: Arc<RegistryStore>,
    /// The name of the definition.
    pub name: String,
    pub left: Leftovers,
}

impl Sweep {
    /// Deletes the objects. Returns false if there is a newer definition, whose creation must be
    /// known first.
    ///
    /// # Errors
    /// The objects could not be listed or deleted.
    pub async fn run(self) -> Result<bool, Box<Status>> {
        // Those that were admitted before this daemon saw the deletion are stored then.
        self.instances.pending_creates().settle().await;
        let everything = Arc::new(Selection::default());
        let options = ListOptions::default();
        let list = self.instances.list(None, &options, everything).await?;
        let objects = list.items.iter().filter_map(|object| {
            let version = object.revision.0;
            let attributes = object.attributes();
            let at = (attributes.namespace(), attributes.name());
            self.left
                .includes(version)
                .then(|| (at.0.to_owned(), at.1.to_owned(), version))
        });
        let objects: Vec<_> = objects.collect();
        if objects.is_empty() {
            return Ok(true);
        }
        if self.left.until.is_none() && self.has_successor().await? {
            return Ok(false);
        }
        tracing::info!(
            definition = self.name,
            objects = objects.len(),
            "deletes objects that were created while another server deleted their definition"
        );
        let deleting = objects.iter().map(|object| self.delete(object).boxed());
        let deleting: Vec<_> = deleting.collect();
        stream::iter(deleting)
            .buffer_unordered(AT_A_TIME)
            .try_collect::<()>()
            .await?;
        Ok(true)
    }

    /// Returns whether there is a definition of the same name.
    async fn has_successor(&self) -> Result<bool, Box<Status>> {
        let at = NamespacedName::in_cluster(&self.name);
        match self.definitions.get(at, "").await {
            Ok(_) => Ok(true),
            Err(status) if status.reason == StatusReason::NOT_FOUND => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Deletes an object, unless somebody has changed it since.
    async fn delete(&self, object: &(String, String, u64)) -> Result<(), Box<Status>> {
        let (namespace, name, version) = object;
        let at = NamespacedName::of(namespace, name);
        let options = DeleteOptions {
            preconditions: Preconditions {
                uid: None,
                resource_version: Some(version.to_string()),
            },
            ..DeleteOptions::default()
        };
        let context = RequestContext::internal("definitions", Instant::now() + TIME);
        let is_settled = |status: &Status| {
            [StatusReason::NOT_FOUND, StatusReason::CONFLICT].contains(&status.reason)
        };
        match self.instances.delete(&context, at, &options).await {
            Err(status) if !is_settled(&status) => Err(status),
            _ => Ok(()),
        }
    }
}
