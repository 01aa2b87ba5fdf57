//! The etcd engine, for several daemons on one store.
//!
//! It owns the connections to etcd, and the state of the cluster that etcd's answers have shown. It
//! must not know objects or HTTP, and it keeps no values. Keys and values have the layout of
//! Kubernetes, so a kube-apiserver can run next to this daemon or replace it.
//!
//! Feeds, ranges and background tasks run on a thread of their own, and callers wait for it. Reads
//! and writes of one key use a connection of the calling thread, because a thread hand-over costs
//! more than the call.
//!
//! - `servers` calls one member until it fails. It repeats a write only if the write certainly had
//!   no effect. `connection` sends what tasks write in one poll of the runtime as one write.
//! - `reads`, `commit`, `leases` and `compaction` are the calls. `compact_rounds` agrees with all
//!   other daemons of the cluster on which one compacts.
//! - `shared_streams` places the watches of feeds on streams that they share. `shared_stream`
//!   drives one, `watch_table` finds the watch of each message, and `watch_queue` is between the
//!   stream and a reader. `etcd_watch` is a watch with a stream of its own. `stream_count` measures
//!   how many streams there are.
//! - `last_event_check` looks whether a stream belongs to the cluster that was known.
//! - `feed` and `history` turn these watches into the port's feeds and chunks of history, always
//!   whole revisions. `progress_requests` are those of readers, and `progress_pace` decides when
//!   etcd is asked. `idle_watches` keeps watches of history for the next chunk.
//! - `export` reads the state of one revision for a backup.
//! - `current_revision` reads the current revision once for all who ask at the same time.
//! - `cluster_state` remembers the cluster and how far it was. It begins a new epoch when another
//!   cluster answers or when the cluster has lost data.

mod background;
mod call_error;
mod cluster;
mod cluster_state;
mod commit;
mod compact_rounds;
mod compaction;
mod connect_error;
mod connection;
mod current_revision;
mod etcd_watch;
mod events;
mod export;
mod feed;
mod history;
mod idle_watches;
mod last_event_check;
mod leases;
mod options;
mod page_sizes;
mod probe;
mod progress_pace;
mod progress_requests;
mod reads;
mod servers;
mod shared_stream;
mod shared_streams;
mod stream_count;
mod task;
mod tls;
mod tls_files;
mod version;
mod watch_queue;
mod watch_table;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, DataEngine, Engine, EngineError, EngineStats, Expiry, Export, Feed, FeedProgress,
    GetResponse, Health, HistoryChunk, HistoryRequest, Key, Lease, LeaseEngine, LeaseId,
    Maintenance, MaintenanceEngine, Mutation, Outcome, Position, Prefix, RangeRequest,
    RangeResponse, Retention, Revision,
};
use actors::tasks;
use actors::threads;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};

use cluster::Cluster;
pub use connect_error::ConnectError;
use export::EtcdExport;
pub use options::EtcdOptions;
pub use probe::{Probe, ServerProbe};
use servers::Servers;
use task::Task;
pub use tls::ClientTls;
pub use tls_files::TlsFiles;

use super::RunToCompletion;

/// An etcd cluster as an engine. It connects on the first call, and reconnects whenever servers
/// come back.
pub struct EtcdEngine {
    cluster: Arc<Cluster>,
    handle: Handle,
    /// The thread that talks to etcd. `None` once the engine is closed.
    runtime: Mutex<Option<Runtime>>,
    health: Probe,
    readiness: Probe,
}

impl EtcdEngine {
    /// Creates an engine over these servers at once, whether they answer or not.
    ///
    /// # Errors
    /// [`ConnectError`] for mistakes that waiting does not repair.
    pub fn open(options: EtcdOptions) -> Result<Arc<EtcdEngine>, ConnectError> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = threads::inherited(&mut builder)
            .worker_threads(1)
            .thread_name("etcd")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        stream_count::describe();
        let servers = Servers::prepare(&options)?;
        let cluster = Arc::new(Cluster::new(&options, servers, handle.clone()));
        tasks::spawn_on(&handle, options.watchdog.probe("etcd".to_owned()));
        background::start(&cluster, &handle, options.size_every);
        Ok(Arc::new(EtcdEngine {
            health: Probe::start(&cluster, &handle, options.health_timeout, false),
            readiness: Probe::start(&cluster, &handle, options.ready_timeout, true),
            cluster,
            handle: handle.clone(),
            runtime: Mutex::new(Some(runtime)),
        }))
    }

    /// The probe of `/healthz` (OP-20: `etcd`).
    pub fn health_probe(&self) -> Probe {
        self.health.clone()
    }

    /// The probe of `/readyz` (OP-20: `etcd-readiness`).
    pub fn readiness_probe(&self) -> Probe {
        self.readiness.clone()
    }

    /// A probe of each server (API-232).
    pub fn server_probes(&self) -> Vec<ServerProbe> {
        ServerProbe::of_all(&self.cluster)
    }

    /// Runs a call on the caller's runtime, which owns its connection.
    fn run_here<T, F>(&self, call: F) -> BoxFuture<'static, Result<T, EngineError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        match *self.cluster.closed.borrow() {
            true => ready(Err(EngineError::Closed)).boxed(),
            false => call.boxed(),
        }
    }

    /// Runs a call on the engine's thread while the caller waits.
    fn run_on_thread<T, F>(&self, call: F) -> BoxFuture<'static, Result<T, EngineError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        let handle = self.handle.clone();
        self.run_here(async move {
            let (sender, answer) = tokio::sync::oneshot::channel();
            // Ends the task when the caller goes away.
            let _task = Task::of(tasks::spawn_on(&handle, async move {
                let _ = sender.send(call.await);
            }));
            answer.await.unwrap_or(Err(EngineError::Closed))
        })
    }
}

