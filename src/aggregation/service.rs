//! An APIService as requests and controllers need it. Pure.

use std::collections::BTreeMap;

use actors::object::CachedObject;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// The label of APIServices that a server has made for what it serves itself (CN-8, CN-10).
pub const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The port of a service that names none.
const DEFAULT_PORT: u16 = 443;

/// An APIService.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiService {
    /// Its name: `v1.example.com`.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The group that it is about, empty for the core group.
    pub group: String,
    /// The version of the group.
    pub version: String,
    /// `spec.groupPriorityMinimum`.
    pub group_priority: i32,
    /// `spec.versionPriority`.
    pub version_priority: i32,
    /// Where the group version is served. `None` means by this server.
    pub service: Option<ServiceReference>,
    /// The certificates by which the server is verified, in PEM. Empty means those of the system.
    pub ca_bundle: Vec<u8>,
    /// Whether the certificate of the server is not verified.
    pub insecure_skip_tls_verify: bool,
    /// The condition `Available`, if there is one.
    pub available: Option<Condition>,
    /// The keeper of the object.
    pub keeper: Keeper,
}

/// The keeper of an APIService.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeper {
    /// Users alone.
    #[default]
    Users,
    /// The server, once after each start (CN-9).
    OnStart,
    /// The server, all the time (CN-10).
    Always,
}

/// The service that an APIService names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its port.
    pub port: u16,
}

/// A condition of an APIService.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// `Available` is the only type in use.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A word for the reason.
    pub reason: String,
    /// The reason in full.
    pub message: String,
    /// When the status changed last, as it is stored.
    pub last_transition_time: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    uid: String,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    group: String,
    version: String,
    group_priority_minimum: i32,
    version_priority: i32,
    service: Option<Service>,
    ca_bundle: Option<String>,
    #[serde(rename = "insecureSkipTLSVerify")]
    insecure_skip_tls_verify: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Service {
    namespace: String,
    name: String,
    port: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

impl ApiService {
    /// Reads a stored APIService.
    ///
    /// # Errors
    /// It is not one.
    pub fn read(object: &CachedObject) -> Result<ApiService, serde_json::Error> {
        ApiService::of_text(&object.wire())
    }

    fn of_text(text: &[u8]) -> Result<ApiService, serde_json::Error> {
        let Document {
            metadata,
            spec,
            status,
        } = serde_json::from_slice(text)?;
        let label = metadata.labels.unwrap_or_default().remove(AUTOMANAGED);
        let keeper = match label.as_deref() {
            Some("onstart") => Keeper::OnStart,
            Some("true") => Keeper::Always,
            _ => Keeper::Users,
        };
        let mut conditions = status.conditions.unwrap_or_default().into_iter();
        let ca_bundle = spec.ca_bundle.unwrap_or_default();
        Ok(ApiService {
            name: metadata.name,
            uid: metadata.uid,
            group: spec.group,
            version: spec.version,
            group_priority: spec.group_priority_minimum,
            version_priority: spec.version_priority,
            service: spec.service.map(|service| ServiceReference {
                namespace: service.namespace,
                name: service.name,
                port: service.port.unwrap_or(DEFAULT_PORT),
            }),
            // The API takes only base64.
            ca_bundle: STANDARD.decode(ca_bundle).unwrap_or_default(),
            insecure_skip_tls_verify: spec.insecure_skip_tls_verify,
            available: conditions.find(|condition| condition.kind == "Available"),
            keeper,
        })
    }

    /// Whether another server serves the group version.
    pub fn is_remote(&self) -> bool {
        self.service.is_some()
    }

    /// Whether its condition says that it is available.
    pub fn is_available(&self) -> bool {
        let condition = self.available.as_ref();
        condition.is_some_and(|condition| condition.status == "True")
    }

    /// Whether discovery shows both in the same way.
    pub(super) fn is_listed_like(&self, other: &ApiService) -> bool {
        (&self.group, &self.version) == (&other.group, &other.version)
            && self.group_priority == other.group_priority
            && self.version_priority == other.version_priority
            && self.is_remote() == other.is_remote()
    }
}

/// Returns the name of the APIService of a group version.
pub fn name_of(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_object_is_read_with_its_defaults_cn_1() {
        let text = br#"{"metadata":{"name":"v1.a.example","uid":"u","labels":{
            "kube-aggregator.kubernetes.io/automanaged":"true"}},
            "spec":{"group":"a.example","version":"v1","groupPriorityMinimum":1000,
            "versionPriority":15,"caBundle":"YWJj","service":{"namespace":"n","name":"s"}},
            "status":{"conditions":[{"type":"Own","status":"True"},
            {"type":"Available","status":"False","reason":"R","message":"m"}]}}"#;
        let service = ApiService::of_text(text).unwrap();
        assert_eq!(service.name, name_of("a.example", "v1"));
        let wanted = ServiceReference {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
            port: 443,
        };
        assert_eq!(service.service, Some(wanted));
        assert_eq!(service.ca_bundle, b"abc");
        assert_eq!(service.keeper, Keeper::Always);
        assert!(!service.is_available());
        assert_eq!(service.available.unwrap().reason, "R");
        let text = br#"{"metadata":{"name":"v1."},"spec":{"version":"v1","caBundle":null}}"#;
        let service = ApiService::of_text(text).unwrap();
        assert!(!service.is_remote() && service.available.is_none());
    }
}
