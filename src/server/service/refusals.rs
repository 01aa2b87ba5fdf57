//! Responses to requests that reach no handler.

use http::StatusCode;
use http::header::{CONNECTION, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::uri::PathAndQuery;

use crate::api::request_info::{RequestInfo, RequestInfoError};
use crate::api::status::Status;
use crate::api::truncated::truncated_display;
use crate::server::body::ConnectionFacts;
use crate::server::health::Root;
use crate::server::respond::{self, Answer};
use crate::server::routes::Miss;

/// The response to a panic. The panic hook of the process logs the panic itself.
pub(super) fn panicked(audit_id: &str) -> Answer {
    tracing::error!(audit_id, "a request made its handler panic");
    respond::text(
        StatusCode::INTERNAL_SERVER_ERROR,
        "The request made the server panic. Its log says more.\n",
    )
}

/// Why a request was not answered by its handler.
pub(super) enum Refused {
    /// Answered with a Status.
    Status(Box<Status>),
    /// Answered in another way.
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

/// The most bytes of a URL that are repeated to the client.
const MAX_URL_BYTES: usize = 1024;

/// The response to a URL that cannot be parsed (API-3).
pub(super) fn not_understood(parts: &Parts, error: &RequestInfoError) -> Answer {
    let said = truncated_display(error, MAX_URL_BYTES);
    match error {
        RequestInfoError::NoResource(_) => {
            let uri = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
            let uri = truncated_display(uri, MAX_URL_BYTES);
            respond::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("Internal Server Error: \"{uri}\": {said}\n"),
            )
        }
        RequestInfoError::BadEncoding(_) => respond::text(
            StatusCode::BAD_REQUEST,
            format!("400 Bad Request: {said}\n"),
        ),
    }
}

/// Whether a request is served until the process exits, as those of probes and scrapers are.
pub(super) fn is_served_to_the_end(info: &RequestInfo) -> bool {
    !info.is_resource
        && (Root::of_path(&info.path).is_some() || info.path.trim_matches('/') == "metrics")
}

/// The response to more requests than the limits allow (API-18).
pub(super) fn too_many() -> Answer {
    let code = StatusCode::TOO_MANY_REQUESTS;
    let answer = respond::text(code, "Too many requests, please try again later.\n");
    respond::with_header(answer, RETRY_AFTER, 1.into())
}

/// The response while the daemon shuts down (http.md 1.2, row 6).
pub(super) fn shutting_down(parts: &Parts) -> Answer {
    let code = StatusCode::TOO_MANY_REQUESTS;
    let answer = respond::text(
        code,
        "The server is shutting down, please try again later.\n",
    );
    let answer = respond::with_header(answer, RETRY_AFTER, 5.into());
    let facts = parts.extensions.get::<ConnectionFacts>();
    if facts.is_some_and(|facts| facts.http2) {
        // HTTP/2 has no such header. Its connections get a GOAWAY.
        return answer;
    }
    respond::with_header(answer, CONNECTION, HeaderValue::from_static("close"))
}
