//! Bodies of other servers that are passed on to clients and may last.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::{FutureExt, LocalBoxFuture};
use http_body::Frame;

use super::request_scope::RequestScope;
use crate::api::status::Status;
use crate::auth::WatchAccess;
use crate::egress::{ForwardedBody, HELD_BYTES_MAX};
use crate::transport::Pieces;

/// The body of another server's answer, until it ends or the daemon stops.
struct PassedOn<G> {
    body: ForwardedBody,
    has_trailers: bool,
    stops: LocalBoxFuture<'static, ()>,
    _guards: G,
}

impl<G: Unpin> Stream for PassedOn<G> {
    type Item = Result<Frame<Bytes>, String>;

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        let this = self.get_mut();
        if this.stops.poll_unpin(context).is_ready() {
            return Poll::Ready(Some(Err("the daemon stops".to_owned())));
        }
        loop {
            let frame = ready!(Pin::new(&mut this.body).poll_next(context));
            match frame {
                Some(Ok(frame)) if frame.is_trailers() && !this.has_trailers => {}
                frame => return Poll::Ready(frame),
            }
        }
    }
}

/// Returns the body of a response that passes on what another server sends. It breaks off when the
/// daemon stops, and when the user loses access. `guards` live as long as the body.
///
/// # Errors
/// 401 if the user has lost access by now.
pub fn passed_on<G: Unpin + 'static>(
    scope: &RequestScope<'_>,
    body: ForwardedBody,
    has_trailers: bool,
    guards: G,
) -> Result<Pieces, Box<Status>> {
    let access = WatchAccess::new(scope.access.clone());
    // A revocation ends what has begun, and may have come before.
    if access.access().is_revoked() {
        return Err(Box::new(Status::unauthorized()));
    }
    let frames = PassedOn {
        body,
        has_trailers,
        stops: scope.leaving.announced().boxed_local(),
        _guards: guards,
    };
    let pieces = Pieces::passed_on(frames, HELD_BYTES_MAX);
    Ok(pieces.lasting(move || access.access().is_revoked()))
}
