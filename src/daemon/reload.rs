//! Follows the files of certificates and credentials.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::task::JoinHandle;
use actors::tasks;

use super::credentials::Credentials;
use crate::files::Stamp;

/// The interval between checks for changed files.
const PERIOD: Duration = Duration::from_secs(2);

/// The interval between checks of the daemon's own certificate, which expires without a change of
/// its file.
const RENEWAL_PERIOD: Duration = Duration::from_secs(3600);

/// Reads the files again now, because of SIGHUP.
pub(super) async fn now(credentials: Arc<Credentials>) {
    run(move || credentials.reload("SIGHUP")).await;
}

/// Reads the files again when one of them has changed and then stayed the same for a while: a file
/// that is not replaced by a rename may be half written. An invalid file is tried again after its
/// next change. Changes count from this call on, not from the task's first turn.
pub(super) fn follow(credentials: Arc<Credentials>) -> JoinHandle<()> {
    let files = credentials.followed();
    let mut read = stamps(&files);
    tasks::spawn_local(async move {
        let mut last = read.clone();
        let mut since_renewal = Duration::ZERO;
        loop {
            tokio::time::sleep(PERIOD).await;
            since_renewal += PERIOD;
            let now = stamps(&files);
            let is_settled = now == last;
            last.clone_from(&now);
            let credentials = Arc::clone(&credentials);
            if now != read && is_settled {
                read = now;
                run(move || credentials.reload("a file has changed")).await;
            } else if since_renewal >= RENEWAL_PERIOD {
                since_renewal = Duration::ZERO;
                run(move || credentials.reload_certificates("it is checked every hour")).await;
            }
        }
    })
}

/// Returns stamps that distinguish changed files from unchanged ones. Reading them takes
/// microseconds.
fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|file| Stamp::of(file)).collect()
}

async fn run(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = tasks::spawn_blocking(work).await {
        tracing::error!(%error, "the reload of certificates and tokens failed");
    }
}
