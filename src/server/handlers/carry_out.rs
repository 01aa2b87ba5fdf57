//! Carries out the work of requests: here or on the threads for large requests, to its end or until
//! its client is gone.
//!
//! A client may go away, or the time of a request may be over, while its work is under way. Before
//! the first mutation the work stops, and nothing was done. From then on it is carried out to its
//! end in the background. The audit log then tells the outcome that no client has seen.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;

use super::{Answered, RequestScope};
use crate::api::abandoned::{self, Abandonment};
use crate::api::status::Status;
use crate::server::filters::in_flight::Counted;
use crate::server::respond::{self, Form};

type Outcome<T> = Result<T, Box<Status>>;

/// What is done with an outcome that comes when nobody waits for it any more.
type Late<T> = Box<dyn FnOnce(Outcome<T>) -> BoxFuture<'static, ()> + Send>;

impl RequestScope<'_> {
    /// Does the work, and answers with what came of it. `respond` makes the answer in a form.
    ///
    /// # Errors
    /// The error of the work, or 429 when too much large work is in progress.
    pub(super) async fn answer<T: Send + 'static>(
        &self,
        form: &Form,
        is_large: bool,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
        respond: impl FnOnce(&Form, T) -> Answered + Clone + Send + 'static,
    ) -> Answered {
        let (afterwards, unseen) = (self.record.afterwards(), respond.clone());
        let late = move |outcome: Outcome<T>| {
            let telling = async move {
                if let Some(event) = afterwards?.event().await {
                    let form = Form::default();
                    let answer = outcome.and_then(|done| unseen(&form, done));
                    event.tell(&answer.unwrap_or_else(|status| respond::refusal(&status, &form)));
                }
                Some(())
            };
            telling.map(drop).boxed()
        };
        respond(form, self.attended(is_large, work, Box::new(late)).await?)
    }

    /// Does work that is a part of what a request asks for.
    ///
    /// # Errors
    /// The error of the work, or 429 when too much large work is in progress.
    pub(super) async fn carry_out<T: Send + 'static>(
        &self,
        is_large: bool,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Outcome<T> {
        let nothing = |_| std::future::ready(()).boxed();
        self.attended(is_large, work, Box::new(nothing)).await
    }

    fn attended<T: Send + 'static>(
        &self,
        is_large: bool,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
        late: Late<T>,
    ) -> Attended<T> {
        let abandonment: Arc<Abandonment> = Arc::default();
        let (request, mut work) = (Arc::clone(&abandonment), Box::pin(work));
        let work = poll_fn(move |context| {
            abandoned::within(Some(&request), || work.as_mut().poll(context))
        });
        let work = match is_large {
            false => work.boxed(),
            true => {
                let (server, user) = (Arc::clone(self.server), Arc::clone(&self.context.user));
                async move { server.large_requests.run(&user.name, work).await }.boxed()
            }
        };
        Attended {
            running: Some((work, late)),
            abandonment,
            counted: self.counted.cloned(),
        }
    }
}

/// Work that somebody waits for. If it is dropped, it stops, unless something was written.
struct Attended<T: Send + 'static> {
    /// `None` when it has ended.
    running: Option<(BoxFuture<'static, Outcome<T>>, Late<T>)>,
    abandonment: Arc<Abandonment>,
    /// The request counts against the limits as long as it is worked on.
    counted: Option<Arc<Counted>>,
}

impl<T: Send + 'static> Future for Attended<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        // Taken out while it is polled, so that work that panics is not polled again.
        let Some((mut work, late)) = self.running.take() else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(context);
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
            let counted = self.counted.take();
            runtime.spawn(async move {
                let outcome = AssertUnwindSafe(work).catch_unwind().await;
                let panicked = |_| Err(Box::new(Status::internal("the request panicked")));
                late(outcome.unwrap_or_else(panicked)).await;
                drop(counted);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use actors::watchdog::Watchdog;
    use tokio::sync::oneshot;

    use super::*;
    use crate::server::large_requests::LargeRequests;

    /// Work that waits for a sign, and before that writes or does not, with where its outcome comes
    /// if nobody waits for it any more.
    fn attended(writes: bool) -> (Attended<u8>, oneshot::Sender<u8>, oneshot::Receiver<u8>) {
        let (go_on, sign) = oneshot::channel();
        let (tell, told) = oneshot::channel();
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
            let _ = tell.send(outcome.unwrap());
            std::future::ready(()).boxed()
        };
        let attended = Attended {
            running: Some((work.boxed(), Box::new(late))),
            abandonment,
            counted: None,
        };
        (attended, go_on, told)
    }

    #[tokio::test]
    async fn who_waits_has_the_outcome_and_nobody_else() {
        let (attended, go_on, told) = attended(true);
        go_on.send(1).unwrap();
        assert_eq!(attended.await.unwrap(), 1);
        assert!(told.await.is_err());
    }

    #[tokio::test]
    async fn what_has_written_goes_on_without_its_client_and_the_rest_ends() {
        for writes in [true, false] {
            let (mut attended, go_on, told) = attended(writes);
            assert!((&mut attended).now_or_never().is_none());
            drop(attended);
            assert_eq!(go_on.send(1).is_ok(), writes);
            assert_eq!(told.await.ok(), writes.then_some(1));
        }
    }

    #[tokio::test]
    async fn what_computes_on_another_thread_stops_when_its_client_is_gone() {
        let threads = LargeRequests::start(&Watchdog::default()).unwrap();
        let abandonment: Arc<Abandonment> = Arc::default();
        let request = Arc::clone(&abandonment);
        let (begin, begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let work = async move {
            begin.send(()).unwrap();
            let computing = || while abandoned::check().is_ok() {};
            abandoned::within(Some(&request), computing);
            end.send(()).unwrap();
            Ok(1)
        };
        let mut attended = Attended {
            running: Some((
                async move { threads.run("ann", work).await }.boxed(),
                Box::new(|_: Outcome<u8>| std::future::ready(()).boxed()),
            )),
            abandonment,
            counted: None,
        };
        assert!((&mut attended).now_or_never().is_none());
        begun.await.unwrap();
        drop(attended);
        ended.await.unwrap();
    }
}
