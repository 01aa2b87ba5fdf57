//! The functions of writes, which see and make objects of one version, over a storage that keeps
//! another one.

use std::sync::Arc;

use actors::object::CachedObject;
use futures_util::future::{BoxFuture, FutureExt};

use super::ShownVersion;
use crate::api::status::Status;
use crate::storage::{Current, NewObject, UpdateFunction, ValidateDeletion, WriteDecision};

/// An update function of the version that is shown, for the storage of the stored one.
pub(super) struct Converting<'u> {
    pub version: &'u ShownVersion,
    pub update: &'u mut dyn UpdateFunction,
}

impl UpdateFunction for Converting<'_> {
    fn call(
        &mut self,
        current: Current,
    ) -> BoxFuture<'_, Result<WriteDecision<NewObject>, Box<Status>>> {
        async move {
            let object = match current.object {
                Some(stored) => Some(self.version.show(&stored).await?),
                None => None,
            };
            Ok(match self.update.call(Current { object }).await? {
                WriteDecision::Write(new) => WriteDecision::Write(self.version.store(new).await?),
                WriteDecision::Leave => WriteDecision::Leave,
            })
        }
        .boxed()
    }
}

/// A check of the version that is shown, for deletions in the storage of the stored one.
pub(super) struct ConvertingCheck<'d> {
    pub version: &'d ShownVersion,
    pub check: &'d mut dyn ValidateDeletion,
}

impl ValidateDeletion for ConvertingCheck<'_> {
    fn call(
        &mut self,
        current: &Arc<CachedObject>,
    ) -> BoxFuture<'_, Result<WriteDecision<()>, Box<Status>>> {
        let current = Arc::clone(current);
        async move {
            let shown = self.version.show(&current).await?;
            self.check.call(&shown).await
        }
        .boxed()
    }
}
