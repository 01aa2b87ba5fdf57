//! OpenAPI documents (API-39 to API-46), with the schemas of all kinds and what is said of them.
//!
//! This folder owns the documents under `/openapi`. Resource definitions enter, and finished
//! responses leave. It must not know objects, users or connections.
//!
//! [`schemas`] and [`operations`] describe the API once. `v2` and `v3` write it in the two formats,
//! and `protobuf` packs the first for clients that ask for protobuf. Documents take several MB, so
//! they are written when they are asked for. Of each the hash is kept, and what clients that take
//! gzip were sent ([`document`]).

mod document;
mod operations;
mod protobuf;
mod schemas;
#[cfg(test)]
mod tests;
mod v2;
mod v3;
mod writing;

use std::cell::{LazyCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use descriptions::{Descriptions, Table};
use http::header::{ACCEPT, CACHE_CONTROL, EXPIRES, HeaderMap, HeaderValue, LOCATION, VARY};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::body::ResponseBody;
use super::encoding::Encoding;
use super::gzip;
use super::respond::{self, Answer, Form};
use crate::api::options::Query;
use crate::api::resource::ResourceDefinition;
use crate::clock;
use document::Document;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The name that clients up to 1.23 use. The response has the new name.
const PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The documents of an API.
pub struct OpenApi {
    definitions: Vec<Arc<ResourceDefinition>>,
    v2: Document,
    v2_protobuf: Document,
    /// Keyed by the path of a group version: `api/v1`, `apis/apps/v1`.
    v3: BTreeMap<String, V3>,
}

/// The document of a group version.
struct V3 {
    /// Its resources.
    definitions: Vec<Arc<ResourceDefinition>>,
    document: Document,
}

impl OpenApi {
    /// Prepares the documents of these resources.
    pub fn new(definitions: Vec<Arc<ResourceDefinition>>) -> OpenApi {
        let mut v3 = BTreeMap::new();
        for definition in &definitions {
            let key = match definition.group.as_str() {
                "" => format!("api/{}", definition.version),
                group => format!("apis/{group}/{}", definition.version),
            };
            let of_version = v3.entry(key).or_insert_with(|| V3 {
                definitions: Vec::new(),
                document: Document::default(),
            });
            of_version.definitions.push(definition.clone());
        }
        OpenApi {
            definitions,
            v2: Document::default(),
            v2_protobuf: Document::default(),
            v3,
        }
    }

    /// `/openapi/v2`, in the form that the client prefers (API-39).
    pub fn v2(&self, headers: &HeaderMap) -> Answer {
        let (document, media_type, write): (_, _, WriteV2) = match preferred(headers, true) {
            Some(PROTOBUF) => (&self.v2_protobuf, PROTOBUF, protobuf::document),
            Some(_) => (&self.v2, JSON, v2::document),
            None => return not_acceptable("Accept, Accept-Encoding"),
        };
        let write = || {
            write(
                &borrowed(&self.definitions),
                &Table::unpack().descriptions(),
            )
        };
        let known = document.tag(write);
        document.answer(known, write, media_type, headers)
    }

    /// `/openapi/v3`: the list of documents (API-40), which is JSON whatever is accepted (API-55).
    pub fn v3_index(&self, headers: &HeaderMap) -> Answer {
        // Documents are written for their hashes, if they have none yet.
        let table = LazyCell::new(Table::unpack);
        let descriptions = LazyCell::new(|| table.descriptions());
        let writer = LazyCell::new(|| RefCell::new(v3::Writer::new(&descriptions)));
        let paths = self.v3.iter().map(|(key, of)| {
            let write = || writer.borrow_mut().document(&borrowed(&of.definitions));
            let (tag, _) = of.document.tag(write);
            let url = json!({"serverRelativeURL": url(key, &tag.hash)});
            (key.clone(), url)
        });
        let paths: Map<String, Value> = paths.collect();
        let index = json!({"paths": paths}).to_string().into_bytes();
        let form = Form {
            encoding: Encoding::default(),
            gzip: gzip::is_accepted(headers),
        };
        respond::document(StatusCode::OK, &form, index)
    }

    /// `/openapi/v3/{key}` (API-41), or `None` when there is no such document.
    pub fn v3(&self, key: &str, query: &Query, headers: &HeaderMap) -> Option<Answer> {
        let V3 {
            definitions,
            document,
        } = self.v3.get(key)?;
        if preferred(headers, false).is_none() {
            return Some(not_acceptable("Accept"));
        }
        let write = || {
            let table = Table::unpack();
            v3::Writer::new(&table.descriptions()).document(&borrowed(definitions))
        };
        let (tag, written) = document.tag(write);
        let in_full = |written| document.answer((tag, written), write, JSON, headers);
        let mut answer = match query.first("hash").filter(|hash| !hash.is_empty()) {
            None => in_full(written),
            Some(hash) if hash == tag.hash => {
                let mut answer = in_full(written);
                let immutable = HeaderValue::from_static("public, immutable");
                answer.headers_mut().insert(CACHE_CONTROL, immutable);
                answer.headers_mut().insert(EXPIRES, in_a_year());
                answer
            }
            Some(_) => {
                let mut answer = Response::new(ResponseBody::Empty);
                *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
                if let Ok(place) = HeaderValue::from_str(&url(key, &tag.hash)) {
                    answer.headers_mut().insert(LOCATION, place);
                }
                answer
            }
        };
        let vary = HeaderValue::from_static("Accept");
        answer.headers_mut().insert(VARY, vary);
        Some(answer)
    }
}

/// Writes a form of the v2 document.
type WriteV2 = fn(&[&ResourceDefinition], &Descriptions<'_>) -> Vec<u8>;

fn borrowed(definitions: &[Arc<ResourceDefinition>]) -> Vec<&ResourceDefinition> {
    definitions.iter().map(|definition| &**definition).collect()
}

fn url(key: &str, hash: &str) -> String {
    format!("/openapi/v3/{key}?hash={hash}")
}

/// The answer to who accepts no form of a document: it has no body (API-55).
fn not_acceptable(vary: &'static str) -> Answer {
    let mut answer = Response::new(ResponseBody::Empty);
    *answer.status_mut() = StatusCode::NOT_ACCEPTABLE;
    let vary = HeaderValue::from_static(vary);
    answer.headers_mut().insert(VARY, vary);
    answer
}

/// The first requested form of a document that exists (API-39).
fn preferred(headers: &HeaderMap, has_protobuf: bool) -> Option<&'static str> {
    let accepted: Vec<&str> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter_map(|clause| clause.split(';').next())
        .map(str::trim)
        .filter(|media_type| !media_type.is_empty())
        .collect();
    if accepted.is_empty() {
        return Some(JSON);
    }
    accepted.iter().find_map(|media_type| match *media_type {
        PROTOBUF | PROTOBUF_OLD if has_protobuf => Some(PROTOBUF),
        JSON | "application/*" | "*/*" => Some(JSON),
        _ => None,
    })
}

/// A date one year ahead, in the format of HTTP headers.
fn in_a_year() -> HeaderValue {
    let now = clock::now();
    let year = jiff::SignedDuration::from_hours(365 * 24);
    let time = now.saturating_add(year).unwrap_or(now);
    let text = time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("0"))
}
