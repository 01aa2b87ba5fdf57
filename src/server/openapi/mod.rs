//! OpenAPI documents (API-39 to API-46), with the schemas of all kinds. Built-in ones have no
//! descriptions of their fields yet.
//!
//! This folder owns the documents under `/openapi`. Resource definitions enter, and finished
//! responses leave. It must not know objects, users or connections.
//!
//! [`schemas`] and [`operations`] describe the API once. `v2` and `v3` write it in the two formats,
//! and `protobuf` packs the first for clients that ask for protobuf. All documents are made at the
//! first request, so a daemon without kubectl clients never makes them.

mod operations;
mod protobuf;
mod schemas;
#[cfg(test)]
mod tests;
mod v2;
mod v3;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, ETAG, EXPIRES, HeaderMap, HeaderValue, LOCATION, VARY,
};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::body::ResponseBody;
use super::discovery::Tagged;
use super::gzip;
use super::respond::{self, Answer, Form};
use crate::api::options::Query;
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::clock;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The name that clients up to 1.23 use. The response has the new name.
const PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Longer documents are compressed if the client accepts it (API-65).
const GZIP_BYTES: usize = 1400;

/// The documents of an API.
pub struct OpenApi {
    definitions: Vec<Arc<ResourceDefinition>>,
    documents: OnceLock<Documents>,
}

struct Documents {
    v2: Tagged,
    v2_protobuf: Tagged,
    /// Keyed by the path of a group version: `api/v1`, `apis/apps/v1`.
    v3: BTreeMap<String, Tagged>,
}

impl OpenApi {
    /// Prepares the documents of these resources.
    pub fn new(definitions: Vec<Arc<ResourceDefinition>>) -> OpenApi {
        OpenApi {
            definitions,
            documents: OnceLock::new(),
        }
    }

    fn documents(&self) -> &Documents {
        self.documents
            .get_or_init(|| Documents::of(&self.definitions))
    }

    /// `/openapi/v2`, in the form that the client prefers (API-39).
    ///
    /// # Errors
    /// 406
    pub fn v2(&self, headers: &HeaderMap) -> Result<Answer, Box<Status>> {
        let documents = self.documents();
        let (document, media_type) = match preferred(headers) {
            Some(PROTOBUF) => (&documents.v2_protobuf, PROTOBUF),
            Some(_) => (&documents.v2, JSON),
            None => return Err(Box::new(Status::not_acceptable(&[JSON, PROTOBUF]))),
        };
        Ok(tagged(document, media_type, headers))
    }

    /// `/openapi/v3`: the list of documents (API-40).
    pub fn v3_index(&self, form: &Form) -> Answer {
        let paths = self.documents().v3.iter().map(|(key, document)| {
            let url = json!({"serverRelativeURL": url(key, &document.hash)});
            (key.clone(), url)
        });
        let paths: Map<String, Value> = paths.collect();
        let index = json!({"paths": paths}).to_string().into_bytes();
        respond::document(StatusCode::OK, form, index)
    }

    /// `/openapi/v3/{key}` (API-41), or `None` when there is no such document.
    pub fn v3(&self, key: &str, query: &Query, headers: &HeaderMap) -> Option<Answer> {
        let document = self.documents().v3.get(key)?;
        let mut answer = match query.first("hash").filter(|hash| !hash.is_empty()) {
            None => tagged(document, JSON, headers),
            Some(hash) if hash == document.hash => {
                let mut answer = tagged(document, JSON, headers);
                let immutable = HeaderValue::from_static("public, immutable");
                answer.headers_mut().insert(CACHE_CONTROL, immutable);
                answer.headers_mut().insert(EXPIRES, in_a_year());
                answer
            }
            Some(_) => {
                let mut answer = Response::new(ResponseBody::Empty);
                *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
                if let Ok(place) = HeaderValue::from_str(&url(key, &document.hash)) {
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

impl Documents {
    fn of(definitions: &[Arc<ResourceDefinition>]) -> Documents {
        let definitions: Vec<&ResourceDefinition> = definitions.iter().map(|d| &**d).collect();
        let v2 = v2::document(&definitions);
        let keys = definitions.iter();
        let mut keys: Vec<(&str, &str)> = keys
            .map(|d| (d.group.as_str(), d.version.as_str()))
            .collect();
        keys.dedup();
        let v3 = keys.into_iter().map(|(group, version)| {
            let of_version: Vec<&ResourceDefinition> = definitions
                .iter()
                .copied()
                .filter(|d| (d.group.as_str(), d.version.as_str()) == (group, version))
                .collect();
            let document = v3::document(&of_version).to_string().into_bytes();
            let key = match group {
                "" => format!("api/{version}"),
                _ => format!("apis/{group}/{version}"),
            };
            (key, Tagged::new(document))
        });
        Documents {
            v2_protobuf: Tagged::new(protobuf::document(&v2)),
            v2: Tagged::new(v2.to_string().into_bytes()),
            v3: v3.collect(),
        }
    }
}

fn url(key: &str, hash: &str) -> String {
    format!("/openapi/v3/{key}?hash={hash}")
}

/// The document, or 304 if the client already has it.
fn tagged(document: &Tagged, media_type: &'static str, headers: &HeaderMap) -> Answer {
    let mut answer = if document.is_known(headers) {
        document.not_modified()
    } else if gzip::is_accepted(headers) && document.body.len() > GZIP_BYTES {
        let packed = gzip::compressed(&document.body);
        let answer = respond::answer(StatusCode::OK, media_type, packed.into());
        respond::with_header(answer, CONTENT_ENCODING, HeaderValue::from_static("gzip"))
    } else {
        respond::answer(StatusCode::OK, media_type, document.body.clone())
    };
    let headers = answer.headers_mut();
    headers.insert(ETAG, document.tag.clone());
    headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    answer
}

/// The first requested form of the v2 document that exists (API-39).
fn preferred(headers: &HeaderMap) -> Option<&'static str> {
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
        PROTOBUF | PROTOBUF_OLD => Some(PROTOBUF),
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
