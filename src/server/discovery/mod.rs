//! Discovery documents, plain (API-22 to API-30) and aggregated (API-31 to API-37).
//!
//! This folder owns the documents under `/api` and `/apis`. The groups of the catalog enter, and
//! finished responses leave. It must not know objects, users or connections.
//!
//! Everything is built once from the catalog. All requests get the same bytes.

mod documents;

use std::collections::HashMap;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, VARY,
};
use http::{Response, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha512};

use self::documents::{
    ApiGroup, ApiGroupDiscovery, ApiGroupDiscoveryList, ApiGroupList, ApiResource,
    ApiResourceDiscovery, ApiResourceList, ApiSubresourceDiscovery, ApiVersionDiscovery,
    ApiVersions, Metadata, ResponseKind, ServerAddress, Version,
};
use super::body::ResponseBody;
use super::encoding::Conversion;
use super::respond::{self, Answer, Form};
use crate::api::resource::Verb;
use crate::registry::RestStorage;
use crate::registry::catalog::{Group, GroupVersion, ServedResource};

/// The media type of an aggregated response. Clients compare its parts (API-32).
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What tells versions of a document from each other: the SHA-512 of its content (API-33, API-39).
pub struct Tag {
    /// The `ETag`, quotes included.
    pub header: HeaderValue,
    /// Without quotes.
    pub hash: String,
}

impl Tag {
    /// The tag of a document.
    pub fn of(body: &[u8]) -> Tag {
        let hash = Sha512::digest(body)
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect::<String>();
        // Hexadecimal digits and quotes are always valid in a header.
        let header = HeaderValue::from_str(&format!("\"{hash}\""))
            .unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        Tag { header, hash }
    }

    /// Whether the client already has the document. Proxies that compress documents make tags weak,
    /// which count all the same (RFC 9110).
    pub fn is_known(&self, headers: &HeaderMap) -> bool {
        let lists = headers.get_all(IF_NONE_MATCH).iter();
        let mut known = lists
            .filter_map(|list| list.to_str().ok())
            .flat_map(|list| list.split(','))
            .map(str::trim);
        known.any(|tag| tag == "*" || self.header == *tag.strip_prefix("W/").unwrap_or(tag))
    }

    /// A 304 response without a body.
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

/// All discovery documents.
pub struct Discovery {
    legacy_versions: Vec<u8>,
    groups: Vec<u8>,
    by_group: HashMap<String, Vec<u8>>,
    /// Keyed by `apps/v1`, or `v1` for the core group.
    by_group_version: HashMap<String, Vec<u8>>,
    aggregated_legacy: Tagged,
    aggregated_groups: Tagged,
}

impl Discovery {
    /// Builds the documents of these groups. `address` is where clients reach the server, as
    /// `host:port` (API-22). `has_hashes` is whether they tell what resources are stored as
    /// (API-26).
    pub fn new(groups: &[Group], address: &str, has_hashes: bool) -> Discovery {
        let named = || groups.iter().filter(|group| !group.name.is_empty());
        let legacy = || groups.iter().filter(|group| group.name.is_empty());
        let versions: Vec<&str> = legacy()
            .flat_map(|group| {
                group
                    .versions
                    .iter()
                    .map(|version| version.version.as_str())
            })
            .collect();
        Discovery {
            legacy_versions: bytes(&ApiVersions {
                kind: "APIVersions",
                versions,
                server_addresses: [ServerAddress {
                    client_cidr: "0.0.0.0/0",
                    server_address: address,
                }],
            }),
            groups: bytes(&ApiGroupList {
                kind: "APIGroupList",
                api_version: "v1",
                groups: named().map(group_entry).collect(),
            }),
            by_group: named()
                .map(|group| (group.name.clone(), group_document(group)))
                .collect(),
            by_group_version: groups
                .iter()
                .flat_map(|group| {
                    group.versions.iter().map(|version| {
                        let name = group_version(&group.name, &version.version);
                        (name, resource_list(&group.name, version, has_hashes))
                    })
                })
                .collect(),
            aggregated_legacy: aggregated(legacy()),
            aggregated_groups: aggregated(named()),
        }
    }

    /// `/api`.
    pub fn legacy_versions(&self, form: &Form, headers: &HeaderMap) -> Answer {
        self.plain_or_aggregated(
            form,
            headers,
            &self.legacy_versions,
            &self.aggregated_legacy,
        )
    }

    /// `/apis`.
    pub fn groups(&self, form: &Form, headers: &HeaderMap) -> Answer {
        self.plain_or_aggregated(form, headers, &self.groups, &self.aggregated_groups)
    }

    /// `/apis/{group}`, or `None` when there is no such group.
    pub fn group(&self, name: &str, form: &Form) -> Option<Answer> {
        let document = self.by_group.get(name)?;
        Some(respond::document(StatusCode::OK, form, document.clone()))
    }

