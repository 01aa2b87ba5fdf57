//! From what a handler has to bytes on the wire: documents, objects, lists, refusals.
//!
//! Objects and lists are written from the wire form that the cache holds; a plain JSON answer is
//! never parsed. Long lists go out in pieces ([`pieces`]), so that they neither stand in memory
//! twice nor keep the thread's watches waiting.

mod kept;
mod list;
mod pieces;
mod text;

use std::sync::Arc;

use actors::object::CachedObject;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use metrics::Histogram;

pub use kept::KeptRuns;
pub use list::{ListMetadata, list};

use super::body::ResponseBody;
use super::conversion::{self, IncludeObject, TableForm};
use super::filters::in_flight::Counted;
use super::gzip;
use super::metrics::MeteredWatch;
use super::negotiation::{Accepted, Conversion, Format, MetaVersion};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::clock;

/// An answer on its way to the transport.
pub type Answer = Response<ResponseBody>;

/// How a client wants its answer: what it accepts, and what it wants to see in Tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// Text form and conversion.
    pub accepted: Accepted,
    /// Whether it takes gzip (API-65).
    pub gzip: bool,
    /// What rows of Tables carry.
    pub include: IncludeObject,
}

/// An answer with this code, type and body.
pub fn answer(code: StatusCode, media_type: &'static str, body: Bytes) -> Answer {
    let length = HeaderValue::from(body.len());
    let mut answer = Response::new(ResponseBody::Full(body));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_LENGTH, length);
    answer
}

/// A text for people and probes, not to be taken for anything else (API-47).
pub fn text(code: StatusCode, text: impl Into<String>) -> Answer {
    let body = Bytes::from(text.into());
    let mut answer = answer(code, "text/plain; charset=utf-8", body);
    answer
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// A path that leads nowhere: text, not a Status (API-12).
pub fn page_not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// A refusal, with the headers that go with it (API-20, API-150).
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

/// Any document, given as compact JSON, in the form that was agreed on (API-57, API-60).
pub fn document(code: StatusCode, form: &Form, json: Vec<u8>) -> Answer {
    let body = text::rendered(json, form.accepted);
    packed(code, form, body)
}

/// A whole body, compressed where that pays (API-65).
fn packed(code: StatusCode, form: &Form, body: Vec<u8>) -> Answer {
    let media_type = form.accepted.format.media_type();
    if !form.gzip || body.len() <= gzip::THRESHOLD_BYTES {
        return answer(code, media_type, body.into());
    }
    let mut answer = answer(code, media_type, gzip::compressed(&body).into());
    mark_gzip(&mut answer);
    answer
}

fn mark_gzip(answer: &mut Answer) {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// One object, converted if that was asked for (API-68, API-71).
///
/// # Errors
/// 406 for a conversion that only lists have.
pub fn object(
    code: StatusCode,
    form: &Form,
    definition: &Arc<ResourceDefinition>,
    object: &CachedObject,
) -> Result<Answer, Box<Status>> {
    let json = match form.accepted.conversion {
        None | Some(Conversion::AggregatedDiscovery) => {
            // With room for the newline at the end.
            let mut json = Vec::with_capacity(object.wire.len() + 1);
            json.extend_from_slice(&object.wire);
            json
        }
        Some(Conversion::Metadata(version)) => {
            let mut out = Vec::new();
            conversion::write_partial_metadata(conversion::metadata_of(object), version, &mut out);
            out
        }
        Some(Conversion::MetadataList(_)) => {
            return Err(Box::new(Status::not_acceptable_because(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list \
                 ({})",
                definition.kind
            ))));
        }
        Some(Conversion::Table(version)) => table_of_one(form, definition, version, object)?,
    };
    Ok(document(code, form, json))
}

fn table_of_one(
    form: &Form,
    definition: &Arc<ResourceDefinition>,
    version: MetaVersion,
    object: &CachedObject,
) -> Result<Vec<u8>, Box<Status>> {
    let table = TableForm {
        definition: definition.clone(),
        version,
        include: form.include,
    };
    let mut out = Vec::new();
    let metadata = match object.revision.0 {
        0 => String::new(),
        revision => format!(r#""resourceVersion":"{revision}""#),
    };
    table.write_opening(&metadata, true, &mut out);
    if !table.write_row(object, clock::now(), &mut out) {
        return Err(Box::new(Status::internal(
            "a stored object can't be shown as a table",
        )));
    }
    out.extend_from_slice(b"]}");
    Ok(out)
}

/// A watch: the headers at once, then its frames (WA-1).
pub fn watch(stream: MeteredWatch) -> Answer {
    let mut answer = Response::new(ResponseBody::Watch(stream));
    let json = HeaderValue::from_static(Format::Json.media_type());
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// JSON line by line, each when there is one.
pub fn lines(lines: impl Stream<Item = Bytes> + 'static) -> Answer {
    let mut answer = Response::new(ResponseBody::Chunks(lines.boxed_local()));
    let json = HeaderValue::from_static(Format::Json.media_type());
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// The answer with its size recorded once it is known. What goes out in pieces counts as being
/// answered until its last one.
pub fn measured(mut answer: Answer, sizes: Histogram, counted: Option<Counted>) -> Answer {
    let body = std::mem::take(answer.body_mut());
    *answer.body_mut() = match body {
        ResponseBody::Chunks(chunks) => {
            let mut sent = Sent {
                bytes: 0,
                sizes,
                _counted: counted,
            };
            let counting = chunks.inspect(move |chunk| sent.add(chunk.len()));
            ResponseBody::Chunks(counting.boxed_local())
        }
        ResponseBody::Full(body) => {
            sizes.record(body.len() as f64);
            ResponseBody::Full(body)
        }
        other => other,
    };
    answer
}

/// What was sent of a body in pieces; recorded when it ends, one way or the other.
struct Sent {
    bytes: usize,
    sizes: Histogram,
    _counted: Option<Counted>,
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

/// The same answer with one more header.
pub fn with_header(mut answer: Answer, name: HeaderName, value: HeaderValue) -> Answer {
    answer.headers_mut().insert(name, value);
    answer
}

#[cfg(test)]
mod tests;
