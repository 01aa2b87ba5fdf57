//! After a failure: the database is opened anew in the process, until that works.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::engine::{EngineError, Event, Health, HistoryRequest, Prefix, Revision};

use super::batch::Unresolved;
use super::{Desk, Order, refuse};
use crate::storage::embedded::disk::DataFile;
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::metrics;
use crate::storage::embedded::readers::{ReadError, panic_text, read_history};
use crate::storage::embedded::store::{Opened, Store};

/// The first pause between two attempts; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(5);

impl Desk {
    /// Opens the database again, refusing what is asked meanwhile, and tells a batch whose
    /// outcome was open what became of it. Returns when the database works or the engine closes.
    pub(super) fn recover(&mut self, failure: &Failure, mut unresolved: Option<Unresolved>) {
        tracing::error!(file = %self.shared.file(), %failure, "storage failed, opening it again");
        self.abandon(failure);
        let deadline = Instant::now() + self.shared.options.verdict_wait;
        let mut pause = PAUSE;
        let mut full = matches!(failure, Failure::NoSpace(_));
        while self.closing.is_none() {
            if full {
                self.space.give_up_ballast();
            }
            match self.reopen() {
                Ok(revision) => {
                    metrics::reopened();
                    tracing::info!(file = %self.shared.file(), %revision, "storage works again");
                    self.resolve(unresolved.take(), revision, failure);
                    return;
                }
                Err(failure) => {
                    full = matches!(failure, Failure::NoSpace(_));
                    self.say_down(&failure);
                }
            }
            if Instant::now() >= deadline {
                give_up(unresolved.take(), &self.shared.unavailable());
            }
            self.refuse_for(pause);
            pause = (pause * 2).min(self.shared.options.reopen_pause_max);
        }
        give_up(unresolved, &EngineError::Closed);
    }

    /// Lets nothing of the present database be used or reach the file any more.
    fn abandon(&mut self, failure: &Failure) {
        self.say_down(failure);
        if let Some(store) = self.store.take() {
            store.fence().retire();
        }
        self.shared.set_store(None);
        self.unsettled = false;
    }

    fn say_down(&self, failure: &Failure) {
        let why = format!(
            "{}: {failure}; it is being opened again",
            self.shared.file()
        );
        self.shared.set_health(Health::Down(why));
    }

    fn reopen(&mut self) -> Result<Revision, Failure> {
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let cache_bytes = self.shared.options.cache_bytes;
            let expected = Some(self.shared.name);
            let (store, opened) =
                Store::open(&*self.shared.disk, DataFile::Log, cache_bytes, expected)?;
            let missed = self.missed(&store, &opened)?;
            Ok((store, opened, missed))
        }));
        let opened = opened.unwrap_or_else(|panic| Err(Failure::Panic(panic_text(&*panic))));
        let (store, opened, missed) = opened?;
        let store = Arc::new(store);
        self.last_mark = opened.last_mark;
        self.scrubbed = opened.meta.scrubbed;
        let uptime = (self.shared.options.uptime)();
        self.leases.reload(&opened, uptime);
        self.store = Some(Arc::clone(&store));
        self.shared.set_compacted(opened.meta.compacted);
        self.publish(&missed.into(), opened.meta.totals);
        self.shared.set_store(Some(store));
        self.shared.set_health(Health::Serving);
        Ok(opened.meta.totals.revision)
    }

    /// Events that are durable and that nobody has been shown: a commit whose end was not seen.
    fn missed(&self, store: &Store, opened: &Opened) -> Result<Vec<Event>, Failure> {
        let shown = self.shared.positions.revision();
        let found = opened.meta.totals.revision;
        if found < shown || opened.meta.compacted < self.shared.compacted() {
            return Err(Failure::Corrupt(format!(
                "the store has gone back to revision {found} (compacted {}) from {shown} \
                 (compacted {}), which were durable",
                opened.meta.compacted,
                self.shared.compacted()
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
            let chunk = read_history(store, &request, false).map_err(|error| match error {
                ReadError::Failure(failure) => failure,
                ReadError::Engine(error) => Failure::Corrupt(error.to_string()),
            })?;
            request.after = chunk.reached;
            events.extend(chunk.events);
        }
        Ok(events)
    }

    /// The log says what became of a batch: all of it is there, or nothing.
    fn resolve(&mut self, unresolved: Option<Unresolved>, revision: Revision, failure: &Failure) {
        let Some(Unresolved { orders, attempt }) = unresolved else {
            return;
        };
        let last = attempt
            .events
            .last()
            .map_or(Revision::ZERO, |event| event.revision);
        if last > revision {
            // The disk was at fault and works again: the same wish may be granted now.
            let error = failure.to_undone_error(&self.shared.file());
            for order in orders {
                order.answer(Err(error.clone()));
            }
            return;
        }
        // Published when the database was opened.
        self.answer_published(orders, attempt);
    }

    /// Refuses orders for a while.
    fn refuse_for(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        let error = self.shared.unavailable();
        if let Some(order) = self.carried.take() {
            self.refuse_or_close(order, &error);
        }
        while self.closing.is_none()
            && let Ok(order) = self.orders.recv_deadline(until)
        {
            self.refuse_or_close(*order, &error);
        }
    }

    fn refuse_or_close(&mut self, order: Order, error: &EngineError) {
        match order {
            Order::Close(readers) => self.closing = Some(readers),
            other => refuse(other, error),
        }
    }
}

/// Nobody can say in time what became of a batch.
fn give_up(unresolved: Option<Unresolved>, why: &EngineError) {
    for order in unresolved
        .into_iter()
        .flat_map(|unresolved| unresolved.orders)
    {
        order.answer(Err(EngineError::OutcomeUnknown(why.to_string())));
    }
}
