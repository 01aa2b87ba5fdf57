//! Carries out the work of requests: on the HTTP thread or on the threads for large requests, and
//! to its end even if the client is gone.
//!
//! A client may disconnect, or its request may time out, while the work is in progress. Before the
//! first mutation the work stops, and nothing was changed. After it the work continues in the
//! background to its end, and the audit log records the outcome that no client has seen.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actors::tasks;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;

use super::Answered;
use crate::api::abandoned::{self, Abandonment};
use crate::api::deep::Roomy;
use crate::api::large::poll_movable;
use crate::api::status::Status;
use crate::server::filters::in_flight::Counted;
use crate::server::request_scope::RequestScope;
use crate::server::respond::{self, Form};
use crate::server::unattended::Unattended;

type Outcome<T> = Result<T, Box<Status>>;

/// The work of a request.
type Work<T> = BoxFuture<'static, Outcome<T>>;

/// Moves work to the threads for large requests.
type Leave<T> = Box<dyn FnOnce(Work<T>) -> Work<T> + Send>;

/// The handler of an outcome that comes after the client is gone.
type Late<T> = Box<dyn FnOnce(Outcome<T>) -> BoxFuture<'static, ()> + Send>;

impl RequestScope<'_> {
    /// Does the work, and responds with its outcome. `respond` builds the response in the given
    /// form.
    ///
    /// # Errors
    /// The error of the work, or 429 when too many large requests are running.
    pub(super) async fn answer<T: Send + 'static>(
        &self,
        form: &Form,
        is_large: bool,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
        respond: impl FnOnce(&Form, T) -> Answered + Clone + Send + 'static,
    ) -> Answered {
        let abandonment: Arc<Abandonment> = Arc::default();
        let (afterwards, unseen) = (self.record.afterwards(&abandonment), respond.clone());
        let late = move |outcome: Outcome<T>| {
            let auditing = async move {
                if let Some(event) = afterwards?.event().await {
                    let form = Form::default();
                    let answer = outcome.and_then(|done| unseen(&form, done));
                    event.complete(
                        &answer.unwrap_or_else(|status| respond::refusal(&status, &form)),
                    );
                }
                Some(())
            };
            auditing.map(drop).boxed()
        };
        respond(
            form,
            self.attended(abandonment, is_large, work, Box::new(late))
                .await?,
        )
    }

    /// Does a part of the work of a request.
    ///
    /// # Errors
    /// The error of the work, or 429 when too many large requests are running.
    pub(super) async fn carry_out<T: Send + 'static>(
        &self,
        is_large: bool,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Outcome<T> {
        let nothing = |_| std::future::ready(()).boxed();
        self.attended(Arc::default(), is_large, work, Box::new(nothing))
            .await
    }

    fn attended<T: Send + 'static>(
        &self,
        abandonment: Arc<Abandonment>,
        is_large: bool,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
        late: Late<T>,
    ) -> Attended<T> {
        let work = counted(Arc::clone(&abandonment), self.counted.cloned(), work);
        let work = match is_large {
            false => work.boxed(),
            true => {
                let (server, user) = (Arc::clone(self.server), Arc::clone(&self.context.user));
                async move { server.large_requests.run(&user.name, work).await }.boxed()
            }
        };
        Attended {
            running: Some((work, late)),
            leave: (!is_large).then(|| self.leave()),
            abandonment,
            unattended: Arc::clone(&self.server.unattended),
        }
    }

    /// Returns how work leaves this thread if it turns out to be large. If the threads for large
    /// requests have no place, it stays: a refusal would come after webhooks have been called.
    fn leave<T: Send + 'static>(&self) -> Leave<T> {
        let (server, user) = (Arc::clone(self.server), Arc::clone(&self.context.user));
        Box::new(move |work| match server.large_requests.place(&user.name) {
            None => work,
            Some(place) => async move {
                server
                    .large_requests
                    .in_place(place, &user.name, work)
                    .await
            }
            .boxed(),
        })
    }
}

/// Wraps work so that it occupies its in-flight seats until it is dropped. On the threads for large
/// requests, that is after the current poll, even if the client is gone.
fn counted<T>(
    request: Arc<Abandonment>,
    counted: Option<Arc<Counted>>,
    work: impl Future<Output = T>,
) -> impl Future<Output = T> {
    let mut work = Roomy::new(work);
    poll_fn(move |context| {
        let _ = &counted;
        abandoned::within(Some(&request), || work.poll_unpin(context))
    })
}

/// Work that a client waits for. Dropping it cancels the work, unless it has written something.
struct Attended<T: Send + 'static> {
    /// `None` when the work has ended.
    running: Option<(Work<T>, Late<T>)>,
    /// `None` for work that has left its HTTP thread, or was never there.
    leave: Option<Leave<T>>,
    abandonment: Arc<Abandonment>,
    unattended: Arc<Unattended>,
}

