//! Sessions: connections of HTTP/1.1 that speak another protocol after a response 101.
//!
//! A session runs in the task of its connection, so fairness charges its time to the connection's
//! user, and it holds the connection's slot. It has to end by itself when the daemon stops.

use futures_util::future::{FutureExt, LocalBoxFuture};

use crate::upgraded::ByteStream;

/// The connection to the client.
pub type ClientStream = Box<dyn ByteStream>;

pub(super) type Run = Box<dyn FnOnce(ClientStream) -> LocalBoxFuture<'static, ()>>;

/// The rest of a connection after its response 101.
pub struct Session {
    run: Run,
    revocation: Box<dyn Fn() -> bool>,
    at_end: Vec<Box<dyn FnOnce()>>,
    is_one_way: bool,
    held: usize,
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
            is_one_way: false,
            held: 0,
        }
    }

    /// The same session, whose client only receives. One that takes nothing has as long as the
    /// client of a watch. `held` is the most bytes that the source of the session may take
    /// meanwhile. They count as held for the connection.
    #[must_use]
    pub fn one_way(self, held: usize) -> Session {
        Session {
            is_one_way: true,
            held,
            ..self
        }
    }

    /// The most bytes that the session may take while the client reads nothing.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Adds a function that is called when the session ends for any reason.
    pub fn at_end(&mut self, done: impl FnOnce() + 'static) {
        self.at_end.push(Box::new(done));
    }

    /// The parts that the protocol runs.
    pub(super) fn into_parts(self) -> SessionParts {
        SessionParts {
            run: self.run,
            is_revoked: self.revocation,
            at_end: AtEnd(self.at_end),
            is_one_way: self.is_one_way,
        }
    }
}

/// A session as its protocol runs it.
pub(super) struct SessionParts {
    pub(super) run: Run,
    pub(super) is_revoked: Box<dyn Fn() -> bool>,
    /// Dropped when the session has ended.
    pub(super) at_end: AtEnd,
    pub(super) is_one_way: bool,
}

/// Calls functions when it is dropped.
pub(super) struct AtEnd(Vec<Box<dyn FnOnce()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        for done in self.0.drain(..) {
            done();
        }
    }
}
