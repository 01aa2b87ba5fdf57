//! A CustomResourceDefinition as the loops and the serving of its resource see it. Pure.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use actors::object::CachedObject;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::admission::hooks::client::ClientConfig;
use crate::api::custom::ScalePaths;
use crate::api::deep;

/// A definition, without the texts of its schemas.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    /// Its name: `widgets.example.com`.
    pub name: String,
    pub uid: String,
    /// The revision of the object that it was read from.
    pub version: u64,
    /// The number of its spec.
    pub generation: i64,
    pub is_deleting: bool,
    pub finalizers: Vec<String>,
    /// The annotation about its approval.
    pub approval: Option<String>,
    pub spec: Arc<Spec>,
    pub accepted: Names,
    /// The versions in which objects may be stored.
    pub stored_versions: Vec<String>,
    /// The conditions in JSON.
    pub conditions: Vec<Value>,
}

/// The parts of a spec that are not schemas.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spec {
    pub group: String,
    pub is_namespaced: bool,
    pub names: Names,
    pub versions: Vec<Version>,
    /// The webhook that converts between versions, if one does.
    pub webhook: Option<Webhook>,
    /// The certificates by which a webhook is verified, in base64.
    pub ca_bundle: Option<String>,
    pub keeps_unknown: bool,
}

/// The names of a resource.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Names {
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub kind: String,
    pub list_kind: String,
    pub categories: Vec<String>,
}

/// A version of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Version {
    pub name: String,
    pub is_served: bool,
    pub is_storage: bool,
    /// The warning about its use, empty for the usual one. `None` if it is not deprecated.
    pub deprecation: Option<String>,
    /// A number that versions with equal schemas share.
    pub schema: u64,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    pub columns: Vec<Value>,
    pub selectable: Vec<Value>,
}

/// A definition. `S` is its spec, or [`IgnoredAny`] if that is known.
#[derive(Deserialize)]
struct Document<S> {
    metadata: Metadata,
    spec: S,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    generation: i64,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "api-approved.kubernetes.io")]
    approval: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    accepted_names: Option<Names>,
    stored_versions: Option<Vec<String>>,
    conditions: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecText<'d> {
    group: String,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    names: Names,
    #[serde(borrow, default)]
    versions: Vec<VersionText<'d>>,
    #[serde(default)]
    conversion: Conversion,
    #[serde(default)]
    preserve_unknown_fields: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Conversion {
    strategy: String,
    webhook: Option<Webhook>,
}

