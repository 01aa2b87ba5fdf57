//! Builds HTTP responses from documents, objects, lists and errors.
//!
//! This folder owns the headers and the compression of responses. It takes the results of handlers,
//! and returns an [`Answer`] for the transport. It must not know why a request got its result.
//! [`super::encoding`] produces the bytes of objects and lists.

use std::sync::Arc;

use actors::object::CachedObject;
use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode};
use metrics::Histogram;

use super::encoding::{self, CompressedRuns, Encoding, ListBody, MediaTypeRef};
use super::filters::in_flight::Counted;
use super::gzip;
use super::metrics::MeteredWatch;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::storage::ObjectList;
use crate::transport::{self, Pieces};

/// A response for the transport.
pub type Answer = Response<ResponseBody>;

/// The body of a response of the server.
pub type ResponseBody = transport::ResponseBody<MeteredWatch>;

/// The negotiated form of a response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// The format of the body.
    pub encoding: Encoding,
    /// Whether the client accepts gzip (API-65).
    pub gzip: bool,
}

/// Builds a response with this status code, media type and body.
pub fn answer(code: StatusCode, media_type: &'static str, body: Bytes) -> Answer {
    let length = HeaderValue::from(body.len());
    let mut answer = Response::new(ResponseBody::Full(body));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_LENGTH, length);
    answer
}

