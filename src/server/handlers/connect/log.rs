//! The log of a container, as its kubelet sends it (CN-39 to CN-46, CN-120).

use std::task::{Context, Poll, ready};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::stream::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{HeaderMap, Method, Response, StatusCode};

use super::super::{Answered, watch};
use super::answer_of;
use crate::api::status::{Status, StatusDetails, StatusReason};
use crate::api::text::quoting::go_quote;
use crate::egress::{ForwardAnswer, ForwardBody, ForwardRequest, ForwardedBody};
use crate::registry::rest::KubeletRequest;
use crate::server::metrics::LongRunning;
use crate::server::negotiation::Offer;
use crate::server::passed_on::lasting;
use crate::server::request_scope::RequestScope;
use crate::server::respond::{Answer, ResponseBody};
use crate::server::routes::Target;
use crate::server::{sessions, web_sockets};
use crate::transport::{Ending, Pieces, RequestBody};
use crate::upgraded::websocket::{CloseCode, MessageKind};
use crate::upgraded::{Message, Messages, Next};

/// The most bytes of a kubelet's error that are shown, as in kube-apiserver.
const ERROR_BYTES_MAX: usize = 50_000;

/// The protocol that sends a log in base64, as text.
const BASE64: &str = "base64.binary.k8s.io";

/// The protocols of logs over WebSocket.
const PROTOCOLS: [&str; 2] = ["binary.k8s.io", BASE64];

/// The time for such an error.
const REFUSAL_TIME: Duration = Duration::from_secs(10);

/// The resource as the errors of kubelets name it.
const RESOURCE: &str = "pods/log";

/// Checks that the client takes text, or one of the types of objects (CN-40).
///
/// # Errors
/// 406
pub(super) fn negotiate(scope: &RequestScope<'_>) -> Result<(), Box<Status>> {
    let takes_text = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or_default();
        let kinds = text
            .split(',')
            .map(|kind| kind.split(';').next().unwrap_or_default().trim());
        // linear: a client names a few types.
        kinds
            .into_iter()
            .any(|kind| kind == "text/plain" || kind == "text/*")
    };
    // linear: as above.
    if scope.headers.get_all(ACCEPT).iter().any(takes_text) {
        return Ok(());
    }
    scope.form(Offer::Plain).map(drop)
}

/// Asks the kubelet for a log, and passes on what it sends.
pub(super) async fn log(
    scope: &RequestScope<'_>,
    target: &Target,
    request: KubeletRequest,
    skips_verification: bool,
    body: &RequestBody,
) -> Answered {
    let seat = watch::seat(scope)?;
    let running = LongRunning::begin(&Method::GET, target.storage.resource(), "log");
    let kubelets = &scope.server.kubelets;
    let kubelet = kubelets.target(&request.host, request.port, skips_verification);
    let kubelet = kubelet.await.map_err(Status::unknown)?;
    // Nothing of the client's request goes along but the query.
    let forward = ForwardRequest {
        method: Method::GET,
        path: request.path,
        headers: HeaderMap::new(),
        body: ForwardBody::Whole(Bytes::new()),
        // The kubelet sends no head before the container has written something.
        deadline: None,
    };
    let asking = kubelets.egress().forward(&kubelet, forward);
    let answer = answer_of(scope, false, asking).await?;
    let answer = answer.map_err(|error| Status::unknown(error.to_string()))?;
    if !(200..=206).contains(&answer.status.as_u16()) {
        return Err(refused(answer, &target.name).await);
    }
    let pieces = lasting(
        answer.body,
        false,
        scope.leaving,
        scope.access.clone(),
        (seat, running),
    )?;
    if web_sockets::is_asked_for(scope.parts) {
        return Ok(over_web_socket(scope, body, pieces));
    }
    let mut answer = Response::new(ResponseBody::Chunks(pieces));
    let media_type = HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    Ok(answer)
}

/// Answers with a WebSocket. Like kube-apiserver, the daemon looks at the handshake last (CN-120).
fn over_web_socket(scope: &RequestScope<'_>, body: &RequestBody, pieces: Pieces) -> Answer {
    let (headers, protocol) = match web_sockets::accepted_of(scope.parts, body, &PROTOCOLS) {
        Ok(accepted) => accepted,
        Err(status) => return web_sockets::refusal(scope, &status),
    };
    let (held, revocation) = (pieces.held(), pieces.revocation().cloned());
    let is_revoked = move || revocation.as_ref().is_some_and(|is_revoked| is_revoked());
    let messages = LogMessages {
        pieces,
        is_base64: protocol == BASE64,
        has_begun: false,
    };
    sessions::pushed(headers, messages, held, scope.leaving, is_revoked)
}

