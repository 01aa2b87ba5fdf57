//! Resources of the cluster that objects allocate in addition to their own key: Services allocate
//! addresses and node ports (API-228).

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::RegistryStore;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::registry::strategy::{Admitted, Valid};

/// An allocator for the objects of a resource.
pub trait Allocation: Send + Sync {
    /// Sets the fields that the writer left to the cluster, before the strategy prepares and
    /// validates the object.
    ///
    /// # Errors
    /// 422 for a request that the cluster cannot fulfil, if kube-apiserver reports it before other
    /// field errors.
    fn prepare(&self, object: &mut Object, stored: Option<&Object>) -> Result<(), Box<Status>>;

    /// Allocates for a valid object what the stored one does not have, and sets its fields. A dry
    /// run allocates nothing.
    ///
    /// # Errors
    /// 422 for an address or port that is taken or out of range, and 500 when none is free. Nothing
    /// stays allocated then.
    fn allocate<'a>(
        self: Arc<Self>,
        object: &'a mut Object,
        stored: Option<&'a Object>,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<Box<dyn Allocated>, Box<Status>>>;

    /// Releases the allocations of a removed object. If a release fails, the repair finds it later.
    fn release<'a>(&'a self, object: &'a Object) -> BoxFuture<'a, ()>;
}

/// The allocations of a write whose outcome is not known yet. If this is dropped, the repair of
/// allocations finds those without an owner.
pub trait Allocated: Send {
    /// Ends a successful write: releases allocations that only the previous object had.
    fn written(self: Box<Self>) -> BoxFuture<'static, ()>;

    /// Ends a failed write: releases all that was allocated for it.
    fn abandoned(self: Box<Self>) -> BoxFuture<'static, ()>;
}

impl RegistryStore {
    /// Calls [`Allocation::prepare`], if objects of the resource allocate anything.
    pub(super) fn prepare_allocation(
        &self,
        admitted: &mut Admitted,
        stored: Option<&Object>,
    ) -> Result<(), Box<Status>> {
        let allocation = self.options.allocation.as_ref();
        allocation.map_or(Ok(()), |allocation| {
            allocation.prepare(admitted.for_change(), stored)
        })
    }

    /// Calls [`Allocation::allocate`]. Returns `None` if objects of the resource allocate nothing.
    pub(super) async fn allocate(
        &self,
        valid: &mut Valid,
        stored: Option<&Object>,
        dry_run: bool,
    ) -> Result<Option<Box<dyn Allocated>>, Box<Status>> {
        let Some(allocation) = &self.options.allocation else {
            return Ok(None);
        };
        let allocated = Arc::clone(allocation).allocate(valid.for_completion(), stored, dry_run);
        allocated.await.map(Some)
    }

    /// Calls [`Allocation::release`], except in a dry run.
    pub(super) async fn release(&self, object: &Object, dry_run: bool) {
        if let (Some(allocation), false) = (&self.options.allocation, dry_run) {
            allocation.release(object).await;
        }
    }
}

/// Commits the allocations of a successful write, or rolls them back.
pub(super) async fn settle(allocated: Option<Box<dyn Allocated>>, is_written: bool) {
    match (allocated, is_written) {
        (Some(allocated), true) => allocated.written().await,
        (Some(allocated), false) => allocated.abandoned().await,
        (None, _) => {}
    }
}
