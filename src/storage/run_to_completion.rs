//! Work that runs to its end even when its caller goes away.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actors::tasks;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use crate::api::abandoned::{self, Abandonment};
use crate::api::deep::Roomy;

/// A guard that lasts as long as a write may still take effect.
pub type Hold = Arc<dyn Any + Send + Sync>;

/// A future that continues in a task of its own if it is dropped after its first poll. The caller
/// of a write may go away during the write, whose outcome must still be handled. The task still
/// belongs to the request, so it begins no new writes after the request was abandoned.
pub struct RunToCompletion<T: Send + 'static> {
    work: Option<Roomy<BoxFuture<'static, T>>>,
    has_begun: bool,
    request: Option<Arc<Abandonment>>,
}

impl<T: Send + 'static> RunToCompletion<T> {
    /// Wraps work. It runs to its end once it has been polled.
    pub fn new(work: BoxFuture<'static, T>) -> RunToCompletion<T> {
        RunToCompletion {
            work: Some(Roomy::new(work)),
            has_begun: false,
            request: None,
        }
    }
}

impl<T: Send + 'static> Future for RunToCompletion<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if !self.has_begun {
            self.has_begun = true;
            self.request = abandoned::current();
        }
        // Taken while it is polled, so that work that panics is not polled again.
        let Some(mut work) = self.work.take() else {
            return Poll::Pending;
        };
        let polled = work.poll_unpin(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for RunToCompletion<T> {
    fn drop(&mut self) {
        if self.has_begun
            && let Some(mut work) = self.work.take()
            // Without a runtime, the process is ending.
            && let Ok(runtime) = Handle::try_current()
        {
            let request = self.request.take();
            tasks::spawn_on(
                &runtime,
                poll_fn(move |context| {
                    abandoned::within(request.as_ref(), || work.poll_unpin(context))
                }),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_has_begun_is_finished_and_the_rest_is_not() {
        for begins in [true, false] {
            let (go, going) = oneshot::channel::<()>();
            let (tell, told) = oneshot::channel();
            let work = async move { going.await.is_ok() && tell.send(()).is_ok() };
            let mut running = RunToCompletion::new(work.boxed());
            if begins {
                assert_eq!((&mut running).now_or_never(), None);
            }
            drop(running);
            assert_eq!(go.send(()).is_ok(), begins);
            assert_eq!(told.await.is_ok(), begins);
        }
    }
}
