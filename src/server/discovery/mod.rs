//! Discovery documents, plain (API-22 to API-30) and aggregated (API-31 to API-37).
//!
//! This folder owns the documents under `/api` and `/apis`. It takes the groups of the catalog and
//! returns complete responses. It must not know objects, users or connections.
//!
//! A document is written on its first request. Documents about one group version are written once,
//! and stay as long as that version is the same object: generations in which it did not change
//! share them ([`OfVersion`]).

mod documents;
mod listing;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, VARY,
};
use http::{Response, StatusCode};
use metrics::{counter, describe_counter};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha512};

use self::documents::{
    ApiGroup, ApiGroupDiscovery, ApiGroupDiscoveryList, ApiGroupList, ApiResource,
    ApiResourceDiscovery, ApiResourceList, ApiSubresourceDiscovery, ApiVersionDiscovery,
    ApiVersions, Metadata, ResponseKind, ServerAddress, Version,
};
use self::listing::{Listed as ListedGroup, Listing};
use super::attached::Attached;
use super::encoding::Conversion;
use super::respond::{self, Answer, Form};
use crate::aggregation::discovery::{Said, stale};
use crate::aggregation::{Aggregation, View};
use crate::api::resource::{Phase, Verb};
use crate::registry::catalog::{GroupVersion, ServedResource};
use crate::registry::{Catalog, GROUPS, RestStorage};
use crate::server::respond::ResponseBody;

/// The media type of an aggregated response. Clients parse its parameters (API-32).
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The verbs of custom resources.
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// The verbs of custom resources whose definition is being deleted.
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// The entity tag of a document: the SHA-512 of its content (API-33, API-39).
pub struct Tag {
    /// The `ETag` value, quotes included.
    pub header: HeaderValue,
    /// The hash without quotes.
    pub hash: String,
}

impl Tag {
    /// Computes the tag of a document.
    pub fn of(body: &[u8]) -> Tag {
        Tag::of_digest(&Sha512::digest(body))
    }

    /// Returns the tag of a document with this SHA-512.
    pub fn of_digest(digest: &[u8]) -> Tag {
        let hash = digest
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect::<String>();
        // Hexadecimal digits and quotes are always valid in a header.
        let header = HeaderValue::from_str(&format!("\"{hash}\""))
            .unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        Tag { header, hash }
    }

    /// Whether the client already has the document. Proxies that compress documents make tags weak;
    /// a weak tag counts as equal here (RFC 9110).
    pub fn is_known(&self, headers: &HeaderMap) -> bool {
        let lists = headers.get_all(IF_NONE_MATCH).iter();
        let mut known = lists
            .filter_map(|list| list.to_str().ok())
            .flat_map(|list| list.split(','))
            .map(str::trim);
        known.any(|tag| tag == "*" || self.header == *tag.strip_prefix("W/").unwrap_or(tag))
    }

    /// Returns a 304 response without a body.
    pub fn not_modified(&self) -> Answer {
        let mut answer = Response::new(ResponseBody::Empty);
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        answer.headers_mut().insert(ETAG, self.header.clone());
        answer
    }
}

/// A document as compact JSON, with its tag.
struct Tagged {
    body: Bytes,
    tag: Tag,
}

/// The metric that counts written documents by type. Only requested documents that no earlier
/// generation has are written.
pub const WRITTEN: &str = "taffrail_documents_written_total";

/// Registers the help text of the metric.
pub fn describe() {
    describe_counter!(
        WRITTEN,
        "Documents about a group version that were written because it is new or has changed"
    );
}

/// The documents about one group version, as long as it is the same object.
#[derive(Default)]
pub struct OfVersion {
    /// The resource list (API-25).
    resources: OnceLock<Bytes>,
    /// The group version's part of aggregated documents (API-34).
    aggregated: OnceLock<Option<Box<RawValue>>>,
}

/// The facts that are the same in all generations.
pub struct Settings {
    /// Where clients reach the server, as `host:port` (API-22).
    pub address: String,
    /// Whether documents show storage version hashes (API-26).
    pub has_hashes: bool,
    /// The APIServices, if they are served. Without them the served resources are listed.
    pub aggregation: Option<Arc<Aggregation>>,
}

/// The APIServices and the documents of extensions at the moment in which a list is made.
#[derive(Default)]
struct Known {
    view: Arc<View>,
    said: Arc<Said>,
    has_registered: bool,
}

/// The text of a version in aggregated documents.
enum VersionText {
    /// Of a version that this server serves.
    Own(Arc<OfVersion>),
    /// Of an extension.
    Extension(Arc<str>),
}

