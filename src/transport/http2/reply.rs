//! Runs a request through the service and starts its response.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use h2::server::SendResponse;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Method, Request, Response, StatusCode};

use super::outbound::Source;
use crate::transport::connection_state::{ConnectionState, Held};
use crate::transport::http_date::HttpDate;
use crate::transport::{ConnectionFacts, HttpService, RequestBody, ResponseBody};

/// The largest body that h2 gets whole if the client has room for it. Nothing is tracked for such a
/// body afterwards.
const FORGOTTEN_BYTES_MAX: usize = 64 * 1024;

/// A response and the stream it belongs to.
pub(super) struct Reply<W> {
    respond: SendResponse<Bytes>,
    response: Response<ResponseBody<W>>,
    bodiless: bool,
}

/// Runs the service. Returns `None` when the client cancels the request.
pub(super) async fn answer<S: HttpService>(
    service: S,
    facts: ConnectionFacts,
    mut request: Request<RequestBody>,
    mut respond: SendResponse<Bytes>,
    held: Held,
) -> Option<Reply<S::Watch>> {
    let _held = held;
    let bodiless = request.method() == Method::HEAD;
    request.extensions_mut().insert(facts);
    let mut answering = pin!(service.call(request));
    let response = poll_fn(|context| {
        if respond.poll_reset(context).is_ready() {
            return Poll::Ready(None);
        }
        answering.as_mut().poll(context).map(Some)
    })
    .await?;
    Some(Reply {
        respond,
        response,
        bodiless,
    })
}

/// The response to a request that the service does not see.
pub(super) fn refused<W>(
    respond: SendResponse<Bytes>,
    response: Response<ResponseBody<W>>,
) -> Reply<W> {
    Reply {
        respond,
        response,
        bodiless: false,
    }
}

/// Returns the number of bytes that a request without its body holds until it is answered.
pub(super) fn request_bytes<B>(request: &Request<B>) -> usize {
    let path = request.uri().path_and_query();
    let path = path.map_or(0, |path| path.as_str().len());
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES);
    REQUEST_BYTES + path + headers.sum::<usize>()
}

/// A response that has started.
pub(super) struct Started<W> {
    /// The unsent rest of the body.
    pub(super) body: Option<(h2::SendStream<Bytes>, Source<W>, Bytes)>,
    /// Bytes handed to h2.
    pub(super) sent: usize,
    /// Whether the service wants the connection closed after this (API-282).
    pub(super) close: bool,
    /// Whether the body has to wait for window.
    pub(super) is_window_short: bool,
}

/// The approximate size of an empty request, and of each header in addition to its text.
const REQUEST_BYTES: usize = 1024;
const HEADER_BYTES: usize = 96;

/// The approximate size of the headers of a response.
const HEAD_BYTES: usize = 256;

impl<W> Reply<W> {
    /// Returns the number of bytes that the response holds until it is sent.
    pub(super) fn held_bytes(&self) -> usize {
        HEAD_BYTES + held_bytes(self.response.body())
    }

    /// Sends the headers, together with a short body if the client has room for it.
    ///
    /// # Errors
    /// The client has closed the stream.
    pub(super) fn start(
        mut self,
        date: &HttpDate,
        state: &Rc<ConnectionState>,
    ) -> Result<Started<W>, h2::Error> {
        let (mut parts, body) = self.response.into_parts();
        if matches!(body, ResponseBody::Session(_)) {
            // HTTP/2 has no upgrades, and the service asks for none.
            parts.status = StatusCode::BAD_REQUEST;
            parts.headers.clear();
        }
        let close = says_close(parts.headers.get(CONNECTION));
        // HTTP/2 does not allow these headers, and h2 would refuse the response.
        for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE] {
            parts.headers.remove(name);
        }
        for name in ["keep-alive", "proxy-connection"] {
            parts.headers.remove(name);
        }
        if let ResponseBody::Full(bytes) = &body {
            parts
                .headers
                .entry(CONTENT_LENGTH)
                .or_insert_with(|| HeaderValue::from(bytes.len()));
        }
        parts.headers.entry(DATE).or_insert_with(|| date.now());
        let whole = self.bodiless
            || match &body {
                ResponseBody::Empty | ResponseBody::Session(_) => true,
                ResponseBody::Full(bytes) => bytes.is_empty(),
                ResponseBody::Chunks(_) | ResponseBody::Watch(_) => false,
            };
        let mut stream = self
            .respond
            .send_response(Response::from_parts(parts, ()), whole)?;
        let mut is_window_short = false;
        let mut sent = HEAD_BYTES;
        let body = match body {
            _ if whole => None,
            ResponseBody::Empty | ResponseBody::Session(_) => None,
            ResponseBody::Full(bytes) if bytes.len() <= FORGOTTEN_BYTES_MAX => {
                stream.reserve_capacity(bytes.len());
                is_window_short = stream.capacity() < bytes.len();
                if is_window_short {
                    let held = state.hold_answer(bytes.len());
                    Some((stream, Source::Nothing(held), bytes))
                } else {
                    sent += bytes.len();
                    stream.send_data(bytes, true)?;
                    None
                }
            }
            ResponseBody::Full(bytes) => {
                let held = state.hold_answer(bytes.len());
                Some((stream, Source::Nothing(held), bytes))
            }
            ResponseBody::Chunks(pieces) => {
                let held = state.hold_answer(match pieces.revocation() {
                    Some(_) => 0,
                    None => pieces.held(),
                });
                Some((stream, Source::Chunks { pieces, held }, Bytes::new()))
            }
            ResponseBody::Watch(watch) => Some((stream, Source::Watch(watch), Bytes::new())),
        };
        Ok(Started {
            body,
            sent,
            close,
            is_window_short,
        })
    }
}

/// Returns the number of bytes that a body holds while its client does not read it.
fn held_bytes<W>(body: &ResponseBody<W>) -> usize {
    match body {
        ResponseBody::Full(bytes) => bytes.len(),
        ResponseBody::Chunks(pieces) => pieces.held(),
        ResponseBody::Empty | ResponseBody::Watch(_) | ResponseBody::Session(_) => 0,
    }
}

fn says_close(connection: Option<&HeaderValue>) -> bool {
    connection.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}