    /// `/api/{version}` and `/apis/{group}/{version}`, or `None` when there is no such version.
    pub fn resources(&self, group: &str, version: &str, form: &Form) -> Option<Answer> {
        let document = self.by_group_version.get(&group_version(group, version))?;
        Some(respond::document(StatusCode::OK, form, document.clone()))
    }

    /// Whether the group exists.
    pub fn has_group(&self, name: &str) -> bool {
        name.is_empty() || self.by_group.contains_key(name)
    }

    fn plain_or_aggregated(
        &self,
        form: &Form,
        headers: &HeaderMap,
        plain: &[u8],
        aggregated: &Tagged,
    ) -> Answer {
        let mut answer = match form.encoding.conversion {
            Some(Conversion::AggregatedDiscovery) if aggregated.tag.is_known(headers) => {
                aggregated.tag.not_modified()
            }
            Some(Conversion::AggregatedDiscovery) => {
                let mut answer = respond::document(StatusCode::OK, form, aggregated.body.to_vec());
                let headers = answer.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
                headers.insert(ETAG, aggregated.tag.header.clone());
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
                answer
            }
            _ => respond::document(StatusCode::OK, form, plain.to_vec()),
        };
        answer
            .headers_mut()
            .append(VARY, HeaderValue::from_static("Accept"));
        answer
    }
}

fn bytes(document: &impl Serialize) -> Vec<u8> {
    // Documents of texts and flags can always be written.
    let mut bytes = serde_json::to_vec(document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// `apps/v1`, or `v1` for the core group.
fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// A group without kind and apiVersion, as the list of groups contains it (API-23).
fn group_entry(group: &Group) -> ApiGroup<'_> {
    let versions = group.versions.iter().map(|version| Version {
        group_version: group_version(&group.name, &version.version),
        version: &version.version,
    });
    let versions: Vec<Version<'_>> = versions.collect();
    ApiGroup {
        kind: None,
        api_version: None,
        name: &group.name,
        preferred_version: versions.first().cloned(),
        versions,
    }
}

fn group_document(group: &Group) -> Vec<u8> {
    bytes(&ApiGroup {
        kind: Some("APIGroup"),
        api_version: Some("v1"),
        ..group_entry(group)
    })
}

/// The resources and subresources of a version, sorted by name (API-25).
fn resource_list(group: &str, version: &GroupVersion, has_hashes: bool) -> Vec<u8> {
    let resources = version.resources.iter().flat_map(|resource| {
        let subresources = resource.subresources.iter();
        let subresources = subresources.map(|storage| subresource_entry(&**storage));
        std::iter::once(resource_entry(&*resource.storage, has_hashes)).chain(subresources)
    });
    let mut resources: Vec<ApiResource<'_>> = resources.collect();
    resources.sort_by(|a, b| a.name.cmp(&b.name));
    bytes(&ApiResourceList {
        kind: "APIResourceList",
        api_version: (!group.is_empty()).then_some("v1"),
        group_version: group_version(group, &version.version),
        resources,
    })
}

fn verbs(storage: &dyn RestStorage) -> Vec<&'static str> {
    let verbs = storage.verbs();
    verbs.into_iter().map(Verb::as_str).collect()
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

/// The fields that resources and subresources share. A kind of another version is listed with that
/// version (API-25).
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

/// All these groups in one document (API-34, API-35).
fn aggregated<'g>(groups: impl Iterator<Item = &'g Group>) -> Tagged {
    let items = groups.map(|group| ApiGroupDiscovery {
        metadata: Metadata { name: &group.name },
        versions: group.versions.iter().map(aggregated_version).collect(),
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

fn aggregated_version(version: &GroupVersion) -> ApiVersionDiscovery<'_> {
    ApiVersionDiscovery {
        version: &version.version,
        resources: version.resources.iter().map(aggregated_entry).collect(),
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

fn aggregated_entry(resource: &ServedResource) -> ApiResourceDiscovery<'_> {
    let storage = &*resource.storage;
    let definition = storage.resource();
    let subresources = resource.subresources.iter();
    let subresources = subresources.map(|storage| ApiSubresourceDiscovery {
        subresource: storage.subresource(),
        response_kind: response_kind(&**storage),
        verbs: verbs(&**storage),
    });
    ApiResourceDiscovery {
        resource: &definition.plural,
        response_kind: response_kind(storage),
        scope: match definition.is_namespaced() {
            true => "Namespaced",
            false => "Cluster",
        },
        singular_resource: &definition.singular,
        verbs: verbs(storage),
        short_names: &definition.short_names,
        categories: &definition.categories,
        subresources: subresources.collect(),
    }
}

#[cfg(test)]
mod tests;