impl VersionText {
    fn raw(&self) -> Option<&RawValue> {
        match self {
            VersionText::Own(of_version) => of_version.aggregated.get()?.as_deref(),
            VersionText::Extension(text) => serde_json::from_str(text).ok(),
        }
    }
}

/// A document of one generation, with the state of the APIServices that it was made from.
type Listed<K, D> = Mutex<Option<(K, Arc<D>)>>;

/// All discovery documents of a generation.
pub struct Discovery {
    catalog: Arc<Catalog>,
    settings: Arc<Settings>,
    of_versions: Arc<Attached<GroupVersion, OfVersion>>,
    groups: Listed<(u64, bool), Bytes>,
    aggregated_legacy: OnceLock<Arc<Tagged>>,
    aggregated_groups: Listed<(u64, u64), Tagged>,
}

impl Discovery {
    /// Creates the documents of a generation. All generations share `of_versions`.
    pub fn new(
        catalog: Arc<Catalog>,
        settings: Arc<Settings>,
        of_versions: Arc<Attached<GroupVersion, OfVersion>>,
    ) -> Discovery {
        Discovery {
            catalog,
            settings,
            of_versions,
            groups: Mutex::default(),
            aggregated_legacy: OnceLock::new(),
            aggregated_groups: Mutex::default(),
        }
    }

    fn known(&self) -> Known {
        let Some(aggregation) = &self.settings.aggregation else {
            return Known::default();
        };
        Known {
            view: aggregation.services.current(),
            said: aggregation.discovered.current(),
            has_registered: aggregation.registrar.has_registered(),
        }
    }

    fn listing<'l>(&'l self, known: &'l Known) -> Listing<'l> {
        Listing {
            catalog: &self.catalog,
            view: &known.view,
            has_registered: known.has_registered,
        }
    }

    /// Returns `/api`.
    pub fn legacy_versions(&self, form: &Form, headers: &HeaderMap) -> Answer {
        let plain = || {
            let versions = self.catalog.group("").into_iter();
            let versions = versions.flat_map(|group| &group.versions);
            bytes(&ApiVersions {
                kind: "APIVersions",
                versions: versions.map(|version| version.version.as_str()).collect(),
                server_addresses: [ServerAddress {
                    client_cidr: "0.0.0.0/0",
                    server_address: &self.settings.address,
                }],
            })
        };
        let aggregated = || {
            let versions = || {
                let group = self.catalog.group("").into_iter();
                let versions = group.flat_map(|group| group.announced());
                versions.map(|version| self.own_version(version)).collect()
            };
            let document = || Arc::new(aggregated([("", versions())].into_iter()));
            Arc::clone(self.aggregated_legacy.get_or_init(document))
        };
        plain_or_aggregated(form, headers, plain, aggregated)
    }

    /// Returns `/apis`.
    pub fn groups(&self, form: &Form, headers: &HeaderMap) -> Answer {
        let known = self.known();
        let plain = || {
            let state = (known.view.edition(), known.has_registered);
            let document = kept(&self.groups, state, || {
                let groups = self.listing(&known).groups();
                let document = bytes(&ApiGroupList {
                    kind: "APIGroupList",
                    api_version: "v1",
                    groups: groups.iter().map(group_entry).collect(),
                });
                document.into()
            });
            document.to_vec()
        };
        let aggregated = || {
            let state = (known.view.edition(), known.said.edition());
            kept(&self.aggregated_groups, state, || {
                self.aggregated_groups(&known)
            })
        };
        plain_or_aggregated(form, headers, plain, aggregated)
    }

    /// Returns `/apis/{group}`, or `None` if the group does not exist.
    pub fn group(&self, name: &str, form: &Form) -> Option<Answer> {
        let known = self.known();
        let group = self.listing(&known).group(name)?;
        let document = group_document(&group);
        Some(respond::document(StatusCode::OK, form, document))
    }

    /// Returns `/api/{version}` or `/apis/{group}/{version}`, or `None` if the version does not
    /// exist.
    pub fn resources(&self, group: &str, version: &str, form: &Form) -> Option<Answer> {
        let version = self.catalog.version(group, version)?;
        if !version.is_announced() {
            return None;
        }
        let of_version = self.of_versions.of(version);
        let document = of_version.resources.get_or_init(|| {
            counter!(WRITTEN, "document" => "discovery").increment(1);
            resource_list(group, version, self.settings.has_hashes).into()
        });
        Some(respond::document(StatusCode::OK, form, document.to_vec()))
    }

