//! The election loop of one daemon: reads and writes the Lease, and starts and stops the work.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Milestone;
use super::ensure_system_namespaces;
use super::leader_election::{ElectionAction, LASTS, LeaderElection, Record};
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::status::Status;
use crate::clock;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource};
use crate::storage::codec::object_of;

/// The namespace of the Lease, which Kubernetes' own controllers use too.
const NAMESPACE: &str = "kube-system";
/// An older name of the feature. It stays, because daemons of different versions must contend for
/// the same Lease.
const NAME: &str = "taffrail-upkeep";
const LEASE: NamespacedName<'static> = NamespacedName::in_namespace(NAMESPACE, NAME);

/// The time limit for one request of the election.
const TIME: Duration = Duration::from_secs(5);

/// An older name of the feature. It stays, because dashboards read the metric.
const LEADING: &str = "taffrail_upkeep_leading";

/// Registers the unit and help text of the metrics in this module.
pub(super) fn describe() {
    metrics::describe_gauge!(
        LEADING,
        "Whether this daemon runs the controllers of a store that several daemons share"
    );
}

/// Starts the work of a term. The work ends when the sender requests it.
pub(super) type Work = Box<dyn Fn(watch::Receiver<bool>) -> JoinHandle<()> + Send + Sync>;

/// The election loop of one daemon.
pub(super) struct LeaderElector {
    registry: Registry,
    identity: String,
    election: LeaderElection,
    work: Work,
    term: Option<Term>,
    /// Reached once this daemon took part in the election and does not lead.
    stands_by: Milestone,
}

/// A term of work.
struct Term {
    stop: watch::Sender<bool>,
    working: JoinHandle<()>,
}

impl LeaderElector {
    pub(super) fn new(
        registry: Registry,
        identity: String,
        work: Work,
        stands_by: Milestone,
    ) -> LeaderElector {
        LeaderElector {
            registry,
            election: LeaderElection::new(identity.clone()),
            identity,
            work,
            term: None,
            stands_by,
        }
    }

