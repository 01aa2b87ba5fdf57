//! Follows the files of certificates and credentials.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::task::JoinHandle;

use super::credentials::Credentials;
use crate::files::Stamp;

/// How often the files are looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// How often the daemon's own certificate is looked at, which ends without a change of its file.
const RENEWAL_PERIOD: Duration = Duration::from_secs(3600);

/// Reads the files again now, because of SIGHUP.
pub(super) async fn now(credentials: Arc<Credentials>) {
    run(move || credentials.reload("SIGHUP")).await;
}

/// Reads the files again when one of them has changed, and has stayed as it is for a while: one
/// that is not replaced by rename may be half written. A file that can't be used is tried again
/// when it has changed again. Changes count from this call on, not from when the task has a turn.
pub(super) fn follow(credentials: Arc<Credentials>) -> JoinHandle<()> {
    let files = credentials.followed();
    let mut read = stamps(&files);
    actix_rt::spawn(async move {
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
                run(move || credentials.reload_certificates("it is looked at every hour")).await;
            }
        }
    })
}

/// What tells a changed file from an unchanged one. Looking takes microseconds.
fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|file| Stamp::of(file)).collect()
}

async fn run(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = actix_rt::task::spawn_blocking(work).await {
        tracing::error!(%error, "the reload of certificates and tokens was not finished");
    }
}
