//! Responses to requests that reach no handler.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONNECTION, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::uri::PathAndQuery;

use crate::api::request_info::{RequestInfo, RequestInfoError};
use crate::api::status::Status;
use crate::api::text::truncation::truncated_display;
use crate::auth::{Attributes, Authorization, authorization};
use crate::server::health::Root;
use crate::server::respond::{self, Answer, ResponseBody};
use crate::server::routes::Miss;
use crate::transport::{ConnectionFacts, Refusal};

/// Responds to a panic of a handler. The panic hook of the process logs the panic itself.
pub(super) fn panicked(audit_id: &str) -> Answer {
    tracing::error!(audit_id, "the handler of a request panicked");
    respond::text(
        StatusCode::INTERNAL_SERVER_ERROR,
        "The server panicked while handling the request. See its log for details.\n",
    )
}

/// Responds to a request that the transport refuses. Invalid HTTP gets the texts of Go's server.
pub(super) fn refused_by_transport(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::TooManyConnections => {
            again_later("Too many connections are open, please try again later.\n")
        }
        Refusal::TooManyUnread => again_later(
            "Too many responses are waiting for their clients, please try again later.\n",
        ),
        Refusal::MissingHost => bad_request("missing required Host header"),
        Refusal::SeveralHosts => bad_request("too many Host headers"),
        Refusal::MalformedHost => bad_request("malformed Host header"),
        Refusal::TransferEncoding => {
            plain(StatusCode::NOT_IMPLEMENTED, "Unsupported transfer encoding")
        }
    }
}

fn again_later(text: &'static str) -> Answer {
    let answer = plain(StatusCode::TOO_MANY_REQUESTS, text);
    respond::with_header(answer, RETRY_AFTER, 1.into())
}

fn bad_request(reason: &str) -> Answer {
    let text = format!("400 Bad Request: {reason}");
    plain(StatusCode::BAD_REQUEST, text)
}

/// Builds a text response without `X-Content-Type-Options`, which Go's server leaves out here.
fn plain(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    respond::answer(code, "text/plain; charset=utf-8", text.into())
}

/// The response to a request that was rejected before or by its handler.
pub(super) enum Refused {
    /// A Status, in the form that the client accepts.
    Status(Box<Status>),
    /// A finished response.
    Answer(Box<Answer>),
}

impl From<Box<Status>> for Refused {
    fn from(status: Box<Status>) -> Refused {
        Refused::Status(status)
    }
}

impl From<Answer> for Refused {
    fn from(answer: Answer) -> Refused {
        Refused::Answer(Box::new(answer))
    }
}

impl From<Miss> for Refused {
    fn from(miss: Miss) -> Refused {
        match miss {
            Miss::Page => respond::page_not_found().into(),
            Miss::Document => respond::document_not_found().into(),
            Miss::Resource => Refused::Status(Box::new(Status::route_not_found())),
            Miss::Method => Refused::Status(Box::new(Status::method_not_allowed_route())),
        }
    }
}

/// The limit on bytes of a URL that a response repeats.
const MAX_URL_BYTES: usize = 1024;

/// Responds to a URL from which no request info can be derived (API-3).
pub(super) fn not_understood(parts: &Parts, error: &RequestInfoError) -> Answer {
    let said = truncated_display(error, MAX_URL_BYTES);
    match error {
        RequestInfoError::NoResource(_) => {
            let uri = shown_uri(parts);
            internal_error(&uri, &said.to_string())
        }
        RequestInfoError::BadEncoding(_) => respond::text(
            StatusCode::BAD_REQUEST,
            format!("400 Bad Request: {said}\n"),
        ),
    }
}

/// Returns the refusal of a request that no authorizer allows: 403, or a page with status 500 if an
/// authorizer failed (AC-28).
pub(super) fn not_authorized(
    parts: &Parts,
    attributes: &Attributes<'_>,
    answer: &Authorization,
) -> Refused {
    let Some(error) = &answer.error else {
        return authorization::forbidden(attributes, &answer.reason).into();
    };
    internal_error(&shown_uri(parts).replace('&', "&amp;"), error).into()
}

/// Returns path and query as a response repeats them.
fn shown_uri(parts: &Parts) -> String {
    let uri = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
    truncated_display(uri, MAX_URL_BYTES).to_string()
}

/// Returns the page of kube-apiserver about a request that it can't decide about.
fn internal_error(uri: &str, error: &str) -> Answer {
    let text = format!("Internal Server Error: \"{uri}\": {error}\n");
    respond::text(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// Whether a request is served during shutdown too. Probes and scrapers need that.
pub(super) fn is_served_to_the_end(info: &RequestInfo) -> bool {
    !info.is_resource
        && (Root::of_path(&info.path).is_some() || info.path.trim_matches('/') == "metrics")
}

/// Responds to a request over the in-flight limits (API-18).
pub(super) fn too_many() -> Answer {
    let code = StatusCode::TOO_MANY_REQUESTS;
    let answer = respond::text(code, "Too many requests, please try again later.\n");
    respond::with_header(answer, RETRY_AFTER, 1.into())
}

/// Responds to a browser that asks whether a page may send a request.
pub(super) fn preflight() -> Answer {
    let mut answer = Answer::new(ResponseBody::Empty);
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// Responds to a request while the daemon shuts down (http.md 1.2, row 6).
pub(super) fn shutting_down(parts: &Parts) -> Answer {
    let code = StatusCode::TOO_MANY_REQUESTS;
    let answer = respond::text(
        code,
        "The server is shutting down, please try again later.\n",
    );
    let answer = respond::with_header(answer, RETRY_AFTER, 5.into());
    let facts = parts.extensions.get::<ConnectionFacts>();
    if facts.is_some_and(|facts| facts.http2) {
        // HTTP/2 has no `Connection` header. The transport sends a GOAWAY instead.
        return answer;
    }
    respond::with_header(answer, CONNECTION, HeaderValue::from_static("close"))
}
