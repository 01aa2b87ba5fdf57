//! Pieces of the past, read by a watch that begins there and ends when it is answered.

use std::time::Duration;

use actors::engine::{EngineError, Event, HistoryChunk, HistoryRequest, Prefix, Revision};
use bytes::Bytes;
use tokio::time::Instant;

use super::Shared;
use super::stream::{Message, Stream};

/// How often etcd is asked whether it has sent everything; it does not answer before.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// A piece that takes longer will not come.
const WITHIN: Duration = Duration::from_secs(10);

impl Shared {
    /// See [`actors::engine::Engine::history`].
    pub(super) async fn read_history(
        &self,
        request: HistoryRequest,
    ) -> Result<HistoryChunk, EngineError> {
        self.check_after(request.after)?;
        let newest = match request.until > self.seen.revision() {
            true => self.newest().await?,
            false => self.seen.revision(),
        };
        let until = request.until.min(newest).max(request.after);
        if request.after == until {
            return Ok(HistoryChunk {
                events: Vec::new(),
                reached: until,
            });
        }
        let (mut stream, believes) = self.open_past(&request).await?;
        let deadline = Instant::now() + WITHIN;
        let mut piece = Piece::new(&request, until);
        loop {
            let look = (Instant::now() + ASK_EVERY).min(deadline);
            if believes {
                stream.request_progress().await?;
            }
            tokio::select! {
                message = stream.next(self) => match message? {
                    Message::Events(events) => piece.take(events)?,
                    Message::Progress(revision) => piece.reach(revision),
                },
                () = tokio::time::sleep_until(look) => {}
            }
            if let Some(chunk) = piece.done() {
                return Ok(chunk);
            }
            if Instant::now() >= deadline {
                let text = "etcd did not deliver the past in time".to_owned();
                return Err(EngineError::Unavailable(text));
            }
        }
    }
}

impl Shared {
    /// A watch of what is asked for, and whether it can be asked how far it is. Where it can't,
    /// only an event behind the last one wanted tells: every revision has one, somewhere in the
    /// store.
    async fn open_past(&self, request: &HistoryRequest) -> Result<(Stream, bool), EngineError> {
        loop {
            let current = self.servers.current();
            let believes = current.is_some_and(|(_, member)| member.truthful.get() == Some(true));
            let watched = match believes {
                true => request.prefix.clone(),
                false => Prefix::new(""),
            };
            let stream = self.open_stream(&watched, request.after).await?;
            // Another member may have been chosen meanwhile.
            if stream.believes() == believes {
                return Ok((stream, believes));
            }
        }
    }
}

/// A piece of history while it fills. Pure.
struct Piece<'r> {
    request: &'r HistoryRequest,
    until: Revision,
    events: Vec<Event>,
    bytes: usize,
    /// Everything up to here has been looked at.
    reached: Revision,
    is_full: bool,
}

impl<'r> Piece<'r> {
    fn new(request: &'r HistoryRequest, until: Revision) -> Piece<'r> {
        Piece {
            request,
            until,
            events: Vec::new(),
            bytes: 0,
            reached: request.after,
            is_full: false,
        }
    }

    /// Takes whole revisions in order.
    fn take(&mut self, events: Vec<Event>) -> Result<(), EngineError> {
        for event in events {
            if event.revision > self.until {
                self.reach(self.until);
                return Ok(());
            }
            if self.bytes >= self.request.bytes_max && event.revision > self.reached {
                self.is_full = true;
                return Ok(());
            }
            self.reached = event.revision;
            if !self.request.prefix.covers(&event.key) {
                continue;
            }
            if event.previous.is_none() && event.prev_revision != Revision::ZERO {
                // The value before it is gone: so is the history before it (WA-32).
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

    fn done(&mut self) -> Option<HistoryChunk> {
        let is_done = self.is_full || self.reached >= self.until;
        is_done.then(|| HistoryChunk {
            events: std::mem::take(&mut self.events),
            reached: self.reached,
        })
    }
}
