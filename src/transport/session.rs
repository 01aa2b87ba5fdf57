//! Sessions: connections of HTTP/1.1 that speak another protocol after a response 101.
//!
//! A session runs in the task of its connection, so fairness charges its time to the connection's
//! user, and it holds the connection's slot. It has to end by itself when the daemon stops.

use std::future::poll_fn;
use std::task::Poll;

use futures_util::future::{FutureExt, LocalBoxFuture};

use super::thread::Membership;
use crate::upgraded::ByteStream;

/// The connection to the client.
pub type ClientStream = Box<dyn ByteStream>;

type Run = Box<dyn FnOnce(ClientStream) -> LocalBoxFuture<'static, ()>>;

/// What continues on a connection after the response 101.
pub struct Session {
    run: Run,
    revocation: Box<dyn Fn() -> bool>,
    at_end: Vec<Box<dyn FnOnce()>>,
}

impl Session {
    /// Makes a session of a function that gets the connection to the client. The connection is
    /// closed when the future ends, and when `is_revoked` has become true.
    pub fn new<F>(
        run: impl FnOnce(ClientStream) -> F + 'static,
        is_revoked: impl Fn() -> bool + 'static,
    ) -> Session
    where
        F: Future<Output = ()> + 'static,
    {
        Session {
            run: Box::new(|client| run(client).boxed_local()),
            revocation: Box::new(is_revoked),
            at_end: Vec::new(),
        }
    }

    /// Adds a function that is called when the session ends for any reason.
    pub fn at_end(&mut self, done: impl FnOnce() + 'static) {
        self.at_end.push(Box::new(done));
    }

    /// Runs the session. `is_over` says whether its client has taken nothing for too long.
    pub(super) async fn serve(
        self,
        client: ClientStream,
        membership: &mut Membership,
        mut is_over: impl FnMut(&mut std::task::Context<'_>) -> bool,
    ) {
        let Session {
            run,
            revocation,
            at_end,
        } = self;
        let _ended = AtEnd(at_end);
        membership.carries(1);
        let mut running = run(client);
        poll_fn(|context| {
            // This registers the connection for revocations too.
            let _ = membership.is_draining(context);
            if membership.has_revocations() && revocation() {
                tracing::debug!("ending a session, because its user has lost access");
                return Poll::Ready(());
            }
            if running.poll_unpin(context).is_ready() || is_over(context) {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        membership.carries(0);
    }
}

/// Calls functions when it is dropped.
struct AtEnd(Vec<Box<dyn FnOnce()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        for done in self.0.drain(..) {
            done();
        }
    }
}
