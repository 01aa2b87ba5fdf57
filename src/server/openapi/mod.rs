//! OpenAPI documents (API-39 to API-46), with the schemas of all kinds and what is said of them.
//!
//! This folder owns the documents under `/openapi`. The groups of the catalog enter, as they do for
//! discovery, and finished responses leave. It must not know objects, users or connections.
//!
//! [`operations`] and [`discovery`] describe the paths once, [`schemas`] what they refer to. `v2`
//! and `v3` write it in the two formats, `v2_protobuf` and `v3_protobuf` for clients that ask for
//! protobuf. Documents take several MB, so they are written when they are asked for. Of each the
//! hash and the compressed form are kept ([`document`]).

mod discovery;
mod document;
mod message;
mod naming;
mod operations;
mod parameters;
mod schemas;
#[cfg(test)]
mod tests;
mod v2;
mod v2_protobuf;
mod v3;
mod v3_protobuf;
mod versions;
mod writing;

use std::cell::{LazyCell, RefCell};
use std::collections::BTreeMap;
use std::sync::OnceLock;

use descriptions::Descriptions;
use http::header::{CACHE_CONTROL, ETAG, EXPIRES, HeaderMap, HeaderValue, LOCATION, VARY};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::body::ResponseBody;
use super::discovery::Tag;
use super::encoding::Encoding;
use super::gzip;
use super::negotiation;
use super::respond::{self, Answer};
use crate::api::options::Query;
use crate::clock;
use crate::registry::catalog::{Group, GroupVersion};
use document::{Document, Form};
use operations::Path;
use schemas::Versions;

const JSON: &str = "application/json";

/// The names of a format in protobuf.
struct Protobuf {
    name: &'static str,
    /// The name that clients up to 1.23 use. The response has the new name.
    old: &'static str,
}

const V2: Protobuf = Protobuf {
    name: "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    old: "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
};

const V3: Protobuf = Protobuf {
    name: "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    old: "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
};

/// The documents of an API.
pub struct OpenApi {
    groups: Vec<Group>,
    has_issuer: bool,
    made: Timestamp,
    v2: Document,
    /// Keyed by what they are about: `api/v1`, `apis`, `apis/apps`, `apis/apps/v1`. They are found
    /// at the first request: which groups have one is told by the types of all kinds.
    v3: OnceLock<BTreeMap<String, (Subject, Document)>>,
}

/// What a v3 document is about.
#[derive(Clone, Copy)]
enum Subject {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// A group, by its place.
    Group(usize),
    /// A version of a group, by their places.
    GroupVersion(usize, usize),
    /// `/version`
    Version,
    /// `/.well-known/openid-configuration`
    IssuerConfiguration,
    /// `/openid/v1/jwks`
    IssuerKeys,
}

impl OpenApi {
    /// Prepares the documents of these groups, and of the issuer of tokens if there is one.
    pub fn new(groups: &[Group], has_issuer: bool) -> OpenApi {
        OpenApi {
            groups: groups.to_vec(),
            has_issuer,
            made: clock::now(),
            v2: Document::default(),
            v3: OnceLock::new(),
        }
    }

    fn v3_documents(&self) -> &BTreeMap<String, (Subject, Document)> {
        self.v3.get_or_init(|| {
            let mut subjects = subjects(&self.groups);
            if self.has_issuer {
                let configuration = ".well-known/openid-configuration".to_owned();
                subjects.insert(configuration, Subject::IssuerConfiguration);
                subjects.insert("openid/v1/jwks".to_owned(), Subject::IssuerKeys);
            }
            let documents = subjects.into_iter();
            documents
                .map(|(key, subject)| (key, (subject, Document::default())))
                .collect()
        })
    }

    /// `/openapi/v2`, in the form that the client prefers (API-39).
    pub fn v2(&self, headers: &HeaderMap) -> Answer {
        let Some(media_type) = preferred(headers, &V2) else {
            return not_acceptable("Accept, Accept-Encoding");
        };
        let paths = LazyCell::new(|| {
            let subjects = self.v3_documents().values().map(|(subject, _)| *subject);
            subjects
                .flat_map(|subject| self.paths(subject))
                .collect::<Vec<Path<'_>>>()
        });
        let json = || v2::document(&paths, &Descriptions::default());
        let known = self.v2.tag(json);
        let is_protobuf = media_type == V2.name;
        let write = || match is_protobuf {
            true => v2_protobuf::document(&paths, &Descriptions::default()),
            false => json(),
        };
        let form = Form {
            media_type,
            is_protobuf,
            write,
        };
        self.v2.answer(known, form, (headers, self.made))
    }

