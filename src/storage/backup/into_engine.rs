//! Puts the state of a backup into an engine that numbers revisions itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actors::engine::{
    At, Change, Engine, EngineError, EventKind, Expect, ExportedLease, Key, LeaseId, Mutation,
    Outcome, Prefix, Prepared, RangeRequest, Revision,
};
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::storage::embedded::record::{Record, RecordError};

/// Writes under way at the same time.
const WRITES_MAX: usize = 128;

/// The reason why a state was not written into an engine.
#[derive(Debug, thiserror::Error)]
pub enum IntoEngineError {
    /// The engine already has keys below the prefix.
    #[error("it holds keys below {0} already: choose an empty one, or another --etcd-prefix")]
    Occupied(String),
    /// Another client writes the same keys.
    #[error("{0} appeared during the restore: does another client use this store?")]
    Rival(Key),
    /// The engine fails.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A record is damaged.
    #[error("record {0} is damaged: {1}")]
    Damaged(Revision, RecordError),
}

/// Writes the state of a backup into an engine. The caller passes the records twice: in the first
/// pass all are seen, so that the second one writes only the last record of each key.
pub struct IntoEngine {
    engine: Arc<dyn Engine>,
    until: Revision,
    /// The last record of each key that exists.
    last: HashMap<Key, Revision>,
    leases: HashMap<LeaseId, ExportedLease>,
    granted: HashMap<LeaseId, LeaseId>,
    writing:
        FuturesUnordered<futures_util::future::BoxFuture<'static, Result<(), IntoEngineError>>>,
    written: u64,
}

impl IntoEngine {
    /// Begins with an engine that has no keys below the prefix.
    ///
    /// # Errors
    /// [`IntoEngineError`]
    pub async fn begin(
        engine: Arc<dyn Engine>,
        prefix: &str,
        until: Revision,
        leases: &[ExportedLease],
    ) -> Result<IntoEngine, IntoEngineError> {
        let anything = RangeRequest {
            prefix: Prefix::new(format!("{}/", prefix.trim_end_matches('/'))),
            start: None,
            at: At::Latest,
            limit: 1,
            count_only: false,
        };
        if !engine.range(anything).await?.items.is_empty() {
            return Err(IntoEngineError::Occupied(prefix.to_owned()));
        }
        let leases = leases.iter().map(|one| (one.lease.id, *one));
        Ok(IntoEngine {
            engine,
            until,
            last: HashMap::new(),
            leases: leases.collect(),
            granted: HashMap::new(),
            writing: FuturesUnordered::new(),
            written: 0,
        })
    }

    /// Takes a record in the first pass.
    ///
    /// # Errors
    /// [`IntoEngineError::Damaged`]
    pub fn see(&mut self, revision: Revision, bytes: &[u8]) -> Result<(), IntoEngineError> {
        if revision > self.until {
            return Ok(());
        }
        let record = decoded(revision, bytes)?;
        let key = Key::new(record.key());
        match record.kind() {
            EventKind::Put => self.last.insert(key, revision),
            EventKind::Delete => self.last.remove(&key),
        };
        Ok(())
    }

    /// Returns the number of keys that will be written.
    pub fn keys(&self) -> usize {
        self.last.len()
    }

    /// Takes a record in the second pass, and writes it if it is the state of its key.
    ///
    /// # Errors
    /// [`IntoEngineError`]
    pub async fn write(&mut self, revision: Revision, bytes: &[u8]) -> Result<(), IntoEngineError> {
        let record = decoded(revision, bytes)?;
        let key = Key::new(record.key());
        if self.last.get(&key) != Some(&revision) {
            return Ok(());
        }
        let Some(lease) = self.lease(record.lease()).await? else {
            return Ok(());
        };
        let mutation = Mutation {
            key: key.clone(),
            expect: Expect::Absent,
            change: Change::Put {
                value: Bytes::copy_from_slice(record.value()),
                lease,
            },
            origin: record.to_event().origin,
            prepared: Prepared::default(),
        };
        let engine = Arc::clone(&self.engine);
        self.writing.push(Box::pin(async move {
            match engine.commit(mutation).await? {
                Outcome::Committed(_) => Ok(()),
                Outcome::Refused { .. } => Err(IntoEngineError::Rival(key)),
            }
        }));
        while self.writing.len() >= WRITES_MAX {
            self.one_is_written().await?;
        }
        Ok(())
    }

    async fn one_is_written(&mut self) -> Result<(), IntoEngineError> {
        if let Some(outcome) = self.writing.next().await {
            outcome?;
            self.written += 1;
        }
        Ok(())
    }

    /// Returns the lease in this engine that replaces one of the backup, or `None` if that has
    /// expired, so that its keys are gone.
    async fn lease(&mut self, lease: LeaseId) -> Result<Option<LeaseId>, IntoEngineError> {
        if lease == LeaseId::default() {
            return Ok(Some(lease));
        }
        if let Some(granted) = self.granted.get(&lease) {
            return Ok(Some(*granted));
        }
        let left = self.leases.get(&lease).and_then(|exported| {
            let left = exported.deadline.duration_since(SystemTime::now());
            left.ok().filter(|left| !left.is_zero())
        });
        let Some(left) = left else {
            return Ok(None);
        };
        let granted = self.engine.grant(left.max(Duration::from_secs(1))).await?;
        self.granted.insert(lease, granted.id);
        Ok(Some(granted.id))
    }

    /// Waits for the last writes. Returns the number of written keys, and the engine's revision.
    ///
    /// # Errors
    /// [`IntoEngineError`]
    pub async fn finish(mut self) -> Result<(u64, Revision), IntoEngineError> {
        while !self.writing.is_empty() {
            self.one_is_written().await?;
        }
        let position = self.engine.current(&Prefix::new("")).await?;
        Ok((self.written, position.revision))
    }
}

fn decoded(revision: Revision, bytes: &[u8]) -> Result<Record<'_>, IntoEngineError> {
    Record::decode(revision, bytes).map_err(|error| IntoEngineError::Damaged(revision, error))
}
