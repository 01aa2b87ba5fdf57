//! Whether etcd answers, asked again and again in the background (OP-20..22): a health check reads
//! the last outcome and never waits.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::Error;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Shared;
use super::fault::Fault;
use super::seen::Header;

/// What a probe without a time-out of its own takes (OP-20).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// The outcome of the newest probe.
#[derive(Clone)]
pub struct Probe {
    outcome: Arc<Mutex<Result<(), String>>>,
    is_loud: bool,
}

impl Probe {
    /// Starts one that says in the log when etcd comes and goes, if it is to be `loud`.
    pub(super) fn start(
        shared: &Arc<Shared>,
        handle: &Handle,
        timeout: Duration,
        loud: bool,
    ) -> Probe {
        let timeout = match timeout.is_zero() {
            true => DEFAULT_TIMEOUT,
            false => timeout,
        };
        let not_yet = "the connection to etcd is not established yet".to_owned();
        let probe = Probe {
            outcome: Arc::new(Mutex::new(Err(not_yet))),
            is_loud: loud,
        };
        handle.spawn(probe.clone().run(Arc::clone(shared), timeout));
        probe
    }

    /// Whether the newest probe was answered in time.
    ///
    /// # Errors
    /// Why not.
    pub fn outcome(&self) -> Result<(), String> {
        self.outcome.lock().clone()
    }

    async fn run(self, shared: Arc<Shared>, timeout: Duration) {
        let mut closed = shared.closed.subscribe();
        let mut is_first = true;
        loop {
            let started = Instant::now();
            let outcome = probe(&shared, timeout).await;
            self.tell(outcome, std::mem::take(&mut is_first));
            tokio::select! {
                _ = closed.changed() => break,
                () = tokio::time::sleep_until(started + timeout / 2) => {}
            }
        }
        *self.outcome.lock() = Err("the daemon is shutting down".to_owned());
    }

    fn tell(&self, outcome: Result<(), String>, is_first: bool) {
        let before = std::mem::replace(&mut *self.outcome.lock(), outcome.clone());
        match (before, outcome) {
            _ if !self.is_loud => {}
            (Err(_), Err(why)) if is_first => {
                tracing::warn!(
                    why,
                    "etcd does not answer yet; its objects are served once it does"
                );
            }
            (Ok(()), Err(why)) => tracing::warn!(
                why,
                "etcd does not answer: writes are refused, and reads that need the newest state"
            ),
            (Err(_), Ok(())) => tracing::info!("etcd answers"),
            _ => {}
        }
    }
}

/// A linearizable read of a key that nobody writes: absent is as good as any answer (OP-20). Each
/// member gets its chance within the time.
async fn probe(shared: &Shared, timeout: Duration) -> Result<(), String> {
    let deadline = Instant::now() + timeout;
    let late = || format!("no server of etcd answered within {timeout:?}");
    let mut last = None;
    for _ in shared.servers.all() {
        let Some((number, member)) = shared.servers.current() else {
            break;
        };
        let mut kv = member.kv();
        let floor = shared.seen.floor();
        let share = (deadline - Instant::now().min(deadline)) / shared.servers.all().len() as u32;
        let until = (Instant::now() + share.max(timeout / 4)).min(deadline);
        match tokio::time::timeout_at(until, kv.get(shared.probe_key(), None)).await {
            Ok(Ok(answer)) => {
                shared.note_linearizable(Header::from(answer.header()), floor);
                return Ok(());
            }
            Ok(Err(error)) => last = Some(words(&error)),
            Err(_) => {}
        }
        shared.servers.leave(number);
    }
    Err(last.unwrap_or_else(late))
}

fn words(error: &Error) -> String {
    Fault::of(error).into_error().to_string()
}
