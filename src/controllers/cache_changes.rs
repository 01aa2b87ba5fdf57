//! The frame of small controllers that look at all objects of a cache after it has changed.

use std::time::Duration;

use actors::cacher::{CacheNews, CacherHandle};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::resource::Subresource;
use crate::api::status::Status;
use crate::registry::{NamespacedName, RegistryStore, RequestContext, UpdateSource, Written};

/// The wait before failed work is retried.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The pause after each look, so that a burst of changes is one look.
const PAUSE: Duration = Duration::from_millis(20);
/// The time limit for one write.
const TIME: Duration = Duration::from_secs(30);

/// A controller that looks at all objects.
pub(super) trait LooksAtAll: Sync {
    /// Looks at all objects, and writes what they lack.
    ///
    /// # Errors
    /// A write or a read failed.
    fn look_at_all(&self) -> BoxFuture<'_, Result<(), Box<Status>>>;
}

/// Has a controller work after changes of a cache until it stops. Failed work is logged with this
/// text and retried.
pub(super) async fn at_each_change(
    cache: &CacherHandle,
    retrying: &str,
    controller: &dyn LooksAtAll,
) {
    let mut follower = cache.follow();
    let mut is_due = false;
    loop {
        loop {
            match follower.read() {
                CacheNews::Nothing | CacheNews::Filling => break,
                CacheNews::Stopped => return,
                CacheNews::State(_) | CacheNews::Events(_) => is_due = true,
            }
        }
        if !is_due {
            follower.changed().await;
            continue;
        }
        match controller.look_at_all().await {
            Ok(()) => is_due = false,
            Err(status) => {
                tracing::warn!(%status, "{retrying}");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Applies an object, or the part of it that a subresource writes, as this field manager. It takes
/// the fields from other managers.
///
/// # Errors
/// Those of an update.
pub(super) async fn apply_as(
    manager: &str,
    store: &RegistryStore,
    at: NamespacedName<'_>,
    part: Option<&Subresource>,
    object: Object,
) -> Result<Written, Box<Status>> {
    let source = UpdateSource::Apply {
        object,
        faults: Vec::new(),
    };
    let options = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    let context = RequestContext {
        manager: manager.to_owned(),
        ..RequestContext::internal(manager, Instant::now() + TIME)
    };
    store.update(&context, at, part, source, &options).await
}
