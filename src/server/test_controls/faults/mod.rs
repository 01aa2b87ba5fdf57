//! Faults that a test asks for: delays, errors and ends of watches, at given rates and with a seed.
//!
//! This folder owns the document of faults ([`FaultPlan`]), the decisions about requests and
//! watches, and their counts. It must not know connections, and it never changes what a request
//! does: a request that meets an error is not carried out at all.
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

use actors::engine::Revision;
use metrics::{counter, describe_counter};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch as channel;

use crate::api::resource::Verb;
use crate::api::status::Status;
use crate::registry::store::WatchRefusal;
use crate::server::request_scope::RequestScope;
use crate::server::routes::Target;
use decisions::{Decision, Decisions, Drawn, End, LATENCY};
use plan::Code;
pub use plan::FaultPlan;
use selection::Subject;
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

    /// Delays a request for a resource, and refuses it, if that was drawn.
    ///
    /// # Errors
    /// The drawn error. That of a watch may be an event (WA-6).
    pub(in crate::server) async fn meet(
        &self,
        scope: &RequestScope<'_>,
        target: &Target,
    ) -> Result<(), WatchRefusal> {
        let subject = Subject::of(scope, target);
        let suits = |code| suits(code, scope, target);
        let Decision { delay, error } = self.decisions.lock().of_request(&subject, suits);
        if !delay.is_zero() {
            counter!(TOTAL, "fault" => LATENCY).increment(1);
            let mut is_stopping = self.is_stopping.subscribe();
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = is_stopping.wait_for(|is_stopping| *is_stopping) => {}
            }
        }
        let Some(error) = error else {
            return Ok(());
        };
        counter!(TOTAL, "fault" => error.code.name()).increment(1);
        let refusal = Box::new(status(error, scope, target));
        Err(match (target.verb, error.code) {
            (Verb::Watch, Code::Expired) => WatchRefusal::InStream(refusal),
            _ => WatchRefusal::Http(refusal),
        })
    }
}

impl<'s> Subject<'s> {
    fn of(scope: &'s RequestScope<'_>, target: &'s Target) -> Subject<'s> {
        let agent = scope.headers.get(http::header::USER_AGENT);
        Subject {
            verb: target.verb,
            resource: target.storage.resource(),
            subresource: target.storage.subresource(),
            namespace: target.namespace.as_deref(),
            user: &scope.context.user.name,
            user_agent: agent
                .and_then(|agent| agent.to_str().ok())
                .unwrap_or_default(),
        }
    }
}

/// Returns the version that a list or watch asks for, if its history may be gone.
fn asked_version(scope: &RequestScope<'_>) -> Option<u64> {
    let version = scope.query.first("resourceVersion")?.parse().ok()?;
    (version > 0).then_some(version)
}

fn continues(scope: &RequestScope<'_>) -> bool {
    scope
        .query
        .first("continue")
        .is_some_and(|token| !token.is_empty())
}

/// Whether a server answers such a request with such an error.
fn suits(code: Code, scope: &RequestScope<'_>, target: &Target) -> bool {
    match (code, target.verb) {
        (Code::Conflict, verb) => matches!(verb, Verb::Update | Verb::Patch | Verb::Delete),
        (Code::Expired, Verb::List) => continues(scope) || asked_version(scope).is_some(),
        (Code::Expired, Verb::Watch) => asked_version(scope).is_some(),
        (Code::Expired, _) => false,
        _ => true,
    }
}

/// Returns an error as the server itself would answer it.
fn status(error: Drawn, scope: &RequestScope<'_>, target: &Target) -> Status {
    match error.code {
        Code::Conflict => Status::stale(target.storage.resource(), &target.name),
        Code::Expired if target.verb == Verb::Watch => {
            let asked = asked_version(scope).unwrap_or_default();
            Status::expired_watch(Revision(asked), Revision(asked.saturating_add(1)))
        }
        Code::Expired if continues(scope) => Status::expired_continue(None),
        Code::Expired => Status::expired_list(),
        Code::TooMany => {
            let text = "the server has received too many requests and has asked us to try again \
                        later";
            Status::too_many_requests(text, error.retry_after)
        }
        Code::Internal => Status::internal("a fault that a test has injected"),
        Code::Unavailable => {
            let text = "the server is currently unable to handle the request";
            Status::unavailable(text, error.retry_after)
        }
        Code::Timeout => Status::request_timeout(),
    }
}