    /// `/openapi/v3`: the list of documents (API-40), which is JSON whatever is accepted (API-55).
    pub fn v3_index(&self, headers: &HeaderMap) -> Answer {
        // Documents are written for their hashes, if they have none yet.
        let descriptions = Descriptions::default();
        let writer = LazyCell::new(|| RefCell::new(v3::Writer::new(&descriptions)));
        let paths = self
            .v3_documents()
            .iter()
            .map(|(key, (subject, document))| {
                let write = || {
                    let paths = self.paths(*subject);
                    let mut writer = writer.borrow_mut();
                    writer.document(&paths, self.versions(*subject))
                };
                let (tag, _) = document.tag(write);
                let url = json!({"serverRelativeURL": url(key, &tag.hash)});
                (key.clone(), url)
            });
        let paths: Map<String, Value> = paths.collect();
        let index = json!({"paths": paths}).to_string().into_bytes();
        let tag = Tag::of(&index);
        if document::is_known(headers, &tag, self.made) {
            return tag.not_modified();
        }
        let form = respond::Form {
            encoding: Encoding::default(),
            gzip: gzip::is_accepted(headers),
        };
        let answer = respond::document(StatusCode::OK, &form, index);
        document::dated(respond::with_header(answer, ETAG, tag.header), self.made)
    }

    /// `/openapi/v3/{key}` (API-41), or `None` when there is no such document.
    pub fn v3(&self, key: &str, query: &Query, headers: &HeaderMap) -> Option<Answer> {
        let (subject, document) = self.v3_documents().get(key)?;
        let Some(media_type) = preferred(headers, &V3) else {
            return Some(not_acceptable("Accept"));
        };
        let (paths, versions) = (
            LazyCell::new(|| self.paths(*subject)),
            self.versions(*subject),
        );
        let json = || v3::Writer::new(&Descriptions::default()).document(&paths, versions);
        let (tag, written) = document.tag(json);
        let is_protobuf = media_type == V3.name;
        let write = || match is_protobuf {
            true => v3_protobuf::document(&paths, versions, &Descriptions::default()),
            false => json(),
        };
        let in_full = |written| {
            let form = Form {
                media_type,
                is_protobuf,
                write,
            };
            document.answer((tag, written), form, (headers, self.made))
        };
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

    /// The paths that a document is about.
    fn paths(&self, subject: Subject) -> Vec<Path<'_>> {
        match subject {
            Subject::CoreVersions => vec![discovery::core_versions()],
            Subject::Groups => vec![discovery::groups()],
            Subject::Group(place) => {
                let group = self.groups.get(place).into_iter();
                group.map(|group| discovery::group(&group.name)).collect()
            }
            Subject::GroupVersion(..) => {
                let Some((group, version)) = self.group_version(subject) else {
                    return Vec::new();
                };
                let mut paths = operations::of_version(version);
                if is_described(group) || group.name.is_empty() {
                    paths.push(discovery::resources(&group.name, &version.version));
                }
                paths
            }
            Subject::Version => vec![discovery::version()],
            Subject::IssuerConfiguration => vec![discovery::issuer_configuration()],
            Subject::IssuerKeys => vec![discovery::issuer_keys()],
        }
    }

    /// The versions that a document is about.
    fn versions(&self, subject: Subject) -> Versions<'_> {
        let found = self.group_version(subject);
        found.map_or(Versions::One("", "v1"), |(group, version)| {
            Versions::One(&group.name, &version.version)
        })
    }

    fn group_version(&self, subject: Subject) -> Option<(&Group, &GroupVersion)> {
        let Subject::GroupVersion(place, of_version) = subject else {
            return None;
        };
        let group = self.groups.get(place)?;
        Some((group, group.versions.get(of_version)?))
    }
}

/// What the v3 documents of these groups are about.
fn subjects(groups: &[Group]) -> BTreeMap<String, Subject> {
    let mut subjects = BTreeMap::from([
        ("api".to_owned(), Subject::CoreVersions),
        ("apis".to_owned(), Subject::Groups),
        ("version".to_owned(), Subject::Version),
    ]);
    for (place, group) in groups.iter().enumerate() {
        if is_described(group) {
            subjects.insert(format!("apis/{}", group.name), Subject::Group(place));
        }
        for (of_version, version) in group.versions.iter().enumerate() {
            let root = naming::root(&group.name, &version.version);
            let subject = Subject::GroupVersion(place, of_version);
            subjects.insert(root.trim_start_matches('/').to_owned(), subject);
        }
    }
    subjects
}

/// Whether documents say something of a group itself. kube-apiserver says nothing of those of
/// custom resources.
fn is_described(group: &Group) -> bool {
    let mut resources = group.versions.iter().flat_map(|version| &version.resources);
    !group.name.is_empty() && resources.any(operations::is_typed)
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

/// The form of a document that a client likes best of those that exist (API-39, API-41).
fn preferred(headers: &HeaderMap, protobuf: &Protobuf) -> Option<&'static str> {
    let accepted = negotiation::accepted(headers);
    if accepted.is_empty() {
        return Some(JSON);
    }
    accepted
        .into_iter()
        .find_map(|media_type| match media_type {
            JSON | "application/*" | "*/*" => Some(JSON),
            name => (name == protobuf.name || name == protobuf.old).then_some(protobuf.name),
        })
}

/// A date one year ahead, in the format of HTTP headers.
fn in_a_year() -> HeaderValue {
    let now = clock::now();
    let year = jiff::SignedDuration::from_hours(365 * 24);
    let time = now.saturating_add(year).unwrap_or(now);
    document::http_date(time)
}
