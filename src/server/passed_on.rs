//! Requests and answers that are passed on between clients and other servers.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, FutureExt, LocalBoxFuture, select};
use futures_util::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use http_body::Frame;
use tokio::time::{Instant, sleep_until, timeout};

use super::leaving::Leaving;
use super::links::PassedBody;
use super::respond::{Answer, PassedOn, ResponseBody, UNCACHED};
use crate::api::status::Status;
use crate::auth::{Access, Authenticators, WatchAccess};
use crate::egress::ForwardBody;
use crate::transport::{Pieces, RequestBody};

/// How long the answer to a write may take to begin when its user has lost access, and then to end.
const OUTCOME_WITHIN: Duration = Duration::from_secs(10);

/// The body of another server's answer, until something breaks it off.
struct Passing<G> {
    body: PassedBody,
    has_trailers: bool,
    /// Resolves with the reason.
    broken: LocalBoxFuture<'static, &'static str>,
    _guards: G,
}

impl<G: Unpin> Stream for Passing<G> {
    type Item = Result<Frame<Bytes>, String>;

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        let this = self.get_mut();
        if let Poll::Ready(why) = this.broken.poll_unpin(context) {
            return Poll::Ready(Some(Err(why.to_owned())));
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

/// Waits for the answer of another server. The loss of access ends the wait at once, or
/// [`OUTCOME_WITHIN`] later for a write: its user learns the outcome, because the other server may
/// have carried it out.
///
/// # Errors
/// 401 if the user has lost this access, and no answer has come.
pub async fn awaited<T>(
    asking: impl Future<Output = T>,
    is_write: bool,
    access: &Access,
    authenticators: &Authenticators,
) -> Result<T, Box<Status>> {
    let revoked = authenticators.revoked(access.clone());
    let refusal = || Box::new(Status::unauthorized());
    match select(pin!(asking), pin!(revoked)).await {
        Either::Left((answer, _)) => Ok(answer),
        Either::Right((_, asking)) if is_write => {
            let outcome = timeout(OUTCOME_WITHIN, asking).await;
            outcome.map_err(|_| refusal())
        }
        Either::Right(_) => Err(refusal()),
    }
}

/// Returns the body of a response that passes on what another server sends, and may last. It breaks
/// off when the daemon stops, and when the user loses access. `guards` live as long as the body.
///
/// # Errors
/// 401 if the user has lost access by now.
pub fn lasting<G: Unpin + 'static>(
    body: impl Into<PassedBody>,
    has_trailers: bool,
    leaving: &Leaving,
    access: Access,
    guards: G,
) -> Result<Pieces, Box<Status>> {
    let access = WatchAccess::new(access);
    // A revocation ends what has begun, and may have come before.
    if access.access().is_revoked() {
        return Err(Box::new(Status::unauthorized()));
    }
    let stops = leaving.announced();
    let body = body.into();
    let held = body.held();
    let frames = Passing {
        body,
        has_trailers,
        broken: stops.map(|()| "the daemon stops").boxed_local(),
        _guards: guards,
    };
    let pieces = Pieces::passed_on(frames, held);
    Ok(pieces.lasting(move || access.access().is_revoked()))
}

/// Returns the same for the response to a request of any method. The answer to a write also reaches
/// a user who had lost access before it began, if it is complete within [`OUTCOME_WITHIN`].
///
/// # Errors
/// 401 if the user has lost access before the answer to a read.
pub fn of_request<G: Unpin + 'static>(
    method: &Method,
    body: impl Into<PassedBody>,
    leaving: &Leaving,
    access: Access,
    guards: G,
) -> Result<Pieces, Box<Status>> {
    match !method.is_safe() && access.is_revoked() {
        true => Ok(timed(body, Instant::now() + OUTCOME_WITHIN, guards)),
        false => lasting(body, true, leaving, access, guards),
    }
}

/// Returns the same for a response that may not last. It breaks off at the deadline.
pub fn timed<G: Unpin + 'static>(
    body: impl Into<PassedBody>,
    deadline: Instant,
    guards: G,
) -> Pieces {
    let over = sleep_until(deadline);
    let body = body.into();
    let held = body.held();
    let frames = Passing {
        body,
        has_trailers: true,
        broken: over
            .map(|()| "the time of the request is over")
            .boxed_local(),
        _guards: guards,
    };
    Pieces::passed_on(frames, held)
}

/// Returns the body of a request in the form that is passed on.
pub fn upload(body: RequestBody, headers: &HeaderMap) -> ForwardBody {
    let mut source = match body {
        RequestBody::Empty => return ForwardBody::Whole(Bytes::new()),
        RequestBody::Bytes(bytes) => return ForwardBody::Whole(bytes),
        RequestBody::Arriving(source) => source,
    };
    let length = headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let pieces = stream::poll_fn(move |context| source.poll_data(context));
    ForwardBody::Arriving {
        pieces: pieces.boxed_local(),
        length,
    }
}

/// Returns an answer of another server whose body has come.
pub fn whole(status: StatusCode, mut headers: HeaderMap, body: Bytes) -> Answer {
    headers.insert(CONTENT_LENGTH, body.len().into());
    answered(status, headers, ResponseBody::Full(body))
}

/// Returns an answer of another server, which may say more about its caching.
pub fn answered(status: StatusCode, mut headers: HeaderMap, body: ResponseBody) -> Answer {
    let caching: Vec<HeaderValue> = headers.get_all(CACHE_CONTROL).iter().cloned().collect();
    headers.insert(CACHE_CONTROL, UNCACHED);
    for value in caching {
        headers.append(CACHE_CONTROL, value);
    }
    let mut answer = Answer::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer.extensions_mut().insert(PassedOn);
    answer
}