    /// Returns the aggregated form of a version that this server serves. The first call writes it.
    fn own_version(&self, version: &Arc<GroupVersion>) -> VersionText {
        let of_version = self.of_versions.of(version);
        of_version.aggregated.get_or_init(|| {
            counter!(WRITTEN, "document" => "aggregated").increment(1);
            // Documents of strings and booleans always serialize.
            to_raw_value(&aggregated_version(version)).ok()
        });
        VersionText::Own(of_version)
    }

    /// Writes the aggregated document of all named groups, with what extensions say of theirs.
    fn aggregated_groups(&self, known: &Known) -> Tagged {
        let groups = self.listing(known).aggregated();
        let groups = groups.iter().map(|group| {
            let versions = group.versions.iter().filter_map(|version| {
                let (name, version) = (group.name, *version);
                if let Some(remote) = known.view.remote(name, version) {
                    let text = known.said.version(&remote.name).cloned();
                    let text = text.unwrap_or_else(|| stale(version).into());
                    return Some(VersionText::Extension(text));
                }
                Some(self.own_version(self.catalog.version(name, version)?))
            });
            (group.name, versions.collect())
        });
        aggregated(groups)
    }
}

/// Returns a document that was made from this state, or makes it.
fn kept<K: PartialEq, D>(listed: &Listed<K, D>, state: K, make: impl FnOnce() -> D) -> Arc<D> {
    if let Some((of, document)) = &*listed.lock()
        && *of == state
    {
        return Arc::clone(document);
    }
    // It is made without the lock, by as many requests as come meanwhile.
    let document = Arc::new(make());
    *listed.lock() = Some((state, Arc::clone(&document)));
    document
}

/// Writes the aggregated document of these groups (API-34, API-35).
fn aggregated<'g>(groups: impl Iterator<Item = (&'g str, Vec<VersionText>)>) -> Tagged {
    let groups: Vec<(&str, Vec<VersionText>)> = groups.collect();
    let items = groups.iter().map(|(name, versions)| ApiGroupDiscovery {
        metadata: Metadata { name },
        versions: versions.iter().filter_map(VersionText::raw).collect(),
    });
    let body = bytes(&ApiGroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Metadata { name: "" },
        items: items.collect(),
    });
    Tagged {
        tag: Tag::of(&body),
        body: body.into(),
    }
}

/// Returns the form of a document that the client accepts, as a response.
fn plain_or_aggregated(
    form: &Form,
    headers: &HeaderMap,
    plain: impl FnOnce() -> Vec<u8>,
    aggregated: impl FnOnce() -> Arc<Tagged>,
) -> Answer {
    let mut answer = match form.encoding.conversion {
        Some(Conversion::AggregatedDiscovery) => {
            let aggregated = aggregated();
            if aggregated.tag.is_known(headers) {
                aggregated.tag.not_modified()
            } else {
                let mut answer = respond::document(StatusCode::OK, form, aggregated.body.to_vec());
                let headers = answer.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
                headers.insert(ETAG, aggregated.tag.header.clone());
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
                answer
            }
        }
        _ => respond::document(StatusCode::OK, form, plain()),
    };
    answer
        .headers_mut()
        .append(VARY, HeaderValue::from_static("Accept"));
    answer
}

fn bytes(document: &impl Serialize) -> Vec<u8> {
    // Documents of strings and booleans always serialize.
    let mut bytes = serde_json::to_vec(document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Returns `apps/v1`, or `v1` for the core group.
fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Returns a group without kind and apiVersion, as in the list of groups (API-23).
fn group_entry<'d>(group: &ListedGroup<'d>) -> ApiGroup<'d> {
    let versions = group.versions.iter().map(|version| Version {
        group_version: group_version(group.name, version),
        version,
    });
    let versions: Vec<Version<'_>> = versions.collect();
    ApiGroup {
        kind: None,
        api_version: None,
        name: group.name,
        preferred_version: versions.first().cloned(),
        versions,
    }
}

fn group_document(group: &ListedGroup<'_>) -> Vec<u8> {
    bytes(&ApiGroup {
        kind: Some("APIGroup"),
        api_version: Some("v1"),
        ..group_entry(group)
    })
}

