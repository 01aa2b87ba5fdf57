//! The distributed engine: an etcd cluster, for users who outgrow one machine (asked for:
//! etcd-client).
//!
//! Keys and values lie there as Kubernetes lays them, so that a kube-apiserver can be put beside
//! or in place of this daemon. Feeds, ranges and chores run on a thread of their own, for which
//! callers wait; what is asked and changed of one key goes over a connection of the calling
//! runtime, for the way to another thread and back takes longer than all else here.
//!
//! - `servers` calls one member until it fails; what has an effect is repeated only when it
//!   certainly had none.
//! - `stream`, `feed` and `history` turn etcd's watches into the port's feeds and pieces of
//!   history, whole revisions at a time; `wishes` make them tell of progress when somebody waits.
//! - `revision` reads the newest revision once for all who want it.
//! - `seen` remembers which cluster this is and how far it was, and notices when it is another one.
//! - `agreement` settles with all others on the cluster who compacts.
//!
//! It knows nothing of objects or HTTP, and keeps no values.

mod agreement;
mod chores;
mod commit;
mod connection;
mod events;
mod fault;
mod feed;
mod history;
mod options;
mod pages;
mod probe;
mod range;
mod revision;
mod seen;
mod servers;
mod stream;
mod version;
mod wishes;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use actors::engine::{
    At, DataEngine, Engine, EngineError, EngineStats, Expiry, Feed, FeedProgress, GetResponse,
    Health, HistoryChunk, HistoryRequest, Key, Lease, LeaseEngine, LeaseId, Maintenance,
    MaintenanceEngine, Mutation, Outcome, Position, Prefix, RangeRequest, RangeResponse, Retention,
    Revision,
};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use agreement::Agreement;
use fault::Fault;
pub use options::{ConnectError, EtcdOptions, TlsFiles};
use pages::Pages;
pub use probe::Probe;
use revision::Revisions;
use seen::{Break, Floor, Header, Seen};
use servers::{Manner, Servers};
use wishes::Wishes;

use super::Finishing;

/// An etcd cluster as an engine. It connects when it is asked for something, and goes on by itself
/// whenever servers come back.
pub struct EtcdEngine {
    shared: Arc<Shared>,
    /// The thread that talks to etcd; gone once the engine is closed.
    runtime: Mutex<Option<Runtime>>,
    health: Probe,
    readiness: Probe,
}

/// What all parts of the engine have in common.
struct Shared {
    /// The engine's own.
    runtime: tokio::runtime::Handle,
    servers: Servers,
    root: String,
    seen: Seen,
    revisions: Revisions,
    /// Reads the newest revision for [`Revisions`].
    read_newest: revision::Read,
    pages: Pages,
    parked: history::Parked,
    wishes: Wishes,
    agreement: Mutex<Agreement>,
    database_bytes: AtomicI64,
    lineages: watch::Sender<u64>,
    closed: watch::Sender<bool>,
}

/// A task that ends with whoever holds it.
struct Task(JoinHandle<()>);

impl Task {
    fn of(handle: JoinHandle<()>) -> Task {
        Task(handle)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EtcdEngine {
    /// An engine over these servers. It comes at once, whether they answer or not.
    ///
    /// # Errors
    /// [`ConnectError`] for what no waiting would mend.
    pub fn open(options: EtcdOptions) -> Result<Arc<EtcdEngine>, ConnectError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("etcd")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        let servers = Servers::prepare(&options)?;
        let shared = Arc::new_cyclic(|shared: &std::sync::Weak<Shared>| {
            let reader = shared.clone();
            Shared {
                runtime: handle.clone(),
                servers,
                root: options.root.clone(),
                seen: Seen::default(),
                revisions: Revisions::default(),
                read_newest: Arc::new(move || read_newest(reader.upgrade()).boxed()),
                pages: Pages::default(),
                parked: history::Parked::default(),
                wishes: Wishes::default(),
                agreement: Mutex::new(Agreement::new(options.compaction_interval, Instant::now())),
                database_bytes: AtomicI64::new(0),
                lineages: watch::Sender::new(0),
                closed: watch::Sender::new(false),
            }
        });
        chores::start(&shared, &handle, options.size_every);
        Ok(Arc::new(EtcdEngine {
            health: Probe::start(&shared, &handle, options.health_timeout, false),
            readiness: Probe::start(&shared, &handle, options.ready_timeout, true),
            shared,
            runtime: Mutex::new(Some(runtime)),
        }))
    }

    /// What `/healthz` asks (OP-20: `etcd`).
    pub fn health_probe(&self) -> Probe {
        self.health.clone()
    }

    /// What `/readyz` asks (OP-20: `etcd-readiness`).
    pub fn readiness_probe(&self) -> Probe {
        self.readiness.clone()
    }

    /// Runs a call as part of the caller, to whose runtime its connection belongs.
    fn here<T, F>(&self, call: F) -> BoxFuture<'static, Result<T, EngineError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        match *self.shared.closed.borrow() {
            true => ready(Err(EngineError::Closed)).boxed(),
            false => call.boxed(),
        }
    }

    /// Runs a call on the engine's thread, for as long as somebody waits for it.
    fn ask<T, F>(&self, call: F) -> BoxFuture<'static, Result<T, EngineError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        let runtime = self.shared.runtime.clone();
        self.here(async move {
            let (sender, answer) = tokio::sync::oneshot::channel();
            // Who goes away takes the task along.
            let _task = Task::of(runtime.spawn(async move {
                let _ = sender.send(call.await);
            }));
            answer.await.unwrap_or(Err(EngineError::Closed))
        })
    }
}

