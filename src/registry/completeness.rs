//! Whether all resources are served that the store may have objects of (CRD-85).

use futures_util::future::BoxFuture;

use crate::api::status::Status;

/// Knows which resources are still to come.
pub trait Completeness: Send + Sync {
    /// Waits until all resources that were defined before the call are served: those of a group, or
    /// of all groups.
    ///
    /// # Errors
    /// 503 if that is not known.
    fn settled<'a>(&'a self, group: Option<&'a str>) -> BoxFuture<'a, Result<(), Box<Status>>>;
}
