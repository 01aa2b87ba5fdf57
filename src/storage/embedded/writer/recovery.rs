//! Recovery: after a failure the process reopens the database until that works.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::engine::{EngineError, Event, Health, HistoryRequest, Prefix, Revision};

use super::batch::Unresolved;
use super::request::{WriterRequest, refuse};
use super::thread::{WriterThread, new_journal};
use crate::storage::embedded::disk::DataFile;
use crate::storage::embedded::error::{Failure, ReadError};
use crate::storage::embedded::metrics;
use crate::storage::embedded::readers::read_history;
use crate::storage::embedded::store::{Opened, Store};
use crate::storage::embedded::write_txn::Overlay;

/// The first pause between two attempts. Each pause is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(5);

/// A file system with less than this is full, however small the reserve is.
const LEAST_BYTES: u64 = 1 << 20;

impl WriterThread {
    /// Reopens the database and refuses requests meanwhile. Then answers a batch whose outcome was
    /// unknown. Returns when the database works or the engine closes.
    pub(super) fn recover(&mut self, failure: &Failure, mut unresolved: Option<Unresolved>) {
        let failure = &self.blamed(failure);
        tracing::error!(
            file = %self.state.file(),
            %failure,
            "storage failed: the database is being reopened"
        );
        self.abandon(failure);
        let deadline = Instant::now() + self.state.options.verdict_wait;
        let mut pause = PAUSE;
        let mut full = matches!(failure, Failure::NoSpace(_));
        while self.closing.is_none() {
            if full {
                self.disk_space.give_up_ballast();
            }
            match self.reopen() {
                Ok(revision) => {
                    metrics::reopened();
                    tracing::info!(
                        file = %self.state.file(),
                        %revision,
                        "storage works again: the database was reopened"
                    );
                    self.resolve(unresolved.take(), revision, failure);
                    return;
                }
                Err(failure) => {
                    let failure = self.blamed(&failure);
                    full = matches!(failure, Failure::NoSpace(_));
                    self.state.set_down(&failure);
                }
            }
            if Instant::now() >= deadline {
                give_up(unresolved.take(), &self.state.unavailable());
            }
            self.refuse_for(pause);
            pause = (pause * 2).min(self.state.options.reopen_pause_max);
        }
        give_up(unresolved, &EngineError::Closed);
    }

    /// Stops all use of the current database and keeps it from its file.
    fn abandon(&mut self, failure: &Failure) {
        self.state.set_down(failure);
        if let Some(store) = self.store.take() {
            store.fence().retire();
        }
        self.state.set_store(None);
        self.applier = None;
        self.overlay = Overlay::default();
        self.has_removed = false;
        self.journal = new_journal(&self.state);
    }

    /// The failure, or the full disk that caused it: after an error the database says only that it
    /// is closed.
    pub(super) fn blamed(&self, failure: &Failure) -> Failure {
        let least = self.state.options.reserve_bytes.max(LEAST_BYTES);
        let free = self.state.disk.free_bytes();
        match failure {
            Failure::Closed if free.is_ok_and(|free| free < least) => {
                Failure::NoSpace("the file system is full".to_owned())
            }
            other => other.clone(),
        }
    }

    fn reopen(&mut self) -> Result<Revision, Failure> {
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let (disk, options) = (&*self.state.disk, &self.state.options);
            let expected = Some(self.state.name);
            let (store, opened) = Store::open(disk, DataFile::Log, options, expected, None)?;
            let missed = self.missed(&store, &opened)?;
            Ok((store, opened, missed))
        }));
        let opened = opened.unwrap_or_else(|panic| Err(Failure::from_panic(&*panic)));
        let (store, opened, missed) = opened?;
        // The database is whole without the journal. A file whose sync failed is not used again.
        self.journal.remove()?;
        // The last step that can fail. After it the store is in use, and only `abandon` may end
        // that: a store that is merely dropped closes its database, which writes to the file that
        // the next attempt has opened.
        store.acknowledge(&self.state.name, opened.meta.totals.revision)?;
        let store = Arc::new(store);
        self.last_mark = opened.last_mark;
        self.scrubbed = opened.meta.scrubbed;
        self.marks_forgotten = Revision::ZERO;
        let uptime = (self.state.options.uptime)();
        self.leases.reload(&opened, uptime);
        self.store = Some(Arc::clone(&store));
        self.state.set_compacted(opened.meta.compacted);
        self.state.set_edition(opened.meta.edition);
        self.publish(&missed.into(), opened.meta.totals);
        self.state.set_store(Some(store));
        self.state.set_health(Health::Serving);
        Ok(opened.meta.totals.revision)
    }

    /// Events that are durable and were never published, because the end of their commit was not
    /// seen.
    fn missed(&self, store: &Store, opened: &Opened) -> Result<Vec<Event>, Failure> {
        let shown = self.state.positions.revision();
        let found = opened.meta.totals.revision;
        if found < shown || opened.meta.compacted < self.state.compacted() {
            return Err(Failure::Corrupt(format!(
                "the store has gone back to revision {found} (compacted {}) from {shown} \
                 (compacted {}), which were durable",
                opened.meta.compacted,
                self.state.compacted()
            )));
        }
        let mut request = HistoryRequest {
            prefix: Prefix::new(b""),
            after: shown,
            until: found,
            bytes_max: usize::MAX,
        };
        let mut events = Vec::new();
        while request.after < found {
            let chunk = read_history(store, &request, None).map_err(|error| match error {
                ReadError::Failure(failure) => failure,
                ReadError::Engine(error) => Failure::Corrupt(error.to_string()),
            })?;
            request.after = chunk.reached;
            events.extend(chunk.events);
        }
        Ok(events)
    }

    /// Answers a batch from the log, which holds all of its events or none.
    fn resolve(&mut self, unresolved: Option<Unresolved>, revision: Revision, failure: &Failure) {
        let Some(Unresolved { requests, attempt }) = unresolved else {
            return;
        };
        let last = attempt
            .events
            .last()
            .map_or(Revision::ZERO, |event| event.revision);
        if last > revision {
            // Nothing was written, and the disk works again. A retry may succeed now.
            let error = failure.to_undone_error(&self.state.file());
            for request in requests {
                request.answer(Err(error.clone()));
            }
            return;
        }
        // Its events were published when the database was reopened.
        self.answer_published(requests, attempt);
    }

    /// Refuses requests for a while.
    fn refuse_for(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        let error = self.state.unavailable();
        if let Some(request) = self.next_request_taken.take() {
            self.refuse_or_close(request, &error);
        }
        while self.closing.is_none()
            && let Ok(request) = self.requests.recv_deadline(until)
        {
            self.refuse_or_close(*request, &error);
        }
    }

    fn refuse_or_close(&mut self, request: WriterRequest, error: &EngineError) {
        match request {
            WriterRequest::Close(readers) => self.closing = Some(readers),
            other => refuse(other, error),
        }
    }
}

/// Answers that the outcome is unknown, because it cannot be determined in time.
fn give_up(unresolved: Option<Unresolved>, why: &EngineError) {
    for request in unresolved
        .into_iter()
        .flat_map(|unresolved| unresolved.requests)
    {
        request.answer(Err(EngineError::OutcomeUnknown(why.to_string())));
    }
}
