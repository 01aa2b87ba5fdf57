//! The history of one object: its state at a revision, and its changes.

use std::sync::Arc;
use std::time::Instant;

use actors::engine::{
    At, EngineError, Event, EventKind, HistoryRequest as Chunk, Key, KeyValue, Origin, Prefix,
    Revision,
};
use actors::object::CachedObject;

use super::Underlying;
use crate::storage::history::{
    ChangeKind, HistoryRequest, HistorySpan, ObjectChange, ObjectHistory,
};
use crate::storage::{StorageError, StorageErrorKind};

/// The bytes of values in one part of history. A history whose client does not read it takes this
/// much memory.
const PIECE_BYTES: usize = 64 * 1024;
/// The most pieces of the store's history that are read for one piece of the object's.
const CHUNKS_MAX: usize = 16;

impl Underlying {
    /// The object as it was at a revision.
    pub(super) async fn object_at(
        &self,
        key: String,
        revision: Revision,
    ) -> Result<Option<Arc<CachedObject>>, StorageError> {
        let key = self.keys.object(&key)?;
        let answer = self.fetch(&key, At::Revision(revision)).await?;
        answer.item.map(|item| self.object_of(&item)).transpose()
    }

    /// A piece of the object's history.
    pub(super) async fn object_history(
        &self,
        request: HistoryRequest,
    ) -> Result<ObjectHistory, StorageError> {
        let key = self.keys.object(&request.key)?;
        let mut changes = Vec::new();
        let mut span = match request.span {
            Some(span) => span,
            None => self.beginning(&key, &mut changes).await?,
        };
        for _ in 0..CHUNKS_MAX {
            if span.after >= span.until || !changes.is_empty() {
                break;
            }
            span.after = self.piece(&key, span, &mut changes).await?;
        }
        let rest = (span.after < span.until).then_some(span);
        Ok(ObjectHistory { changes, rest })
    }

    /// Reads the state of the object before the retained history.
    async fn beginning(
        &self,
        key: &Key,
        changes: &mut Vec<ObjectChange>,
    ) -> Result<HistorySpan, StorageError> {
        let until = self.position(&Prefix::new(key.as_bytes())).await?.revision;
        let mut after = self.engine.compacted();
        // It may be compacted in the meantime, and an etcd may be further than this daemon knows.
        for _ in 0..2 {
            let compacted = match self.probe(key, after).await {
                Err(EngineError::Compacted { compacted, .. }) => compacted,
                probed => {
                    let item = probed.map_err(|error| self.engine_fault(&key.to_text(), error))?;
                    changes.extend(item.map(|item| self.earlier(&item)));
                    return Ok(HistorySpan { after, until });
                }
            };
            after = compacted;
        }
        Err(self.fault(
            &key.to_text(),
            StorageErrorKind::Unavailable("history is being compacted".to_owned(), 1),
        ))
    }

    /// The value at the beginning of history.
    async fn probe(&self, key: &Key, at: Revision) -> Result<Option<KeyValue>, EngineError> {
        if at == Revision::ZERO {
            // Nothing was compacted, as far as is known.
            let chunk = self.engine.history(self.chunk(key, at, at.next()));
            return chunk.await.map(|_| None);
        }
        let answer = self.engine.get(key.clone(), At::Revision(at)).await?;
        Ok(answer.item)
    }

    fn chunk(&self, key: &Key, after: Revision, until: Revision) -> Chunk {
        Chunk {
            prefix: Prefix::new(key.as_bytes()),
            after,
            until,
            bytes_max: PIECE_BYTES,
        }
    }

    /// Reads one chunk of the engine's history. Returns how far it reaches.
    async fn piece(
        &self,
        key: &Key,
        span: HistorySpan,
        changes: &mut Vec<ObjectChange>,
    ) -> Result<Revision, StorageError> {
        let started = Instant::now();
        let chunk = self.chunk(key, span.after, span.until);
        let answer = self.engine.history(chunk).await;
        self.metrics.request("history", started, answer.is_ok());
        let chunk = answer.map_err(|error| self.engine_fault(&key.to_text(), error))?;
        // Longer keys have this one as a prefix.
        let own = chunk.events.iter().filter(|event| event.key == *key);
        changes.extend(own.map(|event| self.change(event)));
        Ok(chunk.reached)
    }

    fn earlier(&self, item: &KeyValue) -> ObjectChange {
        ObjectChange {
            revision: item.revision,
            kind: ChangeKind::Earlier,
            time: None,
            origin: Origin::default(),
            object: Some(self.shown(item)),
        }
    }

    fn change(&self, event: &Event) -> ObjectChange {
        let knows = self.engine.knows_origins();
        let kind = match event.kind {
            EventKind::Delete => ChangeKind::Deleted,
            EventKind::Put if event.create_revision == event.revision => ChangeKind::Added,
            EventKind::Put => ChangeKind::Modified,
        };
        ObjectChange {
            revision: event.revision,
            kind,
            time: knows.then_some(event.time),
            origin: event.origin.clone(),
            object: (kind != ChangeKind::Deleted).then(|| self.shown(&event.key_value())),
        }
    }

    fn shown(&self, item: &KeyValue) -> Result<Arc<CachedObject>, String> {
        self.object_of(item).map_err(|error| error.to_string())
    }
}
