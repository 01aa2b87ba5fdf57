//! What objects of a resource take of the cluster, beside their own key: Services take addresses
//! and ports of nodes (API-228).

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::RegistryStore;
use crate::api::object::Object;
use crate::api::status::Status;

/// Allocates what objects of a resource take.
pub trait Allocation: Send + Sync {
    /// Fills in what a writer left to the cluster, before the object is prepared and checked.
    ///
    /// # Errors
    /// 422 for what the cluster can't have, if that is told before other faults.
    fn prepare(&self, object: &mut Object, stored: Option<&Object>) -> Result<(), Box<Status>>;

    /// Takes for a checked object what it did not have before, and fills it in. A dry run takes
    /// nothing.
    ///
    /// # Errors
    /// 422 for what somebody else has, and for what the cluster does not have; 500 when nothing is
    /// left. Nothing was taken then.
    fn allocate<'a>(
        self: Arc<Self>,
        object: &'a mut Object,
        stored: Option<&'a Object>,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<Box<dyn Allocated>, Box<Status>>>;

    /// Gives back what a removed object had. What can't be given back now is found later.
    fn release<'a>(&'a self, object: &'a Object) -> BoxFuture<'a, ()>;
}

/// What was taken for a write whose outcome is not known yet. If it is dropped, whoever repairs
/// allocations finds what nobody has.
pub trait Allocated: Send {
    /// The object was written. What it had before and has no longer is given back.
    fn written(self: Box<Self>) -> BoxFuture<'static, ()>;

    /// The object was not written. What was taken is given back.
    fn abandoned(self: Box<Self>) -> BoxFuture<'static, ()>;
}

impl RegistryStore {
    /// As [`Allocation::prepare`].
    pub(super) fn prepare_allocation(
        &self,
        object: &mut Object,
        stored: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        let allocation = self.options.allocation.as_ref();
        allocation.map_or(Ok(()), |allocation| allocation.prepare(object, stored))
    }

    /// As [`Allocation::allocate`]. `None` if objects of the resource take nothing.
    pub(super) async fn allocate(
        &self,
        object: &mut Object,
        stored: Option<&Object>,
        dry_run: bool,
    ) -> Result<Option<Box<dyn Allocated>>, Box<Status>> {
        let Some(allocation) = &self.options.allocation else {
            return Ok(None);
        };
        let allocated = Arc::clone(allocation).allocate(object, stored, dry_run);
        allocated.await.map(Some)
    }

    /// As [`Allocation::release`].
    pub(super) async fn release(&self, object: &Object, dry_run: bool) {
        if let (Some(allocation), false) = (&self.options.allocation, dry_run) {
            allocation.release(object).await;
        }
    }
}

/// Tells what was taken of the outcome of the write.
pub(super) async fn settle(allocated: Option<Box<dyn Allocated>>, is_written: bool) {
    match (allocated, is_written) {
        (Some(allocated), true) => allocated.written().await,
        (Some(allocated), false) => allocated.abandoned().await,
        (None, _) => {}
    }
}
