//! The discovery documents. Their members have the order of Go's structs, because some programs
//! search the text for parts of it.

use serde::Serialize;
use serde_json::value::RawValue;

/// `/api` (API-22).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiVersions<'d> {
    pub kind: &'static str,
    pub versions: Vec<&'d str>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    pub server_addresses: [ServerAddress<'d>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerAddress<'d> {
    #[serde(rename = "clientCIDR")]
    pub client_cidr: &'static str,
    pub server_address: &'d str,
}

/// `/apis` (API-23).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupList<'d> {
    pub kind: &'static str,
    pub api_version: &'static str,
    pub groups: Vec<ApiGroup<'d>>,
}

/// A group. In the list of groups it has neither kind nor apiVersion (API-23).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup<'d> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<&'static str>,
    pub name: &'d str,
    pub versions: Vec<Version<'d>>,
    pub preferred_version: Option<Version<'d>>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Version<'d> {
    pub group_version: String,
    pub version: &'d str,
}

/// The resources of a version (API-25).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceList<'d> {
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<&'static str>,
    pub group_version: String,
    pub resources: Vec<ApiResource<'d>>,
}

/// A resource or subresource.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResource<'d> {
    pub name: String,
    pub singular_name: &'d str,
    pub namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub group: &'d str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: &'d str,
    pub kind: &'d str,
    pub verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub short_names: &'d [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub categories: &'d [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_version_hash: Option<String>,
}

/// All groups in one document (API-34).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupDiscoveryList<'d> {
    pub kind: &'static str,
    pub api_version: &'static str,
    pub metadata: Metadata<'d>,
    pub items: Vec<ApiGroupDiscovery<'d>>,
}

#[derive(Serialize)]
pub(super) struct Metadata<'d> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'d str,
}

#[derive(Serialize)]
pub(super) struct ApiGroupDiscovery<'d> {
    pub metadata: Metadata<'d>,
    /// Serialized [`ApiVersionDiscovery`] documents.
    pub versions: Vec<&'d RawValue>,
}

#[derive(Serialize)]
pub(super) struct ApiVersionDiscovery<'d> {
    pub version: &'d str,
    pub resources: Vec<ApiResourceDiscovery<'d>>,
    pub freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceDiscovery<'d> {
    pub resource: &'d str,
    pub response_kind: ResponseKind<'d>,
    pub scope: &'static str,
    pub singular_resource: &'d str,
    pub verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub short_names: &'d [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub categories: &'d [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subresources: Vec<ApiSubresourceDiscovery<'d>>,
}

/// The kind of responses. Empty group and version mean those of the list (API-35).
#[derive(Serialize)]
pub(super) struct ResponseKind<'d> {
    pub group: &'d str,
    pub version: &'d str,
    pub kind: &'d str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiSubresourceDiscovery<'d> {
    pub subresource: Option<&'d str>,
    pub response_kind: ResponseKind<'d>,
    pub verbs: Vec<&'static str>,
}
