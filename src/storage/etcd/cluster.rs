//! The parts that calls, feeds and background tasks of the engine share.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Instant;

use actors::engine::{At, EngineError, Prefix, Revision};
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::call_error::CallError;
use super::cluster_state::{ClusterState, Header};
use super::compact_rounds::CompactRounds;
use super::current_revision::{CurrentRevision, Read};
use super::etcd_watch::EtcdWatch;
use super::idle_watches::IdleWatches;
use super::options::EtcdOptions;
use super::page_sizes::PageSizes;
use super::progress_requests::ProgressRequests;
use super::servers::{CallKind, Servers};
use super::shared_streams::{SharedStreams, SharedWatch};

/// The shared parts of the engine.
pub(super) struct Cluster {
    pub(super) servers: Arc<Servers>,
    pub(super) state: Arc<ClusterState>,
    pub(super) current_revision: CurrentRevision,
    pub(super) page_sizes: PageSizes,
    pub(super) idle_watches: IdleWatches,
    pub(super) progress_requests: Arc<ProgressRequests>,
    pub(super) shared_streams: SharedStreams,
    pub(super) compaction: Mutex<CompactRounds>,
    /// The size of etcd's database; 0 while unknown.
    pub(super) database_bytes: AtomicI64,
    pub(super) closed: watch::Sender<bool>,
    /// The engine's.
    pub(super) runtime: Handle,
    /// The prefix of all keys.
    pub(super) root: String,
    /// The key that probes read. Nobody writes it (KV-5).
    pub(super) probe_key: String,
}

impl Cluster {
    /// Creates the parts of an engine over these servers. No server is called yet. `runtime` is the
    /// engine's.
    pub(super) fn new(options: &EtcdOptions, servers: Servers, runtime: Handle) -> Cluster {
        let (servers, state) = (Arc::new(servers), Arc::<ClusterState>::default());
        let probe_key = format!("{}health", options.root);
        let read = reader_of_revision(&servers, &state, &probe_key);
        let rounds = CompactRounds::new(options.compaction_interval, Instant::now());
        let closed = watch::Sender::new(false);
        let progress_requests = Arc::<ProgressRequests>::default();
        Cluster {
            current_revision: CurrentRevision::new(read, runtime.clone()),
            shared_streams: SharedStreams::new(
                Arc::clone(&servers),
                Arc::clone(&state),
                Arc::clone(&progress_requests),
                closed.subscribe(),
                runtime.clone(),
            ),
            servers,
            state,
            page_sizes: PageSizes::default(),
            idle_watches: IdleWatches::default(),
            progress_requests,
            compaction: Mutex::new(rounds),
            database_bytes: AtomicI64::new(0),
            closed,
            runtime,
            root: options.root.clone(),
            probe_key,
        }
    }

    /// Opens a watch of the prefix after a revision, on a stream of its own.
    ///
    /// # Errors
    /// The errors of [`EtcdWatch::open`].
    pub(super) async fn watch(
        &self,
        prefix: &Prefix,
        after: Revision,
    ) -> Result<EtcdWatch, EngineError> {
        let (watch, revision) = EtcdWatch::open(&self.servers, &self.state, prefix, after).await?;
        self.check_revision(revision, after).await?;
        Ok(watch)
    }

    /// Opens a watch of the prefix after a revision, on a stream that it shares. `None` if it may
    /// not share one.
    ///
    /// # Errors
    /// When the member does not open it.
    pub(super) async fn shared_watch(
        &self,
        prefix: &Prefix,
        after: Revision,
    ) -> Result<Option<SharedWatch>, EngineError> {
        if !self.shared_streams.takes(after) {
            return Ok(None);
        }
        let (watch, revision) = self.shared_streams.open(prefix, after).await?;
        self.check_revision(revision, after).await?;
        Ok(Some(watch))
    }

    /// Looks why a member that opened a watch is at an earlier revision than the watch. Either it
    /// lags behind or the cluster was rolled back. A linearizable read shows which.
    async fn check_revision(&self, shown: Revision, after: Revision) -> Result<(), EngineError> {
        if shown < after {
            self.current_revision.read().await?;
        }
        Ok(())
    }

    /// Refuses a revision after which events are compacted.
    pub(super) fn check_after(&self, requested: Revision) -> Result<(), EngineError> {
        let compacted = self.state.compacted();
        match requested < compacted {
            true => Err(EngineError::Compacted {
                requested,
                compacted,
            }),
            false => Ok(()),
        }
    }

    /// The error of a read at a revision.
    pub(super) async fn read_error(&self, error: CallError, at: At) -> EngineError {
        let requested = match at {
            At::Revision(revision) => revision,
            At::Latest => Revision::ZERO,
        };
        match error {
            CallError::Compacted => EngineError::Compacted {
                requested,
                compacted: self.state.compacted().max(requested.next()),
            },
            CallError::FutureRevision => EngineError::FutureRevision {
                requested,
                current: self.current_revision.read().await.unwrap_or_default(),
            },
            error => error.into_read_error(),
        }
    }
}

/// Reads the current revision by reading a key that does not exist, which costs little.
fn reader_of_revision(servers: &Arc<Servers>, state: &Arc<ClusterState>, key: &str) -> Read {
    let (servers, state) = (Arc::clone(servers), Arc::clone(state));
    let key: Arc<str> = Arc::from(key);
    Arc::new(move || {
        let (servers, state, key) = (Arc::clone(&servers), Arc::clone(&state), Arc::clone(&key));
        async move {
            let known = state.known();
            let answer = servers
                .call(CallKind::READ, |member| {
                    let (mut kv, key) = (member.kv(), key.to_string());
                    async move { kv.get(key, None).await }
                })
                .await
                .map_err(CallError::into_read_error)?;
            let header = Header::from(answer.header());
            state.learn_linearizable(header, known, Instant::now());
            Ok(header.revision)
        }
        .boxed()
    })
}
