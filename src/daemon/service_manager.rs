//! What the daemon tells systemd: that it is ready, that it stops, and that its threads turn.
//!
//! Nothing is told unless systemd asks for it by its environment variables (`sd_notify`).

use std::time::Duration;

use actix_rt::task::JoinHandle;
use actors::watchdog::Watchdog;
use sd_notify::NotifyState;

/// The caches are filled.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The daemon stops.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells again and again that the threads turn, if systemd watches. A thread that does not turn is
/// a reason to restart the daemon; a disk that does not answer is none, because a restart does not
/// mend it.
pub(super) fn watched(watchdog: Watchdog) -> Option<JoinHandle<()>> {
    let mut microseconds = 0;
    if !sd_notify::watchdog_enabled(false, &mut microseconds) {
        return None;
    }
    let period = Duration::from_micros(microseconds) / 3;
    Some(actix_rt::spawn(async move {
        loop {
            tokio::time::sleep(period).await;
            let stalled = watchdog.stalled();
            if !stalled.iter().any(|stall| is_thread(&stall.part)) {
                tell(&[NotifyState::Watchdog]);
            }
        }
    }))
}

/// Whether a part is a thread that serves.
fn is_thread(part: &str) -> bool {
    ["http/", "data/", "main"]
        .iter()
        .any(|name| part.starts_with(name))
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, state) {
        tracing::warn!(%error, "systemd can't be told ($NOTIFY_SOCKET)");
    }
}