impl<T: Send + 'static> Future for Attended<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        // Take the work out while it is polled, so that it is not polled again after a panic.
        let Some((mut work, late)) = self.running.take() else {
            return Poll::Pending;
        };
        let polled = match self.leave.take() {
            None => work.as_mut().poll(context),
            Some(leave) => match poll_movable(|| work.as_mut().poll(context)) {
                (polled, false) => {
                    self.leave = Some(leave);
                    polled
                }
                (_, true) => {
                    work = leave(work);
                    work.as_mut().poll(context)
                }
            },
        };
        if polled.is_pending() {
            self.running = Some((work, late));
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Attended<T> {
    fn drop(&mut self) {
        if let Some((work, late)) = self.running.take()
            && !self.abandonment.give_up()
            // Without a runtime the process is ending.
            && let Ok(runtime) = Handle::try_current()
        {
            let running = self.unattended.begin();
            tasks::spawn_on(&runtime, async move {
                let outcome = AssertUnwindSafe(work).catch_unwind().await;
                let panicked = |_| Err(Box::new(Status::internal("the request panicked")));
                late(outcome.unwrap_or_else(panicked)).await;
                drop(running);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use actors::watchdog::Watchdog;
    use futures_util::future::join_all;
    use tokio::sync::oneshot;

    use super::*;
    use crate::api::large::leave_thread;
    use crate::server::filters::in_flight::{InFlight, InFlightLimits};
    use crate::server::large_requests::LargeRequests;

    /// Returns work that waits for a signal, with or without a write before that, the sender of the
    /// signal, and the receiver of an outcome that comes late.
    fn attended(writes: bool) -> (Attended<u8>, oneshot::Sender<u8>, oneshot::Receiver<u8>) {
        let (go_on, sign) = oneshot::channel();
        let (sender, late_outcome) = oneshot::channel();
        let abandonment: Arc<Abandonment> = Arc::default();
        let request = Arc::clone(&abandonment);
        let work = async move {
            if writes {
                abandoned::within(Some(&request), abandoned::begin_write)?;
            }
            let sign = sign.await;
            sign.map_err(|error| Box::new(Status::internal(error)))
        };
        let late = move |outcome: Outcome<u8>| {
            let _ = sender.send(outcome.unwrap());
            std::future::ready(()).boxed()
        };
        let attended = Attended {
            running: Some((work.boxed(), Box::new(late))),
            leave: None,
            abandonment,
            unattended: Arc::default(),
        };
        (attended, go_on, late_outcome)
    }

    #[tokio::test]
    async fn who_waits_has_the_outcome_and_nobody_else() {
        let (attended, go_on, late_outcome) = attended(true);
        go_on.send(1).unwrap();
        assert_eq!(attended.await.unwrap(), 1);
        assert!(late_outcome.await.is_err());
    }

    #[tokio::test]
    async fn what_has_written_goes_on_without_its_client_and_the_rest_ends() {
        for writes in [true, false] {
            let (mut attended, go_on, late_outcome) = attended(writes);
            assert!((&mut attended).now_or_never().is_none());
            let unattended = Arc::clone(&attended.unattended);
            drop(attended);
            assert_eq!(unattended.ended().now_or_never().is_none(), writes);
            assert_eq!(go_on.send(1).is_ok(), writes);
            unattended.ended().await;
            assert_eq!(late_outcome.await.ok(), writes.then_some(1));
        }
    }

    #[tokio::test]
    async fn work_that_turns_out_to_be_large_leaves_its_thread() {
        let threads = Arc::new(LargeRequests::start(&Watchdog::default()).unwrap());
        let here = std::thread::current().id();
        let on_the_way = async |waits: usize| {
            let before = std::thread::current().id();
            for _ in 0..waits {
                tokio::task::yield_now().await;
            }
            leave_thread().await;
            (before, std::thread::current().id())
        };
        let work = async move { Ok(join_all([on_the_way(1), on_the_way(1)]).await) };
        let place = threads.place("ann").unwrap();
        let leave: Leave<Vec<_>> =
            Box::new(move |work| async move { threads.in_place(place, "ann", work).await }.boxed());
        let attended = Attended {
            running: Some((work.boxed(), Box::new(|_| std::future::ready(()).boxed()))),
            leave: Some(leave),
            abandonment: Arc::default(),
            unattended: Arc::default(),
        };
        for (before, after) in attended.await.unwrap() {
            assert_eq!(before, here);
            assert_ne!(after, here);
        }
    }

    #[tokio::test]
    async fn what_computes_on_another_thread_stops_when_its_client_is_gone_and_counts_until_then() {
        let threads = LargeRequests::start(&Watchdog::default()).unwrap();
        let abandonment: Arc<Abandonment> = Arc::default();
        let in_flight = InFlight::new(InFlightLimits::default());
        let seat = in_flight.enter(false, "ann").map(Arc::new);
        let (begin, begun) = oneshot::channel();
        let (go_on, sign) = std::sync::mpsc::channel::<()>();
        let work = async move {
            begin.send(()).unwrap();
            while abandoned::check().is_ok() {}
            // One more step.
            let _ = sign.recv();
            Ok(1)
        };
        let work = counted(Arc::clone(&abandonment), seat, work);
        let mut attended = Attended {
            running: Some((
                async move { threads.run("ann", work).await }.boxed(),
                Box::new(|_: Outcome<u8>| std::future::ready(()).boxed()),
            )),
            leave: None,
            abandonment,
            unattended: Arc::default(),
        };
        assert!((&mut attended).now_or_never().is_none());
        begun.await.unwrap();
        drop(attended);
        assert_eq!(in_flight.now().1, 1);
        drop(go_on);
        while in_flight.now().1 > 0 {
            tokio::task::yield_now().await;
        }
    }
}
