//! Announces to what may last that the daemon stops.

use std::pin::pin;

use futures_util::future::{Either, select};
use tokio::sync::watch;

/// The announcement to everything on a thread. Clones share it.
#[derive(Clone, Debug)]
pub struct Leaving(watch::Sender<bool>);

impl Default for Leaving {
    fn default() -> Leaving {
        Leaving(watch::Sender::new(false))
    }
}

impl Leaving {
    /// Announces that the daemon stops.
    pub fn announce(&self) {
        self.0.send_replace(true);
    }

    /// Waits for the announcement.
    pub fn announced(&self) -> impl Future<Output = ()> + 'static {
        let mut receiver = self.0.subscribe();
        async move {
            // The sender lives as long as its thread.
            let _ = receiver.wait_for(|leaves| *leaves).await;
        }
    }

    /// Does something unless the daemon stops first.
    pub async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(work), pin!(self.announced())).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn an_announcement_reaches_those_who_wait_and_those_who_come_later() {
        let leaving = Leaving::default();
        let mut before = pin!(leaving.announced());
        assert!(before.as_mut().now_or_never().is_none());
        assert_eq!(leaving.unless(async { 1 }).now_or_never(), Some(Some(1)));
        leaving.announce();
        assert!(before.now_or_never().is_some());
        assert!(leaving.announced().now_or_never().is_some());
        let never = std::future::pending::<()>();
        assert_eq!(leaving.unless(never).now_or_never(), Some(None));
    }
}
