//! Namespace lookups for admission, answered from the storage of namespaces.

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
}

impl Namespaces for NamespaceSource {
    fn state<'n>(
        &'n self,
        name: &'n str,
        lookup: Lookup,
    ) -> BoxFuture<'n, Result<NamespaceState, Box<Status>>> {
        async move {
            // A name without a valid key names no namespace.
            let Ok(key) = object_key(&self.definition, None, name) else {
                return Ok(NamespaceState::Absent);
            };
            let asked = match lookup {
                Lookup::Cached => Asked::Any,
                Lookup::Live => Asked::Unset,
            };
            let found = self.storage.get(GetRequest { key, asked }).await;
            let found = found
                .map_err(|error| interpret(error, FailedOperation::Get, &self.definition, name))?;
            Ok(found.map_or(NamespaceState::Absent, |namespace| state_of(&namespace)))
        }
        .boxed()
    }
}

/// Reads `status.phase`, which caches know because it is a selectable field.
fn state_of(namespace: &CachedObject) -> NamespaceState {
    let mut fields = namespace.attributes().fields();
    match fields.any(|field| field == "Terminating") {
        true => NamespaceState::Terminating,
        false => NamespaceState::Active,
    }
}
