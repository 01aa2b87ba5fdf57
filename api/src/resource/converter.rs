//! Conversion between the versions of a resource by somebody who must be waited for.

use std::future::Future;
use std::pin::Pin;

use super::ResourceDefinition;
use crate::object::Object;

/// Converted objects in their order, or the failure as clients see it.
pub type Converting<'c> = Pin<Box<dyn Future<Output = Result<Vec<Object>, String>> + Send + 'c>>;

/// Converts objects between two versions of a resource, as a webhook does (HK-77). Each result is
/// pruned by the schema of its version, and canonical.
pub trait Converter: Send + Sync + 'static {
    /// Converts objects to another version, in order. Objects have no `resourceVersion`. `is_list`
    /// says that they are part of a list or of the events of a watch, whose failures have texts of
    /// their own.
    ///
    /// # Errors
    /// The failure, as clients see it.
    fn convert<'c>(
        &'c self,
        objects: Vec<Object>,
        from: &'c ResourceDefinition,
        to: &'c ResourceDefinition,
        is_list: bool,
    ) -> Converting<'c>;
}