/// A webhook that converts between versions.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Webhook {
    /// Where it is.
    pub client_config: Option<ClientConfig>,
    /// The versions of ConversionReview that it knows.
    pub conversion_review_versions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionText<'d> {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
    #[serde(default)]
    deprecated: bool,
    deprecation_warning: Option<String>,
    #[serde(borrow)]
    schema: Option<&'d RawValue>,
    #[serde(default)]
    subresources: Option<Subresources>,
    #[serde(default)]
    additional_printer_columns: Option<Vec<Value>>,
    #[serde(default)]
    selectable_fields: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Subresources {
    status: Option<Value>,
    scale: Option<Scale>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scale {
    spec_replicas_path: String,
    status_replicas_path: String,
    label_selector_path: Option<String>,
}

/// A definition that was read, or why it could not be.
pub type ReadDefinition = Result<Definition, serde_json::Error>;

/// The number of definitions that are not worth a second thread: they are read in a millisecond.
const READ_ALONE: usize = 32;

/// The keys of the numbers of schemas, so that nobody can make two schemas with one number.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Definition {
    /// Reads a definition from the text of a cached object. `known` is what was read before; its
    /// spec is kept if it is the same.
    ///
    /// # Errors
    /// The text is not that of a definition.
    pub fn read(
        cached: &CachedObject,
        known: Option<&Definition>,
    ) -> Result<Definition, serde_json::Error> {
        let text = text_of(cached);
        if let Some(known) = known {
            let document: Document<IgnoredAny> = serde_json::from_slice(&text)?;
            let Document {
                metadata, status, ..
            } = document;
            let is_same = known.uid == metadata.uid && known.generation == metadata.generation;
            if is_same && known.generation != 0 {
                let spec = Arc::clone(&known.spec);
                return Ok(Definition::of(cached, spec, metadata, status));
            }
        }
        let document: Document<SpecText<'_>> = serde_json::from_slice(&text)?;
        let spec = Arc::new(Spec::of(document.spec));
        Ok(Definition::of(
            cached,
            spec,
            document.metadata,
            document.status,
        ))
    }

    /// Reads definitions on all cores, because a start waits for it. Each comes with the same one
    /// as it was known before.
    pub fn read_all<'c>(
        all: &[(&'c Arc<CachedObject>, Option<&Definition>)],
    ) -> Vec<(&'c Arc<CachedObject>, ReadDefinition)> {
        let read = |part: &[(&'c Arc<CachedObject>, Option<&Definition>)]| {
            let part = part.iter();
            let read = part.map(|(cached, known)| (*cached, Definition::read(cached, *known)));
            read.collect::<Vec<_>>()
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let size = all.len().div_ceil(cores).max(READ_ALONE);
        let mut parts = all.chunks(size);
        let first = parts.next().unwrap_or_default();
        std::thread::scope(|scope| {
            let others = parts.map(|part| scope.spawn(move || read(part)));
            let others: Vec<_> = others.collect();
            let mut done = read(first);
            for other in others {
                match other.join() {
                    Ok(read) => done.extend(read),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        })
    }

    fn of(
        cached: &CachedObject,
        spec: Arc<Spec>,
        metadata: Metadata,
        status: Status,
    ) -> Definition {
        Definition {
            name: metadata.name,
            uid: metadata.uid,
            version: cached.revision.0,
            generation: metadata.generation,
            is_deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers,
            approval: metadata.annotations.approval,
            spec,
            accepted: status.accepted_names.unwrap_or_default(),
            stored_versions: status.stored_versions.unwrap_or_default(),
            conditions: status.conditions.unwrap_or_default(),
        }
    }

    /// Returns the condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Value> {
        let is = |condition: &&Value| condition.get("type").and_then(Value::as_str) == Some(kind);
        // linear: a definition has few conditions.
        self.conditions.iter().find(is)
    }

    /// Returns whether a condition is true.
    pub fn is(&self, kind: &str) -> bool {
        let condition = self.condition(kind);
        let status = condition.and_then(|condition| condition.get("status"));
        status.and_then(Value::as_str) == Some("True")
    }

    /// Returns whether its resource is served (CRD-81).
    pub fn is_served(&self) -> bool {
        self.is("NamesAccepted") || self.is("Established")
    }
}

impl Spec {
    fn of(text: SpecText<'_>) -> Spec {
        let webhook = text.conversion.webhook;
        let client = webhook
            .as_ref()
            .and_then(|hook| hook.client_config.as_ref());
        let ca_bundle = client.map(|client| client.ca_bundle.clone());
        let is_asked = text.conversion.strategy == "Webhook";
        Spec {
            group: text.group,
            is_namespaced: text.scope == "Namespaced",
            names: text.names,
            versions: text.versions.into_iter().map(Version::of).collect(),
            ca_bundle: ca_bundle.filter(|bundle| !bundle.is_empty()),
            webhook: is_asked.then(|| webhook.unwrap_or_default()),
            keeps_unknown: text.preserve_unknown_fields == Some(true),
        }
    }

    /// Returns the version in which objects are stored.
    pub fn storage(&self) -> Option<&Version> {
        // linear: a definition has few versions.
        self.versions.iter().find(|version| version.is_storage)
    }
}

impl Version {
    fn of(text: VersionText<'_>) -> Version {
        let schema = text.schema.map_or("", RawValue::get);
        let parts = text.subresources;
        let has_status = parts.as_ref().is_some_and(|parts| parts.status.is_some());
        let scale = parts.and_then(|parts| parts.scale);
        Version {
            name: text.name,
            is_served: text.served,
            is_storage: text.storage,
            deprecation: text
                .deprecated
                .then(|| text.deprecation_warning.unwrap_or_default()),
            schema: KEYS.hash_one(schema),
            has_status,
            scale: scale.map(|scale| ScalePaths {
                spec_replicas: scale.spec_replicas_path,
                status_replicas: scale.status_replicas_path,
                label_selector: scale.label_selector_path.filter(|path| !path.is_empty()),
            }),
            columns: text.additional_printer_columns.unwrap_or_default(),
            selectable: text.selectable_fields.unwrap_or_default(),
        }
    }
}

fn text_of(cached: &CachedObject) -> Vec<u8> {
    [b"{", cached.item_body()].concat()
}

/// Returns the schema of a version in the text of a definition.
pub(super) fn schema_of(cached: &CachedObject, version: &str) -> Option<Value> {
    #[derive(Deserialize)]
    struct Holder<'d> {
        #[serde(borrow)]
        spec: Versions<'d>,
    }
    #[derive(Deserialize)]
    struct Versions<'d> {
        #[serde(borrow)]
        versions: Vec<Named<'d>>,
    }
    #[derive(Deserialize)]
    struct Named<'d> {
        name: String,
        #[serde(borrow)]
        schema: Option<&'d RawValue>,
    }
    let text = text_of(cached);
    let holder: Holder<'_> = serde_json::from_slice(&text).ok()?;
    let mut versions = holder.spec.versions.into_iter();
    let found = versions.find(|known| known.name == version)?;
    let mut schema: Value = deep::from_json(found.schema?.get().as_bytes()).ok()?;
    Some(schema.get_mut("openAPIV3Schema")?.take())
}
