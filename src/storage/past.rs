//! Finds the revision that a store had at a time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actors::engine::{Engine, EngineError, Event, HistoryRequest, Prefix, Retention, Revision};

use crate::clock;

/// The bytes of values that are read at a time.
const CHUNK_BYTES: usize = 1024 * 1024;

/// The reason why no revision is known for a time.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The engine does not keep times.
    #[error(
        "the objects are in an etcd, which does not record when they were changed; name a revision"
    )]
    NoTimes,
    /// The time is before the retained history.
    #[error("history begins at {begin}, with revision {revision}; what was before is forgotten")]
    TooEarly {
        /// The time of the first retained change.
        begin: String,
        /// Its revision.
        revision: Revision,
    },
    /// The engine can't be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A store whose history can be read.
#[derive(Clone)]
pub struct Past(Arc<dyn Engine>);

impl Past {
    /// The past of a store.
    pub fn new(engine: Arc<dyn Engine>) -> Past {
        Past(engine)
    }

    /// Returns the newest revision at a time, by the times of events.
    ///
    /// # Errors
    /// [`PastError`]
    pub async fn revision_at(&self, time: SystemTime) -> Result<Revision, PastError> {
        let engine = &self.0;
        if !engine.knows_origins() {
            return Err(PastError::NoTimes);
        }
        // Retention knows a revision shortly before that time.
        let now = clock::system_time().max(time);
        let retention = Retention {
            age: now.duration_since(time).unwrap_or(Duration::ZERO),
            bytes: u64::MAX,
        };
        let compacted = engine.compacted();
        let mut found = engine.horizon(retention, now).await?.max(compacted);
        loop {
            let request = HistoryRequest {
                prefix: Prefix::new(""),
                after: found,
                until: Revision(u64::MAX),
                bytes_max: CHUNK_BYTES,
            };
            let chunk = engine.history(request).await?;
            for event in &chunk.events {
                if event.time > time {
                    return known(found, compacted, event);
                }
                found = event.revision;
            }
            if chunk.events.is_empty() {
                return Ok(found.max(chunk.reached));
            }
        }
    }
}

/// Returns the revision, if history shows that it was the newest one.
fn known(found: Revision, compacted: Revision, next: &Event) -> Result<Revision, PastError> {
    if found > compacted {
        return Ok(found);
    }
    let begin = jiff::Timestamp::try_from(next.time);
    Err(PastError::TooEarly {
        begin: begin.map_or_else(|_| "an unknown time".to_owned(), |begin| begin.to_string()),
        revision: next.revision,
    })
}