impl Drop for EtcdEngine {
    fn drop(&mut self) {
        self.shared.closed.send_replace(true);
        if let Some(runtime) = self.runtime.lock().take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    /// The key that probes read; nobody writes it (KV-5).
    fn probe_key(&self) -> String {
        format!("{}health", self.root)
    }

    /// Takes note of an answer that may be old.
    fn note(&self, header: Header, floor: Floor) {
        if let Some(found) = self.seen.any(header, floor) {
            self.broken(&found);
        }
    }

    /// Takes note of an answer that can't be old.
    fn note_linearizable(&self, header: Header, floor: Floor) {
        if let Some(found) = self.seen.linearizable(header, floor, Instant::now()) {
            self.broken(&found);
        }
    }

    fn broken(&self, found: &Break) {
        tracing::error!(
            reason = %found,
            "etcd has lost what it had shown: every cache is filled anew and every watch ends; \
             clients that hold versions of before may see old ones again"
        );
        metrics::counter!("taffrail_etcd_lineage_breaks_total").increment(1);
        self.agreement.lock().forget();
        self.lineages.send_replace(self.seen.lineage());
    }

    /// Whether answers to requests for progress can be believed; not as long as it is unknown.
    fn believes_progress(&self) -> bool {
        self.servers.believe_progress()
    }

    /// The newest revision, linearizable.
    async fn newest(&self) -> Result<Revision, EngineError> {
        let runtime = &self.runtime;
        self.revisions.newest(&self.read_newest, runtime).await
    }

    /// Whether every event after the revision can still be there.
    fn check_after(&self, requested: Revision) -> Result<(), EngineError> {
        let compacted = self.seen.compacted();
        match requested < compacted {
            true => Err(EngineError::Compacted {
                requested,
                compacted,
            }),
            false => Ok(()),
        }
    }

    /// What a read at a revision met.
    async fn read_fault(&self, fault: Fault, at: At) -> EngineError {
        let requested = match at {
            At::Revision(revision) => revision,
            At::Latest => Revision::ZERO,
        };
        match fault {
            Fault::Compacted => EngineError::Compacted {
                requested,
                compacted: self.seen.compacted().max(requested.next()),
            },
            Fault::Future => EngineError::FutureRevision {
                requested,
                current: self.newest().await.unwrap_or_default(),
            },
            fault => fault.into_error(),
        }
    }
}

/// Reads the newest revision: of a key that is not there, so that little travels.
async fn read_newest(shared: Option<Arc<Shared>>) -> Result<Revision, EngineError> {
    let shared = shared.ok_or(EngineError::Closed)?;
    let floor = shared.seen.floor();
    let key = shared.probe_key();
    let answer = shared
        .servers
        .call(Manner::READ, |member| {
            let (mut kv, key) = (member.kv(), key.clone());
            async move { kv.get(key, None).await }
        })
        .await
        .map_err(Fault::into_error)?;
    let header = Header::from(answer.header());
    shared.note_linearizable(header, floor);
    Ok(header.revision)
}

impl DataEngine for EtcdEngine {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        let shared = Arc::clone(&self.shared);
        self.here(async move { shared.get(key, at).await })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        let shared = Arc::clone(&self.shared);
        self.ask(async move { shared.range(request).await })
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        let shared = Arc::clone(&self.shared);
        let commit = self.here(async move { shared.commit(mutation).await });
        // To its end whatever becomes of the caller.
        Finishing::new(commit).boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        let shared = Arc::clone(&self.shared);
        self.ask(async move {
            shared.check_after(after)?;
            feed::open(shared, prefix, after).await
        })
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        let shared = Arc::clone(&self.shared);
        self.ask(async move { shared.read_history(request).await })
    }

    fn current(&self, _: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        let shared = Arc::clone(&self.shared);
        self.ask(async move { shared.newest().await.map(everywhere) })
    }

