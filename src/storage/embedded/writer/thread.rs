//! The writer's thread: takes one request after another, and does due work while none comes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::engine::{EngineError, Event, Health, Revision};
use actors::watchdog::Pulse;
use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::leases::WriterLeases;
use super::request::{WriterRequest, refuse};
use crate::storage::embedded::applier::Applier;
use crate::storage::embedded::disk_space::DiskSpace;
use crate::storage::embedded::engine_state::EngineState;
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::journal::{Journal, JournalLimits};
use crate::storage::embedded::metrics;
use crate::storage::embedded::readers::ReaderPool;
use crate::storage::embedded::schema::{LastMark, Totals};
use crate::storage::embedded::store::{Opened, Store};
use crate::storage::embedded::write_txn::Overlay;

/// The name of the thread.
pub(super) const NAME: &str = "storage-write";

/// How soon unsynced removals are made durable while no request comes.
const SYNC_PENDING_AFTER: Duration = Duration::from_millis(100);
/// How often the disk space is checked while no request comes, and sizes are published.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A journal of a store that was just opened.
pub(super) fn new_journal(state: &EngineState) -> Journal {
    let limits = JournalLimits {
        file_bytes: state.options.journal_bytes,
        changed_bytes: state.options.checkpoint_bytes,
    };
    Journal::new(Arc::clone(&state.disk), state.name, limits)
}

/// The state that only this thread touches.
pub(super) struct WriterThread {
    pub(super) state: Arc<EngineState>,
    /// Boxed, because the channel allocates all its slots at the start.
    pub(super) requests: Receiver<Box<WriterRequest>>,
    /// A request taken from the queue that did not fit the batch before it.
    pub(super) next_request_taken: Option<WriterRequest>,
    pub(super) store: Option<Arc<Store>>,
    pub(super) last_mark: LastMark,
    /// Removal of compacted records has reached this revision.
    pub(super) scrubbed: Revision,
    /// Rows of the timeline are removed up to this revision since the store was opened.
    pub(super) marks_forgotten: Revision,
    /// Whether records were removed since the last checkpoint.
    pub(super) has_removed: bool,
    pub(super) journal: Journal,
    /// The changes that the journal has and redb lacks.
    pub(super) overlay: Overlay,
    /// Gives it to redb. It is started with the first batch.
    pub(super) applier: Option<Applier>,
    /// When the last checkpoint was made.
    pub(super) checkpointed: Instant,
    pub(super) disk_space: DiskSpace,
    pub(super) leases: WriterLeases,
    /// The failure to recover from before the next request.
    pub(super) failed: Option<Failure>,
    pub(super) closing: Option<Arc<ReaderPool>>,
    /// When revisions and sizes were last published as metrics.
    measured: Instant,
    pulse: Pulse,
}

impl WriterThread {
    pub(super) fn new(
        state: Arc<EngineState>,
        store: Arc<Store>,
        opened: Opened,
        requests: Receiver<Box<WriterRequest>>,
    ) -> WriterThread {
        let options = &state.options;
        let disk_space = DiskSpace::new(
            Arc::clone(&state.disk),
            options.reserve_bytes,
            options.ballast_bytes,
        );
        WriterThread {
            pulse: options.watchdog.pulse(NAME),
            requests,
            next_request_taken: None,
            store: Some(store),
            last_mark: opened.last_mark,
            scrubbed: opened.meta.scrubbed,
            marks_forgotten: Revision::ZERO,
            has_removed: false,
            journal: new_journal(&state),
            overlay: Overlay::default(),
            applier: None,
            checkpointed: Instant::now(),
            disk_space,
            leases: WriterLeases::new(&state.options, &opened),
            failed: None,
            closing: None,
            measured: Instant::now(),
            state,
        }
    }

