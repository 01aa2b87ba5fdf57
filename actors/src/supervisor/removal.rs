//! The end of a child that is to be removed.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::child::{Child, StopActor};

/// A child that has not ended by then is told again: it may be too busy to have heard.
const TELL_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A child that runs and is to end for good.
pub(super) struct Removal {
    stop: StopActor,
    ended: oneshot::Receiver<()>,
}

impl Removal {
    /// The child is not started again from here on.
    pub(super) fn of(child: &mut Child) -> Removal {
        let (sender, ended) = oneshot::channel();
        child.removal = Some(sender);
        Removal {
            stop: child.stop.clone(),
            ended,
        }
    }

    /// Stops the child. Comes back when it has ended and the Supervisor has forgotten it.
    pub(super) async fn until_ended(mut self) {
        loop {
            (self.stop)().await;
            if timeout(TELL_AGAIN_AFTER, &mut self.ended).await.is_ok() {
                return;
            }
        }
    }
}