/// Builds a text response for people and probes. `nosniff` keeps browsers from interpreting it as
/// another type (API-47).
pub fn text(code: StatusCode, text: impl Into<String>) -> Answer {
    let body = Bytes::from(text.into());
    let mut answer = answer(code, "text/plain; charset=utf-8", body);
    answer
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Builds the text for another server that cannot be reached (CN-34).
pub fn unreachable(why: &str) -> Answer {
    let Status { message, .. } = Status::unreachable(why);
    text(StatusCode::SERVICE_UNAVAILABLE, message + "\n")
}

/// Builds the response for an unknown path: text, not a Status (API-12).
pub fn page_not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Builds the response for an unknown OpenAPI document: a 404 without a body (API-41).
pub fn document_not_found() -> Answer {
    let mut answer = Response::new(ResponseBody::Empty);
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer
}

/// Builds an error response with its headers (API-20, API-150).
pub fn refusal(status: &Status, form: &Form) -> Answer {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = document(code, form, status.to_json());
    let headers = answer.headers_mut();
    if status.retry_after_seconds() > 0 {
        headers.insert(RETRY_AFTER, status.retry_after_seconds().into());
    }
    if code == StatusCode::FORBIDDEN {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    answer
}

/// Builds a response of a document, given as compact JSON, in the negotiated form (API-57, API-60).
pub fn document(code: StatusCode, form: &Form, json: Vec<u8>) -> Answer {
    let form = Form {
        encoding: form.encoding.for_document(&json),
        ..*form
    };
    let is_status = json.starts_with(b"{\"kind\":\"Status\"");
    let mut answer = packed(code, &form, form.encoding.document(json));
    if is_status {
        answer.extensions_mut().insert(IsStatus);
    }
    answer
}

/// The header Cache-Control of responses that have no other one.
pub const UNCACHED: HeaderValue = HeaderValue::from_static("no-cache, private");

/// Marks a response of another server, whose headers and body stay as they are.
#[derive(Clone, Copy, Debug)]
pub struct PassedOn;

/// Marks a response whose body is a Status, in any encoding.
#[derive(Clone, Copy, Debug)]
pub struct IsStatus;

/// Builds a response of a complete body, compressed if it is long enough (API-65).
fn packed(code: StatusCode, form: &Form, body: Vec<u8>) -> Answer {
    let media_type = form.encoding.media_type.name();
    if !form.gzip || body.len() <= gzip::THRESHOLD_BYTES {
        return answer(code, media_type, body.into());
    }
    let mut answer = answer(code, media_type, gzip::compressed(&body).into());
    mark_gzip(&mut answer);
    answer
}

/// Builds a metrics page in the Prometheus text format, compressed if the client accepts gzip.
pub fn metrics(page: String, headers: &HeaderMap) -> Answer {
    const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
    if !gzip::is_accepted(headers) {
        return answer(StatusCode::OK, MEDIA_TYPE, page.into());
    }
    let body = gzip::compressed(page.as_bytes());
    let mut answer = answer(StatusCode::OK, MEDIA_TYPE, body.into());
    mark_gzip(&mut answer);
    answer
}

fn mark_gzip(answer: &mut Answer) {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// Builds a response of one object, converted if requested (API-68, API-71).
///
/// # Errors
/// 406 for a conversion that only lists have.
pub fn object(
    code: StatusCode,
    form: &Form,
    kind: &Arc<ResourceDefinition>,
    object: &CachedObject,
) -> Result<Answer, Box<Status>> {
    let body = form.encoding.object(kind, object)?;
    Ok(packed(code, form, body))
}

/// Builds a response of a page of objects in the negotiated form.
///
/// # Errors
/// 406 for a conversion that only single objects have (API-71).
pub async fn list(
    form: &Form,
    kind: &Arc<ResourceDefinition>,
    list: ObjectList,
    kept: &Arc<CompressedRuns>,
) -> Result<Answer, Box<Status>> {
    match encoding::list(&form.encoding, form.gzip, kind, list, kept).await? {
        ListBody::Whole(body) => Ok(packed(StatusCode::OK, form, body)),
        ListBody::Pieces(pieces) => {
            let mut answer = in_pieces(form.encoding.media_type, pieces);
            if form.gzip {
                mark_gzip(&mut answer);
            }
            Ok(answer)
        }
    }
}

fn in_pieces(media_type: MediaTypeRef, pieces: Pieces) -> Answer {
    let mut answer = Response::new(ResponseBody::Chunks(pieces));
    let media_type = HeaderValue::from_static(media_type.name());
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// Builds a watch response. The headers are sent at once, and the frames follow (WA-1).
pub fn watch(form: &Form, stream: MeteredWatch) -> Answer {
    let mut answer = Response::new(ResponseBody::Watch(stream));
    let media_type = form.encoding.media_type.stream_content_type();
    let media_type = HeaderValue::from_static(media_type);
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// Builds a response of known length in pieces.
pub fn long(media_type: &'static str, length: usize, pieces: Pieces) -> Answer {
    let mut answer = Response::new(ResponseBody::Chunks(pieces));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_LENGTH, length.into());
    answer
}

/// Builds a response of JSON lines, each of which is sent as soon as it exists.
pub fn lines(lines: Pieces) -> Answer {
    in_pieces(MediaTypeRef::default(), lines)
}

/// Builds a response of binary data.
pub fn bytes(pieces: Pieces) -> Answer {
    let mut answer = in_pieces(MediaTypeRef::default(), pieces);
    let media_type = HeaderValue::from_static("application/octet-stream");
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// Records the size of the response once it is known. A response in pieces occupies its seats until
/// its last piece.
pub fn measured(mut answer: Answer, sizes: Histogram, counted: Option<Arc<Counted>>) -> Answer {
    let body = std::mem::take(answer.body_mut());
    *answer.body_mut() = match body {
        ResponseBody::Chunks(chunks) => {
            let mut sent = Sent {
                bytes: 0,
                sizes,
                _counted: counted,
            };
            ResponseBody::Chunks(chunks.inspected(move |chunk| sent.add(chunk.len())))
        }
        ResponseBody::Full(body) => {
            sizes.record(body.len() as f64);
            ResponseBody::Full(body)
        }
        other => other,
    };
    answer
}

/// The bytes sent of a body in pieces, which are recorded when the body ends for any reason.
struct Sent {
    bytes: usize,
    sizes: Histogram,
    _counted: Option<Arc<Counted>>,
}

impl Sent {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.sizes.record(self.bytes as f64);
    }
}

/// Adds a header to the response.
pub fn with_header(mut answer: Answer, name: HeaderName, value: HeaderValue) -> Answer {
    answer.headers_mut().insert(name, value);
    answer
}

#[cfg(test)]
mod tests;
