//! Group commit: mutations that wait share one transaction and its sync.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actors::engine::{Change, EngineError, Event, Mutation, Outcome};

use super::request::{CommitRequest, WriterRequest, weight};
use super::thread::WriterThread;
use crate::storage::embedded::error::Failure;
use crate::storage::embedded::journal::Changes;
use crate::storage::embedded::metrics;
use crate::storage::embedded::schema::{LastMark, Totals};
use crate::storage::embedded::store::Store;
use crate::storage::embedded::write_txn::{ChangedRows, Decision, PlannedRows, WriteTxn};

/// How long a batch waits for mutations that follow its last one. A commit takes about as long, so
/// nobody waits for two.
const FOLLOWERS_WAIT: Duration = Duration::from_micros(400);

/// The result of a batch so far. It is kept outside the attempt, so that it survives a panic.
#[derive(Default)]
pub(super) struct Attempt {
    /// In the order of the requests.
    decisions: Vec<Decision>,
    pub(super) events: Arc<[Event]>,
    /// Whether the transaction may have reached the disk. From here on a failure does not prove
    /// that nothing was written.
    pub(super) committing: bool,
}

/// The changes of a batch.
struct Plan {
    totals: Totals,
    changes: Changes,
    rows: ChangedRows,
    last_mark: LastMark,
}

/// A batch whose outcome is not known yet.
pub(super) struct Unresolved {
    pub(super) requests: Vec<CommitRequest>,
    pub(super) attempt: Attempt,
}

impl WriterThread {
    /// Commits this mutation and those that wait after it.
    pub(super) fn commit(&mut self, first: CommitRequest) {
        let requests = self.gather(first);
        let started = Instant::now();
        let mut attempt = Attempt::default();
        let result = catch_unwind(AssertUnwindSafe(|| self.attempt(&requests, &mut attempt)));
        let result = result.unwrap_or_else(|panic| Err(Failure::from_panic(&*panic)));
        match result.map_err(|failure| self.explain(failure)) {
            Ok(totals) => {
                metrics::committed(attempt.events.len(), requests.len(), started.elapsed());
                self.answer(requests, attempt, totals);
            }
            Err(failure) if attempt.committing => {
                self.recover(&failure, Some(Unresolved { requests, attempt }));
            }
            Err(failure) => {
                let failure = self.blamed(&failure);
                // Before any request is answered.
                self.state.set_down(&failure);
                let file = self.state.file();
                let error = match &failure {
                    // Another attempt would meet the same damage.
                    Failure::Corrupt(_) => failure.to_engine_error(&file),
                    _ => failure.to_undone_error(&file),
                };
                for request in requests {
                    request.answer(Err(error.clone()));
                }
                self.recover(&failure, None);
            }
        }
    }

    /// Takes the mutations that wait already, up to the bounds of a batch. It waits for more only
    /// while others are about to follow the last one (docs/design.md 6).
    fn gather(&mut self, first: CommitRequest) -> Vec<CommitRequest> {
        let options = &self.state.options;
        let mut bytes = weight(&first.mutation);
        let mut requests = vec![first];
        let until = Instant::now() + FOLLOWERS_WAIT;
        while requests.len() < options.batch_count_max && bytes < options.batch_bytes_max {
            let next = match requests.last().is_some_and(CommitRequest::has_followers) {
                true => self.requests.recv_deadline(until).ok(),
                false => self.requests.try_recv().ok(),
            };
            match next.map(|request| *request) {
                Some(WriterRequest::Commit(request)) => {
                    bytes += weight(&request.mutation);
                    requests.push(request);
                }
                Some(other) => {
                    self.next_request_taken = Some(other);
                    break;
                }
                None => break,
            }
        }
        requests
    }

    fn attempt(
        &mut self,
        requests: &[CommitRequest],
        attempt: &mut Attempt,
    ) -> Result<Totals, Failure> {
        let store = self.store()?;
        if let Some(failure) = self.apply_failure() {
            return Err(failure);
        }
        let shortage = self.check_disk_space(Instant::now());
        // Before the rows are read: what is applied meanwhile is seen twice, which does no harm.
        self.overlay.forget_applied(store.unapplied().applied());
        let Some(plan) = self.plan(&store, requests, shortage, attempt)? else {
            // Nothing is written. The state that the decisions show is durable, because every
            // earlier commit is.
            return Ok(self.state.totals());
        };
        let Plan {
            totals,
            changes,
            rows,
            last_mark,
        } = plan;
        let before = self.state.totals().retained_bytes;
        attempt.committing = true;
        self.commit_planned(&store, changes, rows, &attempt.events)?;
        store.acknowledge(&self.state.name, totals.revision)?;
        self.last_mark = last_mark;
        self.disk_space
            .wrote(totals.retained_bytes.saturating_sub(before));
        Ok(totals)
    }

    /// Decides the requests in order. `None` if that changes nothing.
    fn plan(
        &self,
        store: &Store,
        requests: &[CommitRequest],
        shortage: Option<String>,
        attempt: &mut Attempt,
    ) -> Result<Option<Plan>, Failure> {
        let moment = self.moment();
        let rows = PlannedRows::new(store.read_applied()?, &self.overlay)?;
        let mut txn = WriteTxn::on(rows, self.state.totals());
        let mut events = Vec::new();
        for request in requests {
            let decision = match &shortage {
                Some(why) if takes_room(&request.mutation) => {
                    Decision::Rejected(EngineError::OutOfSpace(why.clone()))
                }
                _ => txn.apply(&request.mutation, moment, &mut events)?,
            };
            if let (Some(issuer), Decision::Committed(at)) = (&request.issuer, &decision)
                && let Some(event) = events.get(*at)
            {
                issuer.decide(event.revision);
            }
            attempt.decisions.push(decision);
        }
        if events.is_empty() {
            return Ok(None);
        }
        attempt.events = events.into();
        if !self.leases.is_empty() {
            txn.set_lease_totals(self.leases.totals(moment.lease_time))?;
        }
        let mut last_mark = self.last_mark;
        txn.mark(moment.time, &mut last_mark)?;
        let (totals, rows) = txn.into_rows()?;
        let (changes, rows) = rows.into_parts();
        Ok(Some(Plan {
            totals,
            changes,
            rows,
            last_mark,
        }))
    }

    /// Publishes a durable batch and answers its requests in order.
    pub(super) fn answer(
        &mut self,
        requests: Vec<CommitRequest>,
        attempt: Attempt,
        totals: Totals,
    ) {
        let Attempt {
            decisions, events, ..
        } = attempt;
        if !events.is_empty() {
            self.publish(&events, totals);
        }
        self.answer_all(requests, decisions, &events);
    }

    /// Answers a batch whose events have been published already.
    pub(super) fn answer_published(&self, requests: Vec<CommitRequest>, attempt: Attempt) {
        self.answer_all(requests, attempt.decisions, &attempt.events);
    }

    fn answer_all(&self, requests: Vec<CommitRequest>, decisions: Vec<Decision>, events: &[Event]) {
        for (request, decision) in requests.into_iter().zip(decisions) {
            request.answer(match decision {
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
                Decision::Unreadable(failure) => Err(failure.to_engine_error(&self.state.file())),
            });
        }
    }
}

fn takes_room(mutation: &Mutation) -> bool {
    matches!(mutation.change, Change::Put { .. })
}
