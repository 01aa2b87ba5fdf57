//! The Lessor's work: a step of expiry, a pause, and so on.

use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep_until};

use super::handle::LessorHandle;
use super::pace::Pace;
use super::{BEHIND, EXPIRED, FAILING};
use crate::engine::{EngineError, Expiry};
use crate::failure::Failure;

/// Lets the engine expire whenever something is due; never returns.
pub(super) async fn drive(store: String, lessor: LessorHandle) {
    lessor.begun().await;
    let mut failure = Failure::default();
    let mut pace = Pace::new(Instant::now().into_std());
    loop {
        let began = Instant::now().into_std();
        let step = lessor.engine().expire().await;
        let now = Instant::now().into_std();
        match &step {
            Ok(expiry) => pace.stepped(*expiry, began, now),
            Err(_) => pace.failed(now),
        }
        note(&store, &step, &mut failure);
        rest(&lessor, &mut pace).await;
    }
}

/// Waits until the next step is due, be it because of a lease that is granted meanwhile.
async fn rest(lessor: &LessorHandle, pace: &mut Pace) {
    loop {
        let wake = std::pin::pin!(sleep_until(Instant::from_std(pace.wake())));
        let granted = std::pin::pin!(lessor.granted());
        match select(wake, granted).await {
            Either::Left(_) => return,
            Either::Right((due, _)) => due.into_iter().for_each(|due| pace.granted(due)),
        }
    }
}

fn note(store: &str, step: &Result<Expiry, EngineError>, failure: &mut Failure) {
    let labels = [("store", store.to_owned())];
    metrics::gauge!(FAILING, &labels).set(f64::from(u8::from(step.is_err())));
    match step {
        Ok(expiry) => {
            if failure.end() {
                tracing::info!(store, "what has outlived its lease is deleted again");
            }
            metrics::counter!(EXPIRED, &labels).increment(expiry.expired);
            metrics::gauge!(BEHIND, &labels).set(f64::from(u8::from(expiry.more)));
        }
        Err(error) => {
            if failure.is_worth_a_line(Instant::now().into_std()) {
                tracing::warn!(
                    store,
                    %error,
                    "what has outlived its lease can't be deleted; tried every second"
                );
            }
        }
    }
}
