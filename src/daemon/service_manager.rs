//! Notifies systemd that the daemon is ready, that it stops, and that its threads run.
//!
//! Nothing is sent unless systemd asks for it by its environment variables (`sd_notify`).

use std::time::Duration;

use actix_rt::task::JoinHandle;
use actors::tasks;
use actors::watchdog::Watchdog;
use sd_notify::NotifyState;

/// The service manager of the process. A daemon inside another program does not speak for that
/// program, so it has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceManager {
    is_notified: bool,
}

impl ServiceManager {
    /// The service manager of a daemon that notifies it, or does not.
    pub(super) fn new(is_notified: bool) -> ServiceManager {
        ServiceManager { is_notified }
    }

    /// The caches are filled.
    pub(super) fn ready(self) {
        self.notify(&[NotifyState::Ready]);
    }

    /// The daemon stops.
    pub(super) fn stopping(self) {
        self.notify(&[NotifyState::Stopping]);
    }

    /// Notifies systemd regularly that the threads run, if systemd watches. A thread that does not
    /// run is a reason to restart the daemon. A disk that does not answer is not, because a restart
    /// does not repair it.
    pub(super) fn watched(self, watchdog: Watchdog) -> Option<JoinHandle<()>> {
        let mut microseconds = 0;
        if !self.is_notified || !sd_notify::watchdog_enabled(false, &mut microseconds) {
            return None;
        }
        let period = Duration::from_micros(microseconds) / 3;
        Some(tasks::spawn_local(async move {
            loop {
                tokio::time::sleep(period).await;
                let stalled = watchdog.stalled();
                if !stalled.iter().any(|stall| is_thread(&stall.part)) {
                    self.notify(&[NotifyState::Watchdog]);
                }
            }
        }))
    }

    fn notify(self, state: &[NotifyState<'_>]) {
        if !self.is_notified {
            return;
        }
        if let Err(error) = sd_notify::notify(false, state) {
            tracing::warn!(%error, "systemd could not be notified ($NOTIFY_SOCKET)");
        }
    }
}

/// Returns whether a part is a thread that serves.
fn is_thread(part: &str) -> bool {
    ["http/", "data/", "main"]
        .iter()
        .any(|name| part.starts_with(name))
}