    /// Takes part in the election until it is stopped, and then releases the lease.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            let time = self.election.within_hold(TIME, Instant::now());
            let outcome = tokio::time::timeout(time, self.try_acquire_or_renew()).await;
            let succeeded = match outcome {
                Ok(Ok(())) => true,
                Ok(Err(status)) => {
                    tracing::debug!(
                        %status,
                        "acquiring or renewing the leader lease failed, retrying"
                    );
                    false
                }
                Err(_) => false,
            };
            let now = Instant::now();
            let leads = self.election.is_leading(now);
            self.start_or_stop_work(leads).await;
            if succeeded && !leads {
                self.stands_by.reach();
            }
            let pause = self.election.pause(succeeded, now);
            let stop = stopped.wait_for(|stopped| *stopped);
            if tokio::time::timeout(pause, stop).await.is_ok() {
                break;
            }
        }
        let was_leading = self.term.is_some();
        self.start_or_stop_work(false).await;
        if was_leading {
            // After a release another daemon takes over at once, otherwise when the lease has
            // expired.
            let _ = tokio::time::timeout(TIME, self.release()).await;
        }
    }

    async fn start_or_stop_work(&mut self, leads: bool) {
        match (leads, self.term.take()) {
            (true, None) => {
                tracing::info!(
                    identity = self.identity,
                    "this daemon runs the controllers now"
                );
                let (stop, stopped) = watch::channel(false);
                let working = (self.work)(stopped);
                self.term = Some(Term { stop, working });
            }
            (false, Some(term)) => {
                tracing::info!(
                    identity = self.identity,
                    "another daemon may run the controllers now"
                );
                term.stop.send_replace(true);
                // The work ends at its next step. Its result does not matter here.
                let _ = term.working.await;
            }
            (_, term) => self.term = term,
        }
        metrics::gauge!(LEADING).set(f64::from(u8::from(leads)));
    }

    /// Reads the lease and writes it when that is due.
    async fn try_acquire_or_renew(&mut self) -> Result<(), Box<Status>> {
        let Some(store) = self.registry.current().named("leases.coordination.k8s.io") else {
            return Ok(());
        };
        let found = match store.get(LEASE, "").await {
            Ok(found) => Some(object_of(&found).map_err(|e| Status::internal(e.to_string()))?),
            Err(status) if status.code == 404 => None,
            Err(status) => return Err(status),
        };
        let record = found.as_ref().map(record);
        let step = self.election.step(record.clone(), Instant::now());
        let transitions = match (&record, step) {
            (_, ElectionAction::Wait) => {
                self.election.lost();
                return Ok(());
            }
            (Some(record), ElectionAction::Acquire) => record.transitions + 1,
            (Some(record), ElectionAction::Renew) => record.transitions,
            (None, _) => 0,
        };
        let sent = Instant::now();
        let spec = spec(&self.identity, transitions, found.as_ref());
        match self.write(&store, found, spec).await {
            Ok(()) => self.election.holds(sent),
            Err(status) if status.code == 409 => self.election.lost(),
            Err(status) if status.code == 404 => {
                // The lease or its namespace is missing. The namespaces are created here, because
                // in an empty store no daemon could become leader otherwise.
                self.election.lost();
                ensure_system_namespaces(&self.registry).await?;
            }
            Err(status) => return Err(status),
        }
        Ok(())
    }

    async fn write(
        &self,
        store: &RegistryStore,
        found: Option<Object>,
        spec: Value,
    ) -> Result<(), Box<Status>> {
        let context = RequestContext::internal("upkeep", Instant::now() + TIME);
        let options = WriteOptions::default();
        let Some(mut lease) = found else {
            let mut lease = Object::default();
            lease.set_type("Lease", "coordination.k8s.io/v1");
            lease.set_meta("name", NAME);
            lease.set_meta("namespace", NAMESPACE);
            lease.0.insert("spec".to_owned(), spec);
            let created = store.create(&context, Some(NAMESPACE), lease, &options);
            return created.await.map(|_| ());
        };
        // The write carries the version that was read, so that only the fastest daemon succeeds.
        lease.0.insert("spec".to_owned(), spec);
        let source = UpdateSource::Replace(lease.into());
        let updated = store.update(&context, LEASE, None, source, &options);
        updated.await.map(|_| ())
    }

    async fn release(&self) -> Result<(), Box<Status>> {
        let Some(store) = self.registry.current().named("leases.coordination.k8s.io") else {
            return Ok(());
        };
        let found = store.get(LEASE, "").await?;
        let found = object_of(&found).map_err(|error| Status::internal(error.to_string()))?;
        let record = record(&found);
        if record.holder != self.identity {
            return Ok(());
        }
        let spec = spec("", record.transitions, Some(&found));
        self.write(&store, Some(found), spec).await
    }
}

fn record(lease: &Object) -> Record {
    let spec = lease.0.get("spec").unwrap_or(&Value::Null);
    let text = |name: &str| spec[name].as_str().unwrap_or_default().to_owned();
    Record {
        holder: text("holderIdentity"),
        renewed: text("renewTime"),
        transitions: spec["leaseTransitions"].as_u64().unwrap_or_default(),
    }
}

/// The `spec` of the lease. The acquire time stays while the holder stays.
fn spec(holder: &str, transitions: u64, before: Option<&Object>) -> Value {
    let now = format!("{:.6}", clock::now());
    let since = before.filter(|lease| record(lease).holder == holder);
    let since = since.and_then(|lease| lease.0["spec"]["acquireTime"].as_str().map(str::to_owned));
    json!({
        "holderIdentity": holder,
        "leaseDurationSeconds": LASTS.as_secs(),
        "acquireTime": since.unwrap_or_else(|| now.clone()),
        "renewTime": now,
        "leaseTransitions": transitions,
    })
}
