//! OpenAPI documents (API-39 to API-46), with the schemas and descriptions of all kinds.
//!
//! This folder owns the documents under `/openapi`. Like discovery, it takes the groups of the
//! catalog and returns complete responses. It must not know objects, users or connections.
//!
//! [`operations`] and [`discovery`] describe the paths once, [`schemas`] the schemas that they
//! refer to. `v2` and `v3` write these in the two formats, `v2_protobuf` and `v3_protobuf` for
//! clients that request protobuf. Documents take several MB, so they are written on request and
//! compressed on the way; only the hash and the compressed form of each are kept ([`document`],
//! [`packing`]). [`custom`] writes the schemas of custom resources. Generations share the
//! documents of group versions that did not change ([`Shared`]).

mod context;
mod custom;
mod discovery;
mod document;
mod merged;
mod message;
mod naming;
mod operations;
mod packing;
mod parameters;
mod schemas;
mod structural;
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
use std::sync::{Arc, OnceLock};

use descriptions::Descriptions;
use http::header::{CACHE_CONTROL, ETAG, EXPIRES, HeaderMap, HeaderValue, LOCATION, VARY};
use http::{Response, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::attached::Attached;
use super::discovery::Tag;
use super::encoding::Encoding;
use super::respond::{self, Answer};
use super::{gzip, negotiation};
use crate::aggregation::openapi::{Documents, Reduced};
use crate::aggregation::{Aggregation, View};
use crate::api::options::Query;
use crate::clock;
use crate::registry::Catalog;
use crate::registry::catalog::{Group, GroupVersion};
use crate::server::respond::ResponseBody;
use document::Document;
use operations::Path;
use packing::Packer;
use schemas::Versions;

const JSON: &str = "application/json";

/// The media types of a protobuf format.
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

/// The documents of a generation.
pub struct OpenApi {
    catalog: Arc<Catalog>,
    shared: Arc<Shared>,
    made: Timestamp,
    v2: Document,
    /// The v2 document with the parts of extensions.
    merged_v2: Mutex<Option<MergedDocument>>,
}

/// A document, and the numbers of the state that it shows.
type MergedDocument = ((u64, u64), Arc<Document>);

/// The APIServices and the documents of extensions at the moment in which a document is made.
#[derive(Clone, Default)]
pub struct Extensions {
    view: Arc<View>,
    documents: Arc<Documents>,
}

impl Extensions {
    /// Whether another server describes a group version.
    pub fn has(&self, group: &str, version: &str) -> bool {
        self.view.remote(group, version).is_some()
    }

    /// Whether it describes any.
    fn is_empty(&self) -> bool {
        self.view.remotes().next().is_none()
    }
}

/// The documents that generations share.
pub struct Shared {
    has_issuer: bool,
    /// The APIServices, if they are served.
    aggregation: Option<Arc<Aggregation>>,
    /// The documents about group versions.
    of_versions: Attached<GroupVersion, OfVersion>,
    /// The documents that do not depend on the generation, by their keys.
    fixed: Mutex<BTreeMap<String, Arc<Document>>>,
}

/// The documents about a group version, as long as it is the same object.
#[derive(Default)]
struct OfVersion {
    /// Whether any of its resources has a type that Kubernetes defines.
    is_typed: OnceLock<bool>,
    /// The v3 document, if the group itself has a document.
    with_group: Arc<Document>,
    /// The v3 document, if the group has none.
    alone: Arc<Document>,
}

/// The subject of a v3 document.
#[derive(Clone, Copy)]
enum Subject<'c> {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// A group.
    Group(&'c Group),
    /// A group version.
    GroupVersion(&'c Group, &'c Arc<GroupVersion>),
    /// `/version`
    Version,
    /// `/.well-known/openid-configuration`
    IssuerConfiguration,
    /// `/openid/v1/jwks`
    IssuerKeys,
}

/// The documents that are not about a group, by their keys.
const OF_NO_GROUP: [(&str, Subject<'static>); 3] = [
    ("api", Subject::CoreVersions),
    ("apis", Subject::Groups),
    ("version", Subject::Version),
];

/// The documents about the token issuer.
const OF_ISSUER: [(&str, Subject<'static>); 2] = [
    (
        ".well-known/openid-configuration",
        Subject::IssuerConfiguration,
    ),
    ("openid/v1/jwks", Subject::IssuerKeys),
];

impl Shared {
    /// Creates an empty set of documents. `has_issuer` is whether there is a token issuer.
    /// `aggregation` is absent if APIServices are not served.
    pub fn new(has_issuer: bool, aggregation: Option<Arc<Aggregation>>) -> Shared {
        Shared {
            has_issuer,
            aggregation,
            of_versions: Attached::default(),
            fixed: Mutex::default(),
        }
    }

    /// Whether a group itself has a document. As in kube-apiserver, groups of custom resources have
    /// none.
    fn is_described(&self, group: &Group) -> bool {
        let is_typed = |version: &Arc<GroupVersion>| {
            let of_version = self.of_versions.of(version);
            *of_version.is_typed.get_or_init(|| {
                let mut resources = version.resources();
                resources.any(|resource| operations::is_typed(resource))
            })
        };
        !group.name.is_empty() && group.versions.iter().any(is_typed)
    }

    fn document(&self, key: &str, subject: Subject<'_>) -> Arc<Document> {
        let Subject::GroupVersion(group, version) = subject else {
            let mut fixed = self.fixed.lock();
            return Arc::clone(fixed.entry(key.to_owned()).or_default());
        };
        let of_version = self.of_versions.of(version);
        Arc::clone(match self.is_described(group) {
            true => &of_version.with_group,
            false => &of_version.alone,
        })
    }

    /// Drops the documents of groups that no longer exist.
    fn keep(&self, subjects: &BTreeMap<String, Subject<'_>>) {
        let mut fixed = self.fixed.lock();
        fixed.retain(|key, _| subjects.contains_key(key));
    }
}

impl OpenApi {
    /// Creates the documents of a generation.
    pub fn new(catalog: Arc<Catalog>, shared: Arc<Shared>) -> OpenApi {
        OpenApi {
            catalog,
            shared,
            made: clock::now(),
            v2: Document::default(),
            merged_v2: Mutex::default(),
        }
    }

    /// Returns what is known of the documents of extensions.
    pub fn extensions(&self) -> Extensions {
        let aggregation = self.shared.aggregation.as_ref();
        let known = aggregation.map(|known| Extensions {
            view: known.services.current(),
            documents: known.documents.current(),
        });
        known.unwrap_or_default()
    }

    /// Returns the subjects of the own v3 documents, by their keys.
    fn subjects(&self, extensions: &Extensions) -> BTreeMap<String, Subject<'_>> {
        let issuer = OF_ISSUER.iter().filter(|_| self.shared.has_issuer);
        let fixed = OF_NO_GROUP.iter().chain(issuer);
        let fixed = fixed.map(|(key, subject)| ((*key).to_owned(), *subject));
        let groups = self.catalog.groups().flat_map(|group| {
            let own = group.announced();
            let own = own.filter(|version| !extensions.has(&group.name, &version.version));
            let versions = own.map(|version| {
                let root = naming::root(&group.name, &version.version);
                let key = root.trim_start_matches('/').to_owned();
                (key, Subject::GroupVersion(group, version))
            });
            let own = self.shared.is_described(group);
            let own = own.then(|| (format!("apis/{}", group.name), Subject::Group(group)));
            versions.chain(own)
        });
        fixed.chain(groups).collect()
    }

    /// Returns the subject of the own v3 document with this key.
    fn subject(&self, key: &str) -> Option<Subject<'_>> {
        let issuer = OF_ISSUER.iter().filter(|_| self.shared.has_issuer);
        let mut fixed = OF_NO_GROUP.iter().chain(issuer);
        if let Some((_, subject)) = fixed.find(|(known, _)| *known == key) {
            return Some(*subject);
        }
        let (group, version) = match key.split_once('/')? {
            ("api", version) => ("", Some(version)),
            ("apis", rest) => match rest.split_once('/') {
                Some((group, version)) => (group, Some(version)),
                None => (rest, None),
            },
            _ => return None,
        };
        if group.is_empty() != key.starts_with("api/") {
            return None;
        }
        let group = self.catalog.group(group)?;
        match version {
            Some(version) => {
                let version = group.version(version).filter(|of| of.is_announced())?;
                Some(Subject::GroupVersion(group, version))
            }
            None => Some(Subject::Group(group)).filter(|_| self.shared.is_described(group)),
        }
    }

    /// Returns `/openapi/v2`, in the form that the client prefers (API-39).
    pub fn v2(&self, headers: &HeaderMap, extensions: &Extensions) -> Answer {
        let Some(media_type) = preferred(headers, &V2) else {
            return not_acceptable("Accept, Accept-Encoding");
        };
        let paths = LazyCell::new(|| {
            let subjects = self.subjects(extensions).into_values();
            subjects
                .flat_map(|subject| self.paths(subject))
                .collect::<Vec<Path<'_>>>()
        });
        let merged: Vec<Arc<Reduced>> = extensions.documents.v2().cloned().collect();
        let json = |out: &mut Packer| {
            v2::document(&paths, &merged, &Descriptions::default(), out);
        };
        let protobuf = || v2_protobuf::document(&paths, &merged, &Descriptions::default());
        let protobuf = (media_type == V2.name).then_some((V2.name, protobuf));
        match self.merged_v2(extensions) {
            None => self.v2.answer(json, protobuf, headers),
            Some(document) => document.answer(json, protobuf, headers),
        }
    }

    /// Returns the v2 document with the parts of these extensions, whether it is written or not.
    /// `None` if no other server serves a group.
    fn merged_v2(&self, extensions: &Extensions) -> Option<Arc<Document>> {
        if extensions.is_empty() {
            return None;
        }
        let state = (
            extensions.view.remote_edition(),
            extensions.documents.edition(),
        );
        let mut merged = self.merged_v2.lock();
        if let Some((of, document)) = &*merged
            && *of == state
        {
            return Some(Arc::clone(document));
        }
        let document: Arc<Document> = Arc::default();
        *merged = Some((state, Arc::clone(&document)));
        Some(document)
    }

    /// Returns whether [`OpenApi::v2`] has nothing to write, which takes long.
    pub fn has_v2(&self, headers: &HeaderMap, extensions: &Extensions) -> bool {
        let merged = self.merged_v2(extensions);
        let document = merged.as_deref().unwrap_or(&self.v2);
        let written = |media_type| document.is_written(media_type == V2.name);
        preferred(headers, &V2).is_none_or(written)
    }

    /// Returns whether [`OpenApi::v3_index`] has nothing to write.
    pub fn has_v3_index(&self, extensions: &Extensions) -> bool {
        let mut subjects = self.subjects(extensions).into_iter();
        subjects.all(|(key, subject)| self.shared.document(&key, subject).is_written(false))
    }

    /// Returns whether [`OpenApi::v3`] has nothing to write.
    pub fn has_v3(&self, key: &str, headers: &HeaderMap) -> bool {
        let (subject, media_type) = (self.subject(key), preferred(headers, &V3));
        let Some((subject, media_type)) = subject.zip(media_type) else {
            return true;
        };
        let document = self.shared.document(key, subject);
        document.is_written(media_type == V3.name)
    }

    /// Returns `/openapi/v3`, the list of documents (API-40), which is JSON whatever Accept says
    /// (API-55).
    pub fn v3_index(&self, headers: &HeaderMap, extensions: &Extensions) -> Answer {
        // The list has the hash of each document. Documents without one are written now.
        let descriptions = Descriptions::default();
        let writer = LazyCell::new(|| RefCell::new(v3::Writer::new(&descriptions)));
        let subjects = self.subjects(extensions);
        self.shared.keep(&subjects);
        let paths = subjects.into_iter().map(|(key, subject)| {
            let document = self.shared.document(&key, subject);
            let write = |out: &mut Packer| {
                let paths = self.paths(subject);
                let mut writer = writer.borrow_mut();
                writer.document(&paths, self.versions(subject), out);
            };
            let tag = document.tag(write);
            let url = json!({"serverRelativeURL": url(&key, &tag.hash)});
            (key, url)
        });
        let of_extensions = extensions.documents.v3().map(|(key, hash)| {
            let url = json!({"serverRelativeURL": url(&key, hash)});
            (key, url)
        });
        let paths: Map<String, Value> = paths.chain(of_extensions).collect();
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

    /// Returns `/openapi/v3/{key}` (API-41), or `None` if the document does not exist.
    pub fn v3(&self, key: &str, query: &Query, headers: &HeaderMap) -> Option<Answer> {
        let subject = self.subject(key)?;
        let document = self.shared.document(key, subject);
        let Some(media_type) = preferred(headers, &V3) else {
            return Some(not_acceptable("Accept"));
        };
        let paths = LazyCell::new(|| self.paths(subject));
        let versions = self.versions(subject);
        let descriptions = Descriptions::default();
        let json = |out: &mut Packer| {
            v3::Writer::new(&descriptions).document(&paths, versions, out);
        };
        let protobuf = || v3_protobuf::document(&paths, versions, &Descriptions::default());
        let protobuf = (media_type == V3.name).then_some((V3.name, protobuf));
        let tag = document.tag(json);
        let in_full = || document.answer(json, protobuf, headers);
        let mut answer = match query.first("hash").filter(|hash| !hash.is_empty()) {
            None => in_full(),
            Some(hash) if hash == tag.hash => {
                let mut answer = in_full();
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

    /// Returns the paths in a document.
    fn paths<'c>(&self, subject: Subject<'c>) -> Vec<Path<'c>> {
        match subject {
            Subject::CoreVersions => vec![discovery::core_versions()],
            Subject::Groups => vec![discovery::groups()],
            Subject::Group(group) => vec![discovery::group(&group.name)],
            Subject::GroupVersion(group, version) => {
                let mut paths = operations::of_version(version);
                if self.shared.is_described(group) || group.name.is_empty() {
                    paths.push(discovery::resources(&group.name, &version.version));
                }
                paths
            }
            Subject::Version => vec![discovery::version()],
            Subject::IssuerConfiguration => vec![discovery::issuer_configuration()],
            Subject::IssuerKeys => vec![discovery::issuer_keys()],
        }
    }

    /// Returns the versions that a document is about.
    fn versions<'c>(&self, subject: Subject<'c>) -> Versions<'c> {
        match subject {
            Subject::GroupVersion(group, _)
                if !group.name.is_empty() && !self.shared.is_described(group) =>
            {
                Versions::Custom
            }
            Subject::GroupVersion(group, version) => Versions::One(&group.name, &version.version),
            _ => Versions::One("", "v1"),
        }
    }
}

fn url(key: &str, hash: &str) -> String {
    format!("/openapi/v3/{key}?hash={hash}")
}

/// Builds a 406, which has no body here (API-55).
fn not_acceptable(vary: &'static str) -> Answer {
    let mut answer = Response::new(ResponseBody::Empty);
    *answer.status_mut() = StatusCode::NOT_ACCEPTABLE;
    let vary = HeaderValue::from_static(vary);
    answer.headers_mut().insert(VARY, vary);
    answer
}

/// Returns the existing form of a document that the client prefers (API-39, API-41).
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

/// Returns the time one year ahead, for an HTTP header.
fn in_a_year() -> HeaderValue {
    let now = clock::now();
    let year = jiff::SignedDuration::from_hours(365 * 24);
    let time = now.saturating_add(year).unwrap_or(now);
    document::http_date(time)
}