/// Writes the resources and subresources of a version, sorted by name (API-25).
fn resource_list(group: &str, version: &GroupVersion, has_hashes: bool) -> Vec<u8> {
    let resources = version.announced().flat_map(|resource| {
        let subresources = resource.subresources.iter();
        let subresources = subresources.map(|storage| subresource_entry(&**storage));
        std::iter::once(resource_entry(&*resource.storage, has_hashes)).chain(subresources)
    });
    let mut resources: Vec<ApiResource<'_>> = resources.collect();
    resources.sort_by(|a, b| a.name.cmp(&b.name));
    if !is_built_in(group) {
        // Each custom resource, its status and its scale (CRD-101).
        let of = |name: &str| name.split('/').next().map(str::to_owned);
        resources.sort_by_cached_key(|entry| (of(&entry.name), entry.name.ends_with("/scale")));
    }
    bytes(&ApiResourceList {
        kind: "APIResourceList",
        api_version: (!group.is_empty()).then_some("v1"),
        group_version: group_version(group, &version.version),
        resources,
    })
}

fn is_built_in(group: &str) -> bool {
    GROUPS.contains(&group)
}

fn verbs(storage: &dyn RestStorage) -> Vec<&'static str> {
    let definition = storage.resource();
    // Custom resources have an order of their own (CRD-100).
    match definition.phase {
        _ if definition.edition == 0 || storage.subresource().is_some() => {
            let verbs = storage.verbs();
            verbs.into_iter().map(Verb::as_str).collect()
        }
        Phase::Terminating => TERMINATING_VERBS.to_vec(),
        Phase::Announced | Phase::Unannounced => CUSTOM_VERBS.to_vec(),
    }
}

fn resource_entry(storage: &dyn RestStorage, has_hash: bool) -> ApiResource<'_> {
    let definition = storage.resource();
    ApiResource {
        short_names: &definition.short_names,
        categories: &definition.categories,
        storage_version_hash: storage.storage_version_hash().filter(|_| has_hash),
        ..entry(storage, definition.plural.clone(), &definition.singular)
    }
}

fn subresource_entry(storage: &dyn RestStorage) -> ApiResource<'_> {
    let plural = &storage.resource().plural;
    let name = format!("{plural}/{}", storage.subresource().unwrap_or_default());
    entry(storage, name, "")
}

/// Returns the fields that resources and subresources share. A kind of another version is listed
/// with that version (API-25).
fn entry<'d>(
    storage: &'d dyn RestStorage,
    name: String,
    singular_name: &'d str,
) -> ApiResource<'d> {
    let ResponseKind {
        group,
        version,
        kind,
    } = response_kind(storage);
    ApiResource {
        name,
        singular_name,
        namespaced: storage.resource().is_namespaced(),
        group,
        version,
        kind,
        verbs: verbs(storage),
        short_names: &[],
        categories: &[],
        storage_version_hash: None,
    }
}

fn aggregated_version(version: &GroupVersion) -> ApiVersionDiscovery<'_> {
    ApiVersionDiscovery {
        version: &version.version,
        resources: version
            .announced()
            .map(|resource| aggregated_entry(resource))
            .collect(),
        freshness: "Current",
    }
}

fn response_kind(storage: &dyn RestStorage) -> ResponseKind<'_> {
    let (resource, kind) = (storage.resource(), storage.response_kind());
    let own = (&kind.group, &kind.version) == (&resource.group, &resource.version);
    let (group, version) = match own {
        true => ("", ""),
        false => (kind.group.as_str(), kind.version.as_str()),
    };
    ResponseKind {
        group,
        version,
        kind: &kind.kind,
    }
}

/// Returns the kind of responses, which for custom resources always has group and version
/// (CRD-102).
fn aggregated_kind(storage: &dyn RestStorage) -> ResponseKind<'_> {
    let kind = storage.response_kind();
    match storage.resource().edition {
        0 => response_kind(storage),
        _ => ResponseKind {
            group: &kind.group,
            version: &kind.version,
            kind: &kind.kind,
        },
    }
}

fn aggregated_entry(resource: &ServedResource) -> ApiResourceDiscovery<'_> {
    let storage = &*resource.storage;
    let definition = storage.resource();
    let subresources = resource.subresources.iter();
    let subresources = subresources.map(|storage| ApiSubresourceDiscovery {
        subresource: storage.subresource(),
        response_kind: aggregated_kind(&**storage),
        verbs: verbs(&**storage),
    });
    let mut subresources: Vec<_> = subresources.collect();
    if definition.edition != 0 {
        subresources.sort_by_key(|part| part.subresource == Some("scale"));
    }
    ApiResourceDiscovery {
        resource: &definition.plural,
        response_kind: aggregated_kind(storage),
        scope: match definition.is_namespaced() {
            true => "Namespaced",
            false => "Cluster",
        },
        singular_resource: &definition.singular,
        verbs: verbs(storage),
        short_names: &definition.short_names,
        categories: &definition.categories,
        subresources,
    }
}

#[cfg(test)]
mod tests;
