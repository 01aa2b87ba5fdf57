//! The loop of a Lessor: a step of expiry, then a pause.

use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::handle::LessorHandle;
use super::metrics::{BEHIND, EXPIRED, FAILING};
use super::pace::Pace;
use crate::clock;
use crate::engine::{EngineError, Expiry};
use crate::failure::RepeatedFailure;

/// Lets the engine expire leases whenever one is due. It never returns.
pub(super) async fn run(store: String, lessor: LessorHandle) {
    lessor.begun().await;
    let mut failure = RepeatedFailure::default();
    let mut pace = Pace::new(clock::moment().into_std());
    let mut asked: Vec<oneshot::Sender<()>> = Vec::new();
    loop {
        // Before the step, so that a jump of the clock during the step makes the next one due.
        asked.extend(lessor.asked());
        let (moment, began) = (clock::moment().into_std(), Instant::now());
        let step = lessor.engine().expire().await;
        let (began, now) = (moment, moment + began.elapsed());
        match &step {
            Ok(expiry) => pace.stepped(*expiry, began, now),
            Err(_) => pace.failed(now),
        }
        report(&store, &step, &mut failure);
        if step.is_ok_and(|expiry| !expiry.more) {
            for asked in asked.drain(..) {
                // The caller may have gone away.
                let _ = asked.send(());
            }
        }
        pause(&lessor, &mut pace).await;
    }
}

/// Waits until the next step is due. A lease that is granted meanwhile may make it due earlier, and
/// who asks for a step does.
async fn pause(lessor: &LessorHandle, pace: &mut Pace) {
    loop {
        let wake = std::pin::pin!(clock::reached(Instant::from_std(pace.wake())));
        let granted = std::pin::pin!(lessor.granted());
        match select(wake, granted).await {
            Either::Left(_) => return,
            Either::Right(_) if lessor.is_asked() => return,
            Either::Right((due, _)) => due.into_iter().for_each(|due| pace.granted(due)),
        }
    }
}

fn report(store: &str, step: &Result<Expiry, EngineError>, failure: &mut RepeatedFailure) {
    let labels = [("store", store.to_owned())];
    metrics::gauge!(FAILING, &labels).set(f64::from(u8::from(step.is_err())));
    match step {
        Ok(expiry) => {
            if failure.end() {
                tracing::info!(store, "objects whose lease has expired are deleted again");
            }
            metrics::counter!(EXPIRED, &labels).increment(expiry.expired);
            metrics::gauge!(BEHIND, &labels).set(f64::from(u8::from(expiry.more)));
        }
        Err(error) => {
            if failure.is_worth_a_line(Instant::now().into_std()) {
                tracing::warn!(
                    store,
                    %error,
                    "objects whose lease has expired can't be deleted; tried every second"
                );
            }
        }
    }
}
