//! History read into the ring, once for all who resume there.
//!
//! A ring begins where its cache was filled. After a restart of the daemon, or of the Cacher, all
//! clients resume a little before that, each at the last revision or bookmark that it saw: read by
//! each for itself, the same piece of the log would be read, decoded and rendered thousands of
//! times. So the first of them reads it into the ring and the others find it there.
//!
//! What is further back than [`REVISIONS_MAX`], larger than a part of the ring, or not read
//! within [`WITHIN`], is left to history (docs/design.md 4): one client that was away
//! for long must neither fill the ring nor hold up the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::handle::CacherHandle;
use crate::engine::{DataEngine, EngineError, Event, EventKind, HistoryRequest, Key, Revision};
use crate::object::{CachedObject, Decode};
use crate::ring::Change;
use crate::snapshot::Snapshot;

/// Revisions of the whole store that are looked at for one backfill.
const REVISIONS_MAX: u64 = 1 << 16;

/// Others wait for so long at most, whatever lies between in the log.
const WITHIN: Duration = Duration::from_secs(1);

/// Bytes of values read from the engine at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// What is known of backfills of one resource.
#[derive(Debug, Default)]
pub(crate) struct Backfill {
    /// In this generation of the ring there is no reaching back to this revision.
    out_of_reach: Option<(u64, Revision)>,
}

/// A ring's beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    pub(crate) generation: u64,
    pub(crate) floor: Revision,
    /// What may be put before it.
    pub(crate) bytes_max: usize,
}

impl CacherHandle {
    /// Sees to it, if that can be done cheaply, that the ring reaches back to this revision. Who
    /// asks meanwhile waits. Look at [`CacherHandle::ring_floor`] afterwards.
    pub async fn backfill(&self, engine: &dyn DataEngine, decode: &dyn Decode, after: Revision) {
        if !self.may_reach(after) {
            return;
        }
        let mut backfill = self.shared.backfill.lock().await;
        let Some(beginning) = self.shared.beginning() else {
            return;
        };
        let hopeless = backfill.out_of_reach.is_some_and(|(generation, up_to)| {
            generation == beginning.generation && after <= up_to
        });
        if hopeless || after >= beginning.floor {
            return;
        }
        let taken = match self.read(engine, decode, after, beginning).await {
            Ok(Some(changes)) => {
                let events = changes.len();
                let taken = self.shared.prepend(beginning, after, changes);
                if taken {
                    self.shared.backfilled.increment(events as u64);
                }
                taken
            }
            Ok(None) => false,
            // The next one may try again. Whoever can't be served from the ring reads history,
            // and is told there what is wrong.
            Err(_) => return,
        };
        if !taken {
            backfill.out_of_reach = Some((beginning.generation, after));
        }
    }

    fn may_reach(&self, after: Revision) -> bool {
        self.shared.beginning().is_some_and(|beginning| {
            after < beginning.floor && beginning.floor.0 - after.0 <= REVISIONS_MAX
        })
    }

    /// All changes after a revision up to the ring's beginning; `None` when they are too large or
    /// take too long, or one of them can't be read.
    async fn read(
        &self,
        engine: &dyn DataEngine,
        decode: &dyn Decode,
        after: Revision,
        beginning: Beginning,
    ) -> Result<Option<Vec<(Revision, Change)>>, EngineError> {
        let Some(snapshot) = self.snapshot() else {
            return Ok(None);
        };
        let mut decoded = Decoded {
            decode,
            snapshot,
            // After the snapshot: what is replaced meanwhile is in one of the two.
            replaced: self.shared.replaced_since(beginning.floor),
            newest: HashMap::new(),
        };
        let mut changes = Vec::new();
        let (mut reached, mut bytes) = (after, 0);
        let deadline = Instant::now() + WITHIN;
        while reached < beginning.floor {
            let request = HistoryRequest {
                prefix: self.shared.prefix.clone(),
                after: reached,
                until: beginning.floor,
                bytes_max: CHUNK_BYTES,
            };
            let chunk = engine.history(request).await?;
            for event in &chunk.events {
                bytes += event.value.len() + event.previous.as_ref().map_or(0, |v| v.len());
                let Some(change) = decoded.change(event) else {
                    return Ok(None);
                };
                changes.push((event.revision, change));
            }
            let is_too_much = bytes > beginning.bytes_max || Instant::now() >= deadline;
            if is_too_much || chunk.reached <= reached {
                return Ok(None);
            }
            reached = chunk.reached;
        }
        Ok(Some(changes))
    }
}

/// Objects of a backfill, each decoded once, those of the cache and the ring not even that: a
/// ring counts what its events replaced, and a copy of it would be counted by nobody.
struct Decoded<'d> {
    decode: &'d dyn Decode,
    snapshot: Arc<Snapshot>,
    /// What the ring's events replaced of the state that it began with.
    replaced: HashMap<Key, Arc<CachedObject>>,
    newest: HashMap<Key, Arc<CachedObject>>,
}

impl Decoded<'_> {
    fn change(&mut self, event: &Event) -> Option<Change> {
        let previous = match self.newest.remove(&event.key) {
            Some(object) => Some(object),
            None if event.prev_revision == Revision::ZERO => None,
            None => {
                let value = event.previous.as_ref()?;
                Some(self.object(&event.key, event.prev_revision, value)?)
            }
        };
        let current = match event.kind {
            EventKind::Put => Some(self.object(&event.key, event.revision, &event.value)?),
            EventKind::Delete => None,
        };
        if let Some(current) = &current {
            self.newest.insert(event.key.clone(), Arc::clone(current));
        }
        Some(Change {
            key: event.key.clone(),
            current,
            previous,
        })
    }

    fn object(
        &self,
        key: &Key,
        revision: Revision,
        value: &bytes::Bytes,
    ) -> Option<Arc<CachedObject>> {
        let known = [self.snapshot.get(key), self.replaced.get(key)];
        match known
            .into_iter()
            .flatten()
            .find(|known| known.revision == revision)
        {
            Some(known) => Some(Arc::clone(known)),
            None => Some(Arc::new(self.decode.decode(key, revision, value).ok()?)),
        }
    }
}
