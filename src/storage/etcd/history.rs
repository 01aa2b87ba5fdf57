//! Reads chunks of history by a watch that starts in the past.

use std::time::Duration;

use actors::engine::{EngineError, Event, HistoryChunk, HistoryRequest, Prefix, Revision};
use bytes::Bytes;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::etcd_watch::WatchMessage;
use super::idle_watches::HistoryWatch;

/// How often etcd is asked whether it has sent everything. It does not answer before.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(20);
/// After this time a chunk is passed on as far as it has come.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);

impl Cluster {
    /// See [`actors::engine::DataEngine::history`].
    pub(super) async fn history(
        &self,
        request: HistoryRequest,
    ) -> Result<HistoryChunk, EngineError> {
        self.check_after(request.after)?;
        let current = match request.until > self.state.revision() {
            true => self.current_revision.read().await?,
            false => self.state.revision(),
        };
        let until = request.until.min(current).max(request.after);
        if request.after == until {
            return Ok(HistoryChunk {
                events: Vec::new(),
                reached: until,
            });
        }
        let idle = self.idle_watches.take(&request, self.state.epoch());
        let idle = idle.filter(|idle| idle.watch.supports_progress() == idle.asks_progress);
        if let Some(watch) = idle
            && let Ok(chunk) = self.read_chunk(&request, until, watch).await
        {
            return Ok(chunk);
        }
        // A kept watch may have broken meanwhile.
        let watch = self.open_history_watch(&request).await?;
        self.read_chunk(&request, until, watch).await
    }

    async fn read_chunk(
        &self,
        request: &HistoryRequest,
        until: Revision,
        mut watch: HistoryWatch,
    ) -> Result<HistoryChunk, EngineError> {
        let mut partial = PartialChunk::new(request, until);
        partial.take(std::mem::take(&mut watch.ahead))?;
        fill(&mut partial, &mut watch).await?;
        let (chunk, ahead) = partial.finish();
        if chunk.reached < request.until {
            watch.ahead = ahead;
            self.idle_watches
                .keep(&request.prefix, chunk.reached, watch);
        }
        Ok(chunk)
    }

    async fn open_history_watch(
        &self,
        request: &HistoryRequest,
    ) -> Result<HistoryWatch, EngineError> {
        loop {
            let current = self.servers.current();
            let asks_progress =
                current.is_some_and(|(_, member)| member.progress_support.get() == Some(true));
            let watched = match asks_progress {
                true => request.prefix.clone(),
                false => Prefix::new(""),
            };
            let watch = self.watch(&watched, request.after).await?;
            // Calls may have switched to another member meanwhile.
            if watch.supports_progress() == asks_progress {
                return Ok(HistoryWatch {
                    watch,
                    asks_progress,
                    ahead: Vec::new(),
                });
            }
        }
    }
}

/// Reads until the chunk is complete, or for as long as a reader may wait.
async fn fill(partial: &mut PartialChunk<'_>, watch: &mut HistoryWatch) -> Result<(), EngineError> {
    let deadline = Instant::now() + CHUNK_TIMEOUT;
    let mut next_request = Instant::now();
    while !partial.is_complete() {
        if watch.asks_progress && Instant::now() >= next_request {
            watch.watch.request_progress().await?;
            next_request = Instant::now() + PROGRESS_INTERVAL;
        }
        let wake = match watch.asks_progress {
            true => next_request.min(deadline),
            false => deadline,
        };
        tokio::select! {
            message = watch.watch.next() => match message? {
                Some(WatchMessage::Events(events)) => partial.take(events)?,
                Some(WatchMessage::Progress(revision)) => partial.reach(revision),
                None => {}
            },
            () = tokio::time::sleep_until(wake) => {}
        }
        if Instant::now() >= deadline {
            return match partial.has_progress() {
                true => Ok(()),
                false => Err(EngineError::Unavailable(
                    "etcd did not deliver the past in time".to_owned(),
                )),
            };
        }
    }
    Ok(())
}

/// A chunk of history while it is read. Pure.
struct PartialChunk<'r> {
    request: &'r HistoryRequest,
    until: Revision,
    events: Vec<Event>,
    bytes: usize,
    /// Everything up to this revision was read.
    reached: Revision,
    is_full: bool,
    /// Events after the chunk.
    ahead: Vec<Event>,
}

impl<'r> PartialChunk<'r> {
    fn new(request: &'r HistoryRequest, until: Revision) -> PartialChunk<'r> {
        PartialChunk {
            request,
            until,
            events: Vec::new(),
            bytes: 0,
            reached: request.after,
            is_full: false,
            ahead: Vec::new(),
        }
    }

    /// Takes whole revisions in order.
    fn take(&mut self, events: Vec<Event>) -> Result<(), EngineError> {
        for event in events {
            if self.is_full || event.revision > self.until {
                self.reach(self.until);
                self.ahead.push(event);
                continue;
            }
            if self.bytes >= self.request.bytes_max && event.revision > self.reached {
                self.is_full = true;
                self.ahead.push(event);
                continue;
            }
            self.reached = event.revision;
            if !self.request.prefix.covers(&event.key) {
                continue;
            }
            if event.previous.is_none() && event.prev_revision != Revision::ZERO {
                // The previous value is compacted, and so is the history before it (WA-32).
                return Err(EngineError::Compacted {
                    requested: self.request.after,
                    compacted: event.revision,
                });
            }
            self.bytes += event.value.len() + event.previous.as_ref().map_or(0, Bytes::len);
            self.events.push(event);
        }
        Ok(())
    }

    fn reach(&mut self, revision: Revision) {
        if !self.is_full {
            self.reached = self.reached.max(revision.min(self.until));
        }
    }

    fn is_complete(&self) -> bool {
        self.is_full || self.reached >= self.until
    }

    /// Whether a reader of the next chunk makes progress.
    fn has_progress(&self) -> bool {
        self.reached > self.request.after
    }

    /// The chunk, and the events after it.
    fn finish(self) -> (HistoryChunk, Vec<Event>) {
        let chunk = HistoryChunk {
            events: self.events,
            reached: self.reached,
        };
        (chunk, self.ahead)
    }
}