/// A log as messages of a WebSocket.
struct LogMessages {
    pieces: Pieces,
    is_base64: bool,
    /// Whether the empty message was sent by which a client sees that the log begins.
    has_begun: bool,
}

impl Messages for LogMessages {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        let piece = match std::mem::replace(&mut self.has_begun, true) {
            true => ready!(self.pieces.poll_next(context)),
            false => Some(Bytes::new()),
        };
        let Some(piece) = piece else {
            return Poll::Ready(Next::End(match self.pieces.ending() {
                Ending::Broken => CloseCode::BrokenOff,
                Ending::Complete | Ending::Trailers(_) => CloseCode::Normal,
            }));
        };
        Poll::Ready(Next::Message(match self.is_base64 {
            true => Message {
                kind: MessageKind::Text,
                content: BASE64_STANDARD.encode(&piece).into(),
            },
            false => Message {
                kind: MessageKind::Binary,
                content: piece,
            },
        }))
    }
}

/// Returns the Status for an answer other than a log (CN-44).
async fn refused(answer: ForwardAnswer, pod: &str) -> Box<Status> {
    let location = answer.headers.get(LOCATION).map(HeaderValue::as_bytes);
    if let (301 | 302 | 303 | 307 | 308, Some(location)) = (answer.status.as_u16(), location) {
        let location = String::from_utf8_lossy(location);
        let text = format!("Get \"{location}\": redirects forbidden");
        return Box::new(Status::unknown(text));
    }
    let mut text = BytesMut::new();
    // The text that has come by then is shown.
    let _ = tokio::time::timeout(REFUSAL_TIME, read_into(&mut text, answer.body)).await;
    text.truncate(ERROR_BYTES_MAX);
    let text = String::from_utf8_lossy(&text).into_owned();
    Box::new(match answer.status {
        StatusCode::INTERNAL_SERVER_ERROR => Status::internal(text),
        StatusCode::BAD_REQUEST => Status::bad_request(text),
        status => of_server(status, text, pod),
    })
}

/// Reads the beginning of a body.
async fn read_into(text: &mut BytesMut, mut body: ForwardedBody) {
    while let Some(Ok(frame)) = body.next().await
        && text.len() < ERROR_BYTES_MAX
    {
        text.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
}

/// Returns the Status that Kubernetes' clients make of another server's answer.
fn of_server(status: StatusCode, text: String, pod: &str) -> Status {
    let (reason, message) = match status.as_u16() {
        401 => (
            StatusReason::UNAUTHORIZED,
            "the server has asked for the client to provide credentials",
        ),
        403 => (StatusReason::FORBIDDEN, &*text),
        404 => (
            StatusReason::NOT_FOUND,
            "the server could not find the requested resource",
        ),
        405 => (
            StatusReason::METHOD_NOT_ALLOWED,
            "the server does not allow this method on the requested resource",
        ),
        409 => (StatusReason::CONFLICT, "the server reported a conflict"),
        422 => (
            StatusReason::INVALID,
            "the server rejected our request due to an error in our request",
        ),
        429 => (
            StatusReason::TOO_MANY_REQUESTS,
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => (
            StatusReason::SERVICE_UNAVAILABLE,
            "the server is currently unable to handle the request",
        ),
        504 => (
            StatusReason::TIMEOUT,
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request",
        ),
        _ => (StatusReason::INTERNAL_ERROR, ""),
    };
    let message = match (message, status.as_u16()) {
        (message, 403) => message.to_owned(),
        ("", _) => format!(
            "an error on the server ({}) has prevented the request from succeeding",
            go_quote(&text)
        ),
        (message, _) => message.to_owned(),
    };
    let message = format!("{message} ( {RESOURCE} {pod})");
    Status::failure(status.as_u16(), reason, message).with_details(StatusDetails {
        name: pod.to_owned(),
        kind: RESOURCE.to_owned(),
        ..StatusDetails::default()
    })
}