    fn known(&self, _: &Prefix) -> Position {
        everywhere(self.shared.seen.revision())
    }

    fn feed_progress(&self) -> FeedProgress {
        match self.shared.believes_progress() {
            true => FeedProgress::OnRequest,
            false => FeedProgress::Seldom,
        }
    }

    fn request_progress(&self, prefix: &Prefix, up_to: Revision) {
        self.shared.wishes.want(prefix, up_to);
    }

    fn lineage(&self) -> u64 {
        self.shared.seen.lineage()
    }

    fn compacted(&self) -> Revision {
        self.shared.seen.compacted()
    }

    fn health(&self) -> Health {
        match self.readiness.outcome() {
            _ if *self.shared.closed.borrow() => Health::Down(EngineError::Closed.to_string()),
            Ok(()) => Health::Serving,
            Err(why) => Health::Down(why),
        }
    }
}

impl LeaseEngine for EtcdEngine {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>> {
        let shared = Arc::clone(&self.shared);
        self.ask(async move { shared.grant(ttl).await })
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>> {
        let shared = Arc::clone(&self.shared);
        let revoke = self.ask(async move { shared.revoke(lease).await });
        Finishing::new(revoke).boxed()
    }

    /// etcd deletes what has outlived its lease.
    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>> {
        self.here(ready(Ok(Expiry::default())))
    }
}

impl MaintenanceEngine for EtcdEngine {
    /// What all daemons of the cluster have agreed to forget, and have forgotten; the retention of
    /// one is none of it.
    fn horizon(&self, _: Retention, _: SystemTime) -> BoxFuture<'_, Result<Revision, EngineError>> {
        let shared = Arc::clone(&self.shared);
        self.ask(async move { shared.agree().await })
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        let shared = Arc::clone(&self.shared);
        self.ask(async move { shared.compact(up_to).await })
    }

    /// etcd sees to it by itself.
    fn maintain(&self, _: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        self.here(ready(Ok(Maintenance::default())))
    }

    fn stats(&self) -> EngineStats {
        let bytes = self.shared.database_bytes.load(Ordering::Relaxed);
        EngineStats {
            revision: self.shared.seen.revision(),
            compacted: self.shared.seen.compacted(),
            file_bytes: u64::try_from(bytes).unwrap_or_default(),
            ..EngineStats::default()
        }
    }
}

impl Engine for EtcdEngine {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.shared.closed.send_replace(true);
        ready(()).boxed()
    }
}

/// etcd does not say when a prefix was last touched: wherever the store is, the prefix may be.
fn everywhere(revision: Revision) -> Position {
    Position {
        revision,
        prefix_revision: revision,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, tls: TlsFiles) -> String {
        let options = EtcdOptions {
            tls,
            ..EtcdOptions::new(vec![url.to_owned()])
        };
        match EtcdEngine::open(options) {
            Ok(_) => panic!("{url} is taken"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_can_never_work_is_refused_in_one_line_sf_4() {
        for (url, said) in [
            ("127.0.0.1:2379", "it begins with neither"),
            ("unix:///run/etcd.sock", "it begins with neither"),
            ("https://127.0.0.1:2379", "needs --etcd-cafile"),
            ("not a url", "is not a URL"),
        ] {
            let line = refused(url, TlsFiles::default());
            assert!(line.contains(said) && line.lines().count() == 1, "{line}");
        }
        let absent = TlsFiles {
            authority: Some("/does/not/exist".into()),
            identity: None,
        };
        let line = refused("https://127.0.0.1:2379", absent);
        assert!(
            line.starts_with("--etcd-cafile=/does/not/exist: "),
            "{line}"
        );
        let none = EtcdEngine::open(EtcdOptions::new(Vec::new())).map(|_| ());
        assert!(matches!(none, Err(ConnectError::NoServers)));
    }

    /// OP-21: an engine is there before its servers are, and says so until it is closed.
    #[tokio::test]
    async fn an_engine_without_servers_is_down_and_answers_in_time_op_21() {
        // Nobody listens on a port that was just given back.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let engine = EtcdEngine::open(EtcdOptions::new(vec![url])).unwrap();
        let Health::Down(why) = engine.health() else {
            panic!("it serves");
        };
        assert!(
            why.contains("not established yet") || why.contains("refused"),
            "{why}"
        );
        let started = Instant::now();
        let read = engine.get(Key::new("/registry/a"), At::Latest).await;
        let Err(EngineError::Unavailable(why)) = read else {
            panic!("{read:?}");
        };
        assert!(why.contains("refused"), "{why}");
        assert!(started.elapsed() < Duration::from_secs(10));
        engine.close().await;
        assert_eq!(
            engine.health(),
            Health::Down(EngineError::Closed.to_string())
        );
    }
}
