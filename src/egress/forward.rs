//! Requests that are passed on for a client of the daemon: bodies stream both ways.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::client::{EgressClient, Outline, error};
use super::dial;
use super::error::{EgressError, Failure};
use super::outgoing::{ForwardBody, Upload};
use super::pool::{Connection, Pool};
use super::target::Target;

/// A request to pass on. Redirects are never followed.
pub struct ForwardRequest {
    /// The method.
    pub method: Method,
    /// The path and query, which begin with a slash.
    pub path: String,
    /// All headers but Authorization and Content-Length. Without a Host it is the target's. They
    /// must not have credentials of the daemon's users.
    pub headers: HeaderMap,
    /// The body.
    pub body: ForwardBody,
    /// When the head of the answer must have come. `None` waits as long as the client does. The
    /// body has no deadline.
    pub deadline: Option<Instant>,
}

/// An answer whose body streams.
pub struct ForwardAnswer {
    /// The status, which is never 1xx.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: ForwardedBody,
}

/// The frames of an answer's body: data, then perhaps trailers. An error says that the body ended
/// early. Dropping it breaks the request off.
pub struct ForwardedBody {
    incoming: Incoming,
    /// The rest of the request's body. A server may answer before it has read it.
    upload: Option<Upload>,
    /// The connection, which another request may use after the end of this body.
    returned: Option<(Arc<Pool>, Connection)>,
}

impl Stream for ForwardedBody {
    type Item = Result<Frame<Bytes>, String>;

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        let this = self.get_mut();
        Upload::poll(&mut this.upload, context);
        let frame = ready!(Pin::new(&mut this.incoming).poll_frame(context));
        if frame.is_none()
            && this.upload.is_none()
            && let Some((pool, connection)) = this.returned.take()
        {
            pool.put(connection);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| dial::of_body(&error))))
    }
}

impl EgressClient {
    /// Passes a request on, and returns when the head of the answer has come. It stays on the
    /// calling thread. Dropping the future, or the body of the answer, breaks the request off.
    ///
    /// # Errors
    /// No connection, or no head of an answer.
    pub async fn forward(
        &self,
        target: &Target,
        request: ForwardRequest,
    ) -> Result<ForwardAnswer, EgressError> {
        let outline = Outline::forwarded(&request.method, &request.path, &request.headers);
        let begin = Instant::now();
        let (body, mut upload) = request.body.split();
        let exchanged = {
            let mut attempts = pin!(self.attempts(target, outline, body));
            let both = poll_fn(|context| {
                Upload::poll(&mut upload, context);
                attempts.as_mut().poll(context)
            });
            match request.deadline {
                Some(deadline) => timeout_at(deadline, both).await,
                None => Ok(both.await),
            }
        };
        let exchanged = exchanged.unwrap_or(Err(Failure::Deadline));
        self.count(target, outline, &exchanged, begin);
        let (answer, returned) = exchanged.map_err(|why| error(target, outline, why))?;
        let (head, incoming) = answer.into_parts();
        if head.status.is_informational() {
            // Nobody has asked for another protocol.
            let text = format!("unexpected answer {}", head.status);
            return Err(error(target, outline, Failure::Transport(text)));
        }
        Ok(ForwardAnswer {
            status: head.status,
            headers: head.headers,
            body: ForwardedBody {
                incoming,
                upload,
                returned: Some(returned),
            },
        })
    }
}
