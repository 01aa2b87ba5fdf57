//! Faults that a test asks for: delays, errors and ends of watches, at given rates and with a seed.
//!
//! This folder owns the document of faults ([`FaultPlan`]), the decisions about requests and
//! watches, and their counts. It must not know connections, or how an error is answered.
//!
//! Only requests for resources meet faults. The handlers of resources ask [`Faults::meet`] before
//! they do anything, and lead the stream of each watch through [`FaultyWatch`]. Controllers of the
//! daemon do not come that way.

mod decisions;
mod generator;
mod plan;
mod selection;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{counter, describe_counter};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch as channel;

pub(in crate::server) use decisions::Drawn;
use decisions::{Decision, Decisions, End, LATENCY, WatchDraws};
pub(in crate::server) use plan::Code;
pub use plan::FaultPlan;
pub(in crate::server) use selection::{Subject, WatchSubject};
pub(in crate::server) use watch::FaultyWatch;

const TOTAL: &str = "taffrail_test_faults_total";

/// The faults in force.
#[derive(Debug)]
pub struct Faults {
    decisions: Mutex<Decisions>,
    /// The number of plans so far. Open watches look at it after each event.
    edition: AtomicU64,
    /// Whether the server stops, so that nobody waits any longer.
    is_stopping: channel::Sender<bool>,
}

impl Default for Faults {
    fn default() -> Faults {
        describe_counter!(TOTAL, "Faults that a test has injected, by kind");
        let codes = Code::ALL.map(Code::name);
        let others = [LATENCY, End::Dropped.name(), End::Expired.name()];
        for fault in codes.into_iter().chain(others) {
            counter!(TOTAL, "fault" => fault).increment(0);
        }
        Faults {
            decisions: Mutex::new(Decisions::new(FaultPlan::default(), random_seed())),
            edition: AtomicU64::new(0),
            is_stopping: channel::Sender::new(false),
        }
    }
}

/// Returns a seed that is short enough to be copied by hand.
fn random_seed() -> u64 {
    u64::from(uuid::Uuid::new_v4().as_fields().0)
}

impl Faults {
    /// Replaces all faults and their counts. The log has the seed, so that a test that failed can
    /// be repeated.
    pub fn set(&self, plan: FaultPlan) {
        let (rules, given) = (plan.rules.len(), plan.seed);
        let seed = given.unwrap_or_else(random_seed);
        *self.decisions.lock() = Decisions::new(plan, seed);
        self.edition.fetch_add(1, Ordering::Release);
        match (rules, given) {
            (0, _) => tracing::info!("no faults are injected"),
            (_, Some(_)) => tracing::info!(seed, rules, "faults are injected"),
            (_, None) => tracing::warn!(seed, rules, "faults are injected, with a random seed"),
        }
    }

    /// Returns the faults in force with their seed and counts.
    pub fn shown(&self) -> Value {
        self.decisions.lock().shown()
    }

    /// Ends all delays, because the server stops.
    pub fn end_delays(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Delays a request for a resource if that was drawn. Returns the error that was drawn for it,
    /// of those that `suits` takes.
    pub(in crate::server) async fn meet(
        &self,
        subject: &Subject<'_>,
        suits: impl Fn(Code) -> bool,
    ) -> Option<Drawn> {
        let Decision { delay, error } = self.decisions.lock().of_request(subject, suits);
        if !delay.is_zero() {
            counter!(TOTAL, "fault" => LATENCY).increment(1);
            let mut is_stopping = self.is_stopping.subscribe();
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = is_stopping.wait_for(|is_stopping| *is_stopping) => {}
            }
        }
        if let Some(error) = error {
            counter!(TOTAL, "fault" => error.code.name()).increment(1);
        }
        error
    }

    /// Decides whether a watch ends after an event. `draws` belong to an edition of the faults, and
    /// are replaced if others are in force now.
    fn after_event(&self, subject: &WatchSubject, draws: &mut EditionDraws) -> Option<End> {
        let edition = self.edition.load(Ordering::Acquire);
        let is_current = draws.edition == Some(edition);
        if is_current && draws.draws.is_empty() {
            return None;
        }
        let mut decisions = self.decisions.lock();
        if !is_current {
            *draws = EditionDraws {
                edition: Some(edition),
                draws: decisions.of_watch(&subject.as_subject()),
            };
        }
        let end = decisions.after_event(&mut draws.draws)?;
        counter!(TOTAL, "fault" => end.name()).increment(1);
        Some(end)
    }
}

/// The random numbers of a watch, and the edition of the faults that they belong to.
#[derive(Debug, Default)]
struct EditionDraws {
    edition: Option<u64>,
    draws: Vec<WatchDraws>,
}
