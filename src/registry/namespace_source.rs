//! Namespace lookups for admission, from the storage of namespaces.

use std::sync::Arc;

use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};

use super::errors::{FailedOperation, interpret};
use super::keys::object_key;
use crate::admission::lifecycle::{Lookup, NamespaceState, Namespaces};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::storage::{Asked, GetRequest, Storage};

/// The storage of namespaces, as a source for admission.
pub(super) struct NamespaceSource {
    definition: Arc<ResourceDefinition>,
    storage: Arc<dyn Storage>,
}

impl NamespaceSource {
    pub(super) fn new(
        definition: Arc<ResourceDefinition>,
        storage: Arc<dyn Storage>,
    ) -> NamespaceSource {
        NamespaceSource {
            definition,
            storage,
        }
    }

    async fn found(
        &self,
        name: &str,
        asked: Asked,
    ) -> Result<Option<Arc<CachedObject>>, Box<Status>> {
        // No namespace can have a name that is not a valid path segment.
        let Ok(key) = object_key(&self.definition, None, name) else {
            return Ok(None);
        };
        let found = self.storage.get(GetRequest { key, asked }).await;
        found.map_err(|error| interpret(error, FailedOperation::Get, &self.definition, name))
    }
}

impl Namespaces for NamespaceSource {
    fn state<'n>(
        &'n self,
        name: &'n str,
        lookup: Lookup,
    ) -> BoxFuture<'n, Result<NamespaceState, Box<Status>>> {
        async move {
            let asked = match lookup {
                Lookup::Cached => Asked::Any,
                Lookup::Live => Asked::Unset,
            };
            let found = self.found(name, asked).await?;
            Ok(found.map_or(NamespaceState::Absent, |namespace| state_of(&namespace)))
        }
        .boxed()
    }

    fn has_label<'n>(
        &'n self,
        name: &'n str,
        key: &'n str,
        value: &'n str,
    ) -> BoxFuture<'n, Result<bool, Box<Status>>> {
        async move {
            let found = self.found(name, Asked::Unset).await?;
            Ok(found.is_some_and(|namespace| namespace.attributes().label(key) == Some(value)))
        }
        .boxed()
    }
}

/// Reads `status.phase`. It is a selectable field, so cached objects have it without decoding.
fn state_of(namespace: &CachedObject) -> NamespaceState {
    let mut fields = namespace.attributes().fields();
    match fields.any(|field| field == "Terminating") {
        true => NamespaceState::Terminating,
        false => NamespaceState::Active,
    }
}