impl Drop for EtcdEngine {
    fn drop(&mut self) {
        self.cluster.closed.send_replace(true);
        if let Some(runtime) = self.runtime.lock().take() {
            runtime.shutdown_background();
        }
    }
}

impl DataEngine for EtcdEngine {
    fn get(&self, key: Key, at: At) -> BoxFuture<'_, Result<GetResponse, EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        self.run_here(async move { cluster.get(key, at).await })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        self.run_on_thread(async move { cluster.range(request).await })
    }

    fn commit(&self, mutation: Mutation) -> BoxFuture<'_, Result<Outcome, EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        let commit = self.run_here(async move { cluster.commit(mutation).await });
        // Runs to completion even if the caller goes away.
        RunToCompletion::new(commit).boxed()
    }

    fn feed(
        &self,
        prefix: Prefix,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Feed>, EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        self.run_on_thread(async move {
            cluster.check_after(after)?;
            feed::open(cluster, prefix, after).await
        })
    }

    fn history(&self, request: HistoryRequest) -> BoxFuture<'_, Result<HistoryChunk, EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        self.run_on_thread(async move { cluster.history(request).await })
    }

    fn current(&self, _: &Prefix) -> BoxFuture<'_, Result<Position, EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        self.run_on_thread(async move { cluster.current_revision.read().await.map(position) })
    }

    fn known(&self, _: &Prefix) -> Position {
        position(self.cluster.state.revision())
    }

    fn feed_progress(&self) -> FeedProgress {
        match self.cluster.servers.support_progress() {
            true => FeedProgress::OnRequest,
            false => FeedProgress::Seldom,
        }
    }

    fn request_progress(&self, prefix: &Prefix, up_to: Revision) {
        self.cluster.progress_requests.request(prefix, up_to);
    }

    fn epoch(&self) -> u64 {
        self.cluster.state.epoch()
    }

    fn knows_origins(&self) -> bool {
        false
    }

    fn compacted(&self) -> Revision {
        self.cluster.state.compacted()
    }

    fn health(&self) -> Health {
        match self.readiness.outcome() {
            _ if *self.cluster.closed.borrow() => Health::Down(EngineError::Closed.to_string()),
            Ok(()) => Health::Serving,
            Err(why) => Health::Down(why),
        }
    }
}

impl LeaseEngine for EtcdEngine {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease, EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        self.run_on_thread(async move { cluster.grant(ttl).await })
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        let revoke = self.run_on_thread(async move { cluster.revoke(lease).await });
        RunToCompletion::new(revoke).boxed()
    }

    /// etcd deletes keys whose lease has expired.
    fn expire(&self) -> BoxFuture<'_, Result<Expiry, EngineError>> {
        self.run_here(ready(Ok(Expiry::default())))
    }
}

impl MaintenanceEngine for EtcdEngine {
    /// The compacted revision that all daemons of the cluster agreed on. Their own retention does
    /// not count.
    fn horizon(&self, _: Retention, _: SystemTime) -> BoxFuture<'_, Result<Revision, EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        self.run_on_thread(async move { cluster.compact_round().await })
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), EngineError>> {
        let cluster = Arc::clone(&self.cluster);
        self.run_on_thread(async move { cluster.compact(up_to).await })
    }

    /// etcd gives space back by itself.
    fn maintain(&self, _: bool) -> BoxFuture<'_, Result<Maintenance, EngineError>> {
        self.run_here(ready(Ok(Maintenance::default())))
    }

    fn export(&self) -> Box<dyn Export> {
        Box::new(EtcdExport::new(
            Arc::clone(&self.cluster),
            self.handle.clone(),
        ))
    }

    fn stats(&self) -> EngineStats {
        let bytes = self.cluster.database_bytes.load(Ordering::Relaxed);
        EngineStats {
            revision: self.cluster.state.revision(),
            compacted: self.cluster.state.compacted(),
            file_bytes: u64::try_from(bytes).unwrap_or_default(),
            ..EngineStats::default()
        }
    }
}

impl Engine for EtcdEngine {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.cluster.closed.send_replace(true);
        ready(()).boxed()
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// etcd does not say when a prefix last changed. It may have been at the store's revision.
fn position(revision: Revision) -> Position {
    Position {
        revision,
        prefix_revision: revision,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn refused(url: &str, tls: Option<TlsFiles>) -> String {
        let opened = || {
            let servers = vec![url.to_owned()];
            let tls = tls.map(|files| ClientTls::read(&files, url));
            EtcdEngine::open(EtcdOptions {
                tls: tls.transpose()?,
                ..EtcdOptions::new(servers)
            })
        };
        match opened() {
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
            let line = refused(url, None);
            assert!(line.contains(said) && line.lines().count() == 1, "{line}");
        }
        let absent = TlsFiles {
            authority: Some("/does/not/exist".into()),
            identity: None,
        };
        let line = refused("https://127.0.0.1:2379", Some(absent));
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
