//! Stops a child that is to be removed and waits for its end.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::child::{Child, StopActor};

/// A child that has not ended after this time gets another request to stop. It may have been too
/// busy to take the message.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A running child that is to be removed.
pub(super) struct Removal {
    stop: StopActor,
    ended: oneshot::Receiver<()>,
}

impl Removal {
    /// Marks the child as removed, so that it is not restarted.
    pub(super) fn of(child: &mut Child) -> Removal {
        let (sender, ended) = oneshot::channel();
        child.removal = Some(sender);
        Removal {
            stop: child.stop.clone(),
            ended,
        }
    }

    /// Stops the child. Returns when it has ended and the Supervisor has removed it.
    pub(super) async fn until_ended(mut self) {
        loop {
            (self.stop)().await;
            if timeout(RETRY_AFTER, &mut self.ended).await.is_ok() {
                return;
            }
        }
    }
}
