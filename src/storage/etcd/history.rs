//! Pieces of the past, read by a watch that begins there. etcd looks through everything from there
//! to the present for each watch that begins in the past: the watch of a piece is kept for a
//! moment, for whoever wants the next one.

use std::time::Duration;

use actors::engine::{EngineError, Event, HistoryChunk, HistoryRequest, Prefix, Revision};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Shared;
use super::stream::{Message, Stream};

/// How often etcd is asked whether it has sent everything; it does not answer before.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// A piece is handed on as far as it has come by then.
const WITHIN: Duration = Duration::from_secs(10);
/// Watches kept for the next piece, and for how long.
const PARKED_MAX: usize = 8;
const PARKED_FOR: Duration = Duration::from_secs(3);

/// Watches of the past between two pieces.
#[derive(Default)]
pub(super) struct Parked(Mutex<Vec<Place>>);

/// A watch that has been read up to the end of a piece.
struct Place {
    prefix: Prefix,
    reached: Revision,
    since: Instant,
    past: Past,
}

/// A watch of the past.
struct Past {
    stream: Stream,
    /// Whether it is of the prefix and can be asked how far it is. Where it can't, it is of the
    /// whole store, for only an event behind the last one wanted tells: every revision has one.
    believes: bool,
    /// What it has said beyond the piece.
    ahead: Vec<Event>,
}

impl Parked {
    fn take(&self, request: &HistoryRequest, lineage: u64) -> Option<Past> {
        self.sweep();
        let mut places = self.0.lock();
        let found = places.iter().position(|place| {
            place.reached == request.after
                && place.prefix == request.prefix
                && place.past.stream.lineage() == lineage
        })?;
        Some(places.swap_remove(found).past)
    }

    fn park(&self, prefix: &Prefix, reached: Revision, past: Past) {
        let mut places = self.0.lock();
        if places.len() >= PARKED_MAX {
            places.remove(0);
        }
        places.push(Place {
            prefix: prefix.clone(),
            reached,
            since: Instant::now(),
            past,
        });
    }

    /// Ends what nobody came back for.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        let is_wanted = |place: &Place| now.duration_since(place.since) < PARKED_FOR;
        self.0.lock().retain(is_wanted);
    }
}

impl Shared {
    /// See [`actors::engine::DataEngine::history`].
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
        let parked = self.parked.take(&request, self.seen.lineage());
        let parked = parked.filter(|past| past.stream.believes(self) == past.believes);
        if let Some(past) = parked
            && let Ok(chunk) = self.piece(&request, until, past).await
        {
            return Ok(chunk);
        }
        // A watch that was kept may have died meanwhile.
        let past = self.open_past(&request).await?;
        self.piece(&request, until, past).await
    }

    async fn piece(
        &self,
        request: &HistoryRequest,
        until: Revision,
        mut past: Past,
    ) -> Result<HistoryChunk, EngineError> {
        let mut piece = Piece::new(request, until);
        piece.take(std::mem::take(&mut past.ahead))?;
        self.fill(&mut piece, &mut past).await?;
        let (chunk, ahead) = piece.done();
        if chunk.reached < request.until {
            past.ahead = ahead;
            self.parked.park(&request.prefix, chunk.reached, past);
        }
        Ok(chunk)
    }

    /// Reads until the piece is complete, or for as long as somebody can be made to wait.
    async fn fill(&self, piece: &mut Piece<'_>, past: &mut Past) -> Result<(), EngineError> {
        let deadline = Instant::now() + WITHIN;
        let mut next_look = Instant::now();
        while !piece.is_complete() {
            if past.believes && Instant::now() >= next_look {
                past.stream.request_progress().await?;
                next_look = Instant::now() + ASK_EVERY;
            }
            let look = match past.believes {
                true => next_look.min(deadline),
                false => deadline,
            };
            tokio::select! {
                message = past.stream.next(self) => match message? {
                    Some(Message::Events(events)) => piece.take(events)?,
                    Some(Message::Progress(revision)) => piece.reach(revision),
                    None => {}
                },
                () = tokio::time::sleep_until(look) => {}
            }
            if Instant::now() >= deadline {
                return match piece.has_come_further() {
                    true => Ok(()),
                    false => Err(EngineError::Unavailable(
                        "etcd did not deliver the past in time".to_owned(),
                    )),
                };
            }
        }
        Ok(())
    }

    async fn open_past(&self, request: &HistoryRequest) -> Result<Past, EngineError> {
        loop {
            let current = self.servers.current();
            let believes = current.is_some_and(|(_, member)| member.truthful.get() == Some(true));
            let watched = match believes {
                true => request.prefix.clone(),
                false => Prefix::new(""),
            };
            let stream = self.open_stream(&watched, request.after).await?;
            // Another member may have been chosen meanwhile.
            if stream.believes(self) == believes {
                return Ok(Past {
                    stream,
                    believes,
                    ahead: Vec::new(),
                });
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
    /// What came behind the piece.
    ahead: Vec<Event>,
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

    fn is_complete(&self) -> bool {
        self.is_full || self.reached >= self.until
    }

    /// Whether whoever wants the next piece gets on.
    fn has_come_further(&self) -> bool {
        self.reached > self.request.after
    }

    /// The piece, and what came behind it.
    fn done(self) -> (HistoryChunk, Vec<Event>) {
        let chunk = HistoryChunk {
            events: self.events,
            reached: self.reached,
        };
        (chunk, self.ahead)
    }
}
