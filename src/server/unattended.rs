//! Counts the requests that continue in the background after their clients are gone.

use std::sync::Arc;

use tokio::sync::watch;

/// The requests that continue though no client waits for them. The daemon lets them finish before
/// it stops.
#[derive(Default)]
pub struct Unattended(watch::Sender<usize>);

/// A request that continues in the background, until this is dropped.
pub(super) struct Running(Arc<Unattended>);

impl Unattended {
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        self.0.send_modify(|running| *running += 1);
        Running(Arc::clone(self))
    }

    /// Waits until all such requests have ended.
    pub async fn ended(&self) {
        // The sender lives as long as `self`, so this can't fail.
        let _ = self.0.subscribe().wait_for(|running| *running == 0).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.send_modify(|running| *running -= 1);
    }
}