    pub(super) fn run(mut self) {
        self.run_catching_panics(WriterThread::idle);
        while self.closing.is_none() {
            match self.next_request() {
                Ok(request) => self.run_catching_panics(|writer| writer.carry_out(request)),
                Err(RecvTimeoutError::Timeout) => self.run_catching_panics(WriterThread::idle),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some(failure) = self.failed.take() {
                self.recover(&failure, None);
            }
            // A writer that is never idle measures, too.
            if self.measured.elapsed() >= CHECK_EVERY {
                self.measure();
            }
        }
        self.finish();
    }

    pub(super) fn next_request(&mut self) -> Result<WriterRequest, RecvTimeoutError> {
        if let Some(request) = self.next_request_taken.take() {
            return Ok(request);
        }
        self.requests
            .recv_timeout(if self.journal.has_carried() {
                SYNC_PENDING_AFTER
            } else {
                CHECK_EVERY
            })
            .map(|request| *request)
    }

    /// Catches a panic, so that the thread survives. The caller of this request learns that the
    /// outcome is unknown, and the database is reopened.
    pub(super) fn run_catching_panics(&mut self, work: impl FnOnce(&mut WriterThread)) {
        let pulse = self.pulse.clone();
        let done = catch_unwind(AssertUnwindSafe(|| {
            let _turn = pulse.turn();
            work(self)
        }));
        if let Err(panic) = done {
            self.failed = Some(Failure::from_panic(&*panic));
        }
    }

    pub(super) fn carry_out(&mut self, request: WriterRequest) {
        match request {
            WriterRequest::Commit(first) => self.commit(first),
            WriterRequest::Compact(up_to, reply) => {
                let result = self.compact(up_to);
                reply.send(result);
            }
            WriterRequest::NoteEdition(as_of, reply) => {
                let result = self.note_edition(as_of);
                reply.send(result);
            }
            WriterRequest::Scrub(reply) => {
                let result = self.scrub();
                reply.send(result);
            }
            WriterRequest::Lease(request) => self.carry_out_lease(request),
            WriterRequest::Promote(defrag, maintenance, reply) => {
                let result = self.promote(defrag);
                reply.send(result.map(|promotion| (promotion, maintenance)));
            }
            WriterRequest::Alarm(store, failure) => {
                let current = self
                    .store
                    .as_ref()
                    .is_some_and(|own| Arc::ptr_eq(own, &store));
                drop(store);
                if current {
                    self.recover(&failure, None);
                }
            }
            WriterRequest::Close(readers) => self.closing = Some(readers),
        }
    }

    /// No request waits: syncs removals, keeps the ballast file, checks disk and clock, and
    /// publishes metrics.
    pub(super) fn idle(&mut self) {
        if let Some(failure) = self.apply_failure() {
            self.failed = Some(failure);
            return;
        }
        if let Some(store) = &self.store {
            self.overlay.forget_applied(store.unapplied().applied());
        }
        self.sync_pending();
        self.checkpoint_when_idle();
        let now = Instant::now();
        self.disk_space.keep_ballast(now);
        self.check_disk_space(now);
        self.check_clock();
        self.measure();
    }

    /// Publishes revisions and sizes as metrics.
    fn measure(&mut self) {
        self.measured = Instant::now();
        metrics::sizes(
            self.state.totals(),
            self.state.compacted(),
            self.state.measure_file(),
        );
        metrics::leases(self.leases.len());
    }

    /// Checks the disk space and updates the health. Returns why creates and updates are refused.
    pub(super) fn check_disk_space(&mut self, now: Instant) -> Option<String> {
        let shortage = self.disk_space.shortage(now);
        let health = match &shortage {
            Some(why) => Health::ReadOnly(why.clone()),
            None => Health::Serving,
        };
        if self.state.health() != health && self.store.is_some() {
            match &health {
                Health::ReadOnly(why) => {
                    tracing::warn!(%why, "storage refuses creates and updates")
                }
                _ => tracing::info!("storage takes writes again"),
            }
            self.state.set_health(health);
        }
        shortage
    }

    /// Why the applier gave up.
    pub(super) fn apply_failure(&self) -> Option<Failure> {
        let store = self.store.as_ref();
        let failure = store.and_then(|store| store.unapplied().failure());
        failure.map(|failure| self.explain(failure))
    }

    /// The failure with the damage that it comes from.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match &self.store {
            Some(store) => store.explain(failure),
            None => failure,
        }
    }

    /// The database, or an error while there is none.
    pub(super) fn store(&self) -> Result<Arc<Store>, Failure> {
        self.store.clone().ok_or(Failure::Closed)
    }

    /// Publishes durable events, first to positions, then to feeds. Answers come later.
    pub(super) fn publish(&mut self, events: &Arc<[Event]>, totals: Totals) {
        self.state.positions.publish(events);
        self.state.set_totals(totals);
        self.state.tail.publish(events);
    }

    /// Stops the readers, refuses what waits, and closes the file.
    pub(super) fn finish(mut self) {
        self.state.set_closed();
        self.state.tail.close();
        if let Some(readers) = self.closing.take() {
            readers.stop();
        }
        for request in self.requests.try_iter() {
            refuse(*request, &EngineError::Closed);
        }
        self.store_lease_time();
        if let Ok(store) = self.store() {
            // `run_guarded` logs nothing, and the journal keeps what redb could not. Closing the
            // database must not make a part of it durable.
            if self
                .run_guarded(|writer| writer.end_journal(&store))
                .is_err()
            {
                store.fence().retire();
            }
        }
        self.state.set_store(None);
        self.applier = None;
        // The database closes its file here, unless a reader outlives its thread.
        drop(self.store.take());
        self.state.disk.release();
    }
}
