//! Probes in the background whether etcd answers (OP-20..22). A health check reads the last outcome
//! and never waits.

use std::sync::Arc;
use std::time::Duration;

use actors::tasks;
use etcd_client::Error;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::call_error::CallError;
use super::cluster::Cluster;
use super::cluster_state::Header;
use super::servers::Member;

/// The default timeout of a probe (OP-20).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// The outcome of the newest probe.
#[derive(Clone)]
pub struct Probe {
    outcome: Arc<Mutex<Result<(), String>>>,
    logs: bool,
}

impl Probe {
    /// Starts a probe. With `logs` it logs when etcd comes and goes.
    pub(super) fn start(
        cluster: &Arc<Cluster>,
        handle: &Handle,
        timeout: Duration,
        logs: bool,
    ) -> Probe {
        let timeout = match timeout.is_zero() {
            true => DEFAULT_TIMEOUT,
            false => timeout,
        };
        let not_yet = "the connection to etcd is not established yet".to_owned();
        let probe = Probe {
            outcome: Arc::new(Mutex::new(Err(not_yet))),
            logs,
        };
        tasks::spawn_on(handle, probe.clone().run(Arc::clone(cluster), timeout));
        probe
    }

    /// Whether the newest probe was answered in time.
    ///
    /// # Errors
    /// Why not.
    pub fn outcome(&self) -> Result<(), String> {
        self.outcome.lock().clone()
    }

    async fn run(self, cluster: Arc<Cluster>, timeout: Duration) {
        let mut closed = cluster.closed.subscribe();
        let mut is_first = true;
        loop {
            let started = Instant::now();
            let outcome = probe(&cluster, timeout).await;
            self.publish(outcome, std::mem::take(&mut is_first));
            tokio::select! {
                _ = closed.changed() => break,
                () = tokio::time::sleep_until(started + timeout / 2) => {}
            }
        }
        *self.outcome.lock() = Err("the daemon is shutting down".to_owned());
    }

    fn publish(&self, outcome: Result<(), String>, is_first: bool) {
        let before = std::mem::replace(&mut *self.outcome.lock(), outcome.clone());
        match (before, outcome) {
            _ if !self.logs => {}
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

/// Asks one server of a cluster.
#[derive(Clone)]
pub struct ServerProbe {
    cluster: Arc<Cluster>,
    number: usize,
}

impl ServerProbe {
    pub(super) fn of_all(cluster: &Arc<Cluster>) -> Vec<ServerProbe> {
        let of = |number| ServerProbe {
            cluster: Arc::clone(cluster),
            number,
        };
        (0..cluster.servers.all().len()).map(of).collect()
    }

    /// The URL of the server.
    pub fn url(&self) -> &str {
        self.member().map_or("", |member| &member.url)
    }

    fn member(&self) -> Option<&Member> {
        self.cluster.servers.all().get(self.number)
    }

    /// Whether the server answers a linearizable read within the time of probes.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn ask(&self) -> Result<(), String> {
        let Some(member) = self.member() else {
            return Err("there is no such server".to_owned());
        };
        let (mut kv, key) = (member.kv(), self.cluster.probe_key.clone());
        match tokio::time::timeout(DEFAULT_TIMEOUT, kv.get(key, None)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(text_of(&error)),
            Err(_) => Err(format!("no answer within {DEFAULT_TIMEOUT:?}")),
        }
    }
}

/// A linearizable read of a key that nobody writes. Any answer counts (OP-20). Each member gets a
/// share of the time.
async fn probe(cluster: &Cluster, timeout: Duration) -> Result<(), String> {
    let deadline = Instant::now() + timeout;
    let late = || format!("no server of etcd answered within {timeout:?}");
    let mut last = None;
    for _ in cluster.servers.all() {
        let Some((number, member)) = cluster.servers.current() else {
            break;
        };
        let mut kv = member.kv();
        let known = cluster.state.known();
        let share = (deadline - Instant::now().min(deadline)) / cluster.servers.all().len() as u32;
        let until = (Instant::now() + share.max(timeout / 4)).min(deadline);
        match tokio::time::timeout_at(until, kv.get(cluster.probe_key.clone(), None)).await {
            Ok(Ok(answer)) => {
                let header = Header::from(answer.header());
                cluster
                    .state
                    .learn_linearizable(header, known, std::time::Instant::now());
                return Ok(());
            }
            Ok(Err(error)) => last = Some(text_of(&error)),
            Err(_) => {}
        }
        cluster.servers.switch_from(number);
    }
    Err(last.unwrap_or_else(late))
}

fn text_of(error: &Error) -> String {
    CallError::of(error).into_read_error().to_string()
}
