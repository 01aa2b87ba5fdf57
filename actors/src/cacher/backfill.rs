//! Reads history into the ring, once for all watches that resume shortly before its beginning.
//!
//! A ring begins where its cache was filled. After a restart of the daemon or of the Cacher, all
//! clients resume a little before that, each at the last revision or bookmark that it saw. Without
//! a backfill each of them would read, decode and render the same piece of the log. The first one
//! reads it into the ring, and the others find it there.
//!
//! How far back a watch resumes does not matter to the embedded engine: it finds the events of a
//! quiet resource however many events of others lie between. A watch reads history by itself
//! (docs/design.md 4) if the events are larger than a part of the ring, or if they can't be read
//! within [`WITHIN`], as from an etcd that is slow or far ahead. A client of a busy resource that
//! was away for long must neither fill the ring nor delay others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::handle::CacherHandle;
use super::watch_cache::RingBeginning;
use crate::engine::{DataEngine, EngineError, Event, EventKind, HistoryRequest, Key, Revision};
use crate::object::{CachedObject, Decode};
use crate::ring::ObjectChange;
use crate::snapshot::Snapshot;

/// How long a backfill may take, because other watches wait for it.
const WITHIN: Duration = Duration::from_secs(1);

/// Bytes of values read from the engine at a time.
const CHUNK_BYTES: usize = 256 << 10;

impl CacherHandle {
    /// Extends the ring back to this revision if that is cheap. Concurrent callers wait. Check
    /// [`CacherHandle::ring_floor`] afterwards.
    pub async fn backfill(&self, engine: &dyn DataEngine, decode: &dyn Decode, after: Revision) {
        if after >= self.ring_floor() {
            return;
        }
        let mut backfill = self.watch_cache.backfill.lock().await;
        let Some(beginning) = self.watch_cache.ring_beginning() else {
            return;
        };
        let is_out_of_reach = backfill.out_of_reach.is_some_and(|(generation, up_to)| {
            generation == beginning.generation && after <= up_to
        });
        if is_out_of_reach || after >= beginning.floor {
            return;
        }
        let read = self.read(engine, decode, after, beginning);
        let taken = match tokio::time::timeout(WITHIN, read).await {
            Ok(Ok(Some(changes))) => {
                let events = changes.len();
                let taken = self.watch_cache.prepend(beginning, after, changes);
                if taken {
                    self.watch_cache.backfilled.increment(events as u64);
                }
                taken
            }
            // A watch that the ring can't serve reads history, and gets an error there.
            Ok(Ok(None) | Err(_)) | Err(_) => false,
        };
        if !taken {
            // Half of the way may be short enough. So all attempts together are few, whatever
            // positions the callers have.
            let half = Revision(after.0.midpoint(beginning.floor.0));
            backfill.out_of_reach = Some((beginning.generation, half));
        }
    }

    /// All changes after a revision up to the ring's beginning; `None` if they are too large, or
    /// one of them can't be decoded.
    async fn read(
        &self,
        engine: &dyn DataEngine,
        decode: &dyn Decode,
        after: Revision,
        beginning: RingBeginning,
    ) -> Result<Option<Vec<(Revision, ObjectChange)>>, EngineError> {
        let Some(snapshot) = self.snapshot() else {
            return Ok(None);
        };
        let mut decoded = Decoded {
            decode,
            snapshot,
            // Taken after the snapshot: an object replaced meanwhile is in one of the two.
            replaced: self.watch_cache.replaced_since(beginning.floor),
            newest: HashMap::new(),
        };
        let mut changes = Vec::new();
        let (mut reached, mut bytes) = (after, 0);
        while reached < beginning.floor {
            let request = HistoryRequest {
                prefix: self.watch_cache.prefix.clone(),
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
            if bytes > beginning.bytes_max || chunk.reached <= reached {
                return Ok(None);
            }
            reached = chunk.reached;
        }
        Ok(Some(changes))
    }
}

/// The objects of a backfill. Each is decoded once. Objects that the cache or the ring holds are
/// shared, because the bytes of a copy would not be counted.
struct Decoded<'d> {
    decode: &'d dyn Decode,
    snapshot: Arc<Snapshot>,
    /// The objects at the ring's beginning that its events have replaced.
    replaced: HashMap<Key, Arc<CachedObject>>,
    newest: HashMap<Key, Arc<CachedObject>>,
}

impl Decoded<'_> {
    fn change(&mut self, event: &Event) -> Option<ObjectChange> {
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
        Some(ObjectChange { current, previous })
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
