//! A request on its way through the service, and how its response starts.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use h2::server::SendResponse;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Method, Request, Response};

use super::outbound::Source;
use crate::server::body::{ConnectionFacts, HttpService, RequestBody, ResponseBody};
use crate::server::listener::http_date::HttpDate;

/// Bodies up to this size are handed to h2 whole and forgotten.
const FORGOTTEN_BYTES_MAX: usize = 64 * 1024;

/// An answer and where it goes.
pub(super) struct Reply {
    respond: SendResponse<Bytes>,
    response: Response<ResponseBody>,
    bodiless: bool,
}

/// Lets the service answer; `None` when the client gave the request up.
pub(super) async fn answer<S: HttpService>(
    service: S,
    facts: ConnectionFacts,
    mut request: Request<RequestBody>,
    mut respond: SendResponse<Bytes>,
) -> Option<Reply> {
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

/// A response that has started.
pub(super) struct Started {
    /// What remains to be sent.
    pub(super) body: Option<(h2::SendStream<Bytes>, Source, Bytes)>,
    /// Whether the service wants the connection closed after this (API-282).
    pub(super) close: bool,
    /// Whether a body that is sent already has to wait for window.
    pub(super) is_window_short: bool,
}

impl Reply {
    /// Sends the head, and a short body with it.
    ///
    /// # Errors
    /// The client has gone.
    pub(super) fn start(mut self, date: &HttpDate) -> Result<Started, h2::Error> {
        let (mut parts, body) = self.response.into_parts();
        let close = says_close(parts.headers.get(CONNECTION));
        // HTTP/2 knows no such headers; h2 would refuse the response.
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
                ResponseBody::Empty => true,
                ResponseBody::Full(bytes) => bytes.is_empty(),
                ResponseBody::Chunks(_) | ResponseBody::Watch(_) => false,
            };
        let mut stream = self
            .respond
            .send_response(Response::from_parts(parts, ()), whole)?;
        let mut is_window_short = false;
        let body = match body {
            _ if whole => None,
            ResponseBody::Empty => None,
            ResponseBody::Full(bytes) if bytes.len() <= FORGOTTEN_BYTES_MAX => {
                stream.reserve_capacity(bytes.len());
                is_window_short = stream.capacity() < bytes.len();
                stream.send_data(bytes, true)?;
                None
            }
            ResponseBody::Full(bytes) => Some((stream, Source::Nothing, bytes)),
            ResponseBody::Chunks(chunks) => Some((stream, Source::Chunks(chunks), Bytes::new())),
            ResponseBody::Watch(watch) => Some((stream, Source::Watch(watch), Bytes::new())),
        };
        Ok(Started {
            body,
            close,
            is_window_short,
        })
    }
}

fn says_close(connection: Option<&HeaderValue>) -> bool {
    connection.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}
