//! Group commit: whoever waits shares one sync.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use actors::engine::{Change, EngineError, Event, Mutation, Outcome};

use super::{CommitOrder, Desk, Order, weight};
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::ledger::{Decision, Ledger};
use crate::storage::embedded::metrics;
use crate::storage::embedded::readers::panic_text;
use crate::storage::embedded::schema::Totals;

/// What a batch has come to, kept outside the attempt so that a panic leaves it.
#[derive(Default)]
pub(super) struct Attempt {
    /// By order.
    decisions: Vec<Decision>,
    pub(super) events: Vec<Event>,
    /// Whether the transaction may have reached the disk: from here on a failure is no proof
    /// that nothing was done.
    pub(super) committing: bool,
}

/// A batch whose outcome is not known yet.
pub(super) struct Unresolved {
    pub(super) orders: Vec<CommitOrder>,
    pub(super) attempt: Attempt,
}

impl Desk {
    /// Commits this mutation and what waits behind it.
    pub(super) fn commit(&mut self, first: CommitOrder) {
        let orders = self.gather(first);
        let started = Instant::now();
        let mut attempt = Attempt::default();
        let result = catch_unwind(AssertUnwindSafe(|| self.attempt(&orders, &mut attempt)));
        let result = result.unwrap_or_else(|panic| Err(Failure::Panic(panic_text(&*panic))));
        match result {
            Ok(totals) => {
                metrics::committed(attempt.events.len(), orders.len(), started.elapsed());
                self.answer(orders, attempt, totals);
            }
            Err(failure) if attempt.committing => {
                self.recover(&failure, Some(Unresolved { orders, attempt }));
            }
            Err(failure) => {
                let file = self.shared.file();
                let error = match &failure {
                    // Trying again would meet the same damage.
                    Failure::Corrupt(_) => failure.to_engine_error(&file),
                    _ => failure.to_undone_error(&file),
                };
                for order in orders {
                    order.answer(Err(error.clone()));
                }
                self.recover(&failure, None);
            }
        }
    }

    /// What waits already, up to the bounds of a batch; nobody is waited for.
    fn gather(&mut self, first: CommitOrder) -> Vec<CommitOrder> {
        let options = &self.shared.options;
        let mut bytes = weight(&first.mutation);
        let mut orders = vec![first];
        while orders.len() < options.batch_count_max && bytes < options.batch_bytes_max {
            match self.orders.try_recv().map(|order| *order) {
                Ok(Order::Commit(order)) => {
                    bytes += weight(&order.mutation);
                    orders.push(order);
                }
                Ok(other) => {
                    self.carried = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        orders
    }

    fn attempt(
        &mut self,
        orders: &[CommitOrder],
        attempt: &mut Attempt,
    ) -> Result<Totals, Failure> {
        let store = self.store()?;
        let shortage = self.watch_space(Instant::now());
        let moment = self.moment();
        let now = moment.time;
        let transaction = store.write()?;
        let mut ledger = Ledger::open(&transaction)?;
        for order in orders {
            let decision = match &shortage {
                Some(why) if takes_room(&order.mutation) => {
                    Decision::Rejected(EngineError::OutOfSpace(why.clone()))
                }
                _ => ledger.apply(&order.mutation, moment, &mut attempt.events)?,
            };
            attempt.decisions.push(decision);
        }
        if attempt.events.is_empty() {
            // What was looked at is durable, as every commit before this one is.
            drop(ledger);
            transaction.abort()?;
            return Ok(self.shared.totals());
        }
        if !self.leases.is_empty() {
            ledger.set_lease_totals(self.leases.totals(moment.lease_time))?;
        }
        let before = ledger.totals().retained_bytes;
        let mut last_mark = self.last_mark;
        ledger.mark(now, &mut last_mark)?;
        let totals = ledger.finish()?;
        attempt.committing = true;
        store.commit(transaction)?;
        self.last_mark = last_mark;
        self.unsettled = false;
        self.space
            .wrote(totals.retained_bytes.saturating_sub(before));
        Ok(totals)
    }

    /// Publishes a durable batch and answers in its order.
    pub(super) fn answer(&mut self, orders: Vec<CommitOrder>, attempt: Attempt, totals: Totals) {
        let Attempt {
            decisions, events, ..
        } = attempt;
        let events: Arc<[Event]> = events.into();
        if !events.is_empty() {
            self.publish(&events, totals);
        }
        self.answer_all(orders, decisions, &events);
    }

    /// Answers a batch whose events have been published already.
    pub(super) fn answer_published(&self, orders: Vec<CommitOrder>, attempt: Attempt) {
        self.answer_all(orders, attempt.decisions, &attempt.events);
    }

    fn answer_all(&self, orders: Vec<CommitOrder>, decisions: Vec<Decision>, events: &[Event]) {
        for (order, decision) in orders.into_iter().zip(decisions) {
            order.answer(match decision {
                Decision::Committed(at) => match events.get(at) {
                    Some(event) => Ok(Outcome::Committed(event.clone())),
                    None => Err(EngineError::OutcomeUnknown(
                        "its event is missing".to_owned(),
                    )),
                },
                Decision::Refused { current, revision } => {
                    Ok(Outcome::Refused { current, revision })
                }
                Decision::Rejected(error) => Err(error),
                Decision::Unreadable(failure) => Err(failure.to_engine_error(&self.shared.file())),
            });
        }
    }
}

fn takes_room(mutation: &Mutation) -> bool {
    matches!(mutation.change, Change::Put { .. })
}
