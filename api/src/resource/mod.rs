//! Resource definitions as data, and the behaviour of kinds.
//!
//! Contains the description of a resource: its names, its place in discovery, and the [`Behaviour`]
//! of its kind as one object. A definition is a value that is built at run time; built-in and
//! custom resources have the same type. The methods of a behaviour take objects, and return changed
//! objects, field errors and cells. Nothing here knows I/O, storage or single kinds.

mod behaviour;
mod columns;
mod conversion;
mod converter;
mod declared;
mod former;
mod json_schema;
mod path;
mod rules;
mod scaling;
mod selectable;
mod verb;

use std::sync::Arc;

use jiff::Timestamp;

use crate::group_version_kind::GroupVersionKind;
use crate::object::Object;
use crate::schema::{Empty, ObjectType};
use crate::typed::ValueType;

pub use behaviour::Behaviour;
pub use columns::{Cell, Column, Compute, Description, OfField};
pub use conversion::{Conversion, ConversionStrategy, UnservedVersion, convert, converted};
pub use converter::{Converter, Converting};
pub use declared::Declared;
pub use former::FormerVersion;
pub use json_schema::JsonSchema;
pub use path::FieldPath;
pub use rules::{
    DefaultPropagation, DeletionRule, Effect, EndpointRules, GenerationRule, Lifetime, NameRule,
    Rules, UpdateCheck, WriteVersion,
};
pub(crate) use scaling::REPLICAS;
pub use scaling::Scaling;
pub use selectable::{SelectableField, UnknownLabels};
pub use verb::Verb;

/// Whether a resource is namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceScope {
    /// One set of objects for the whole server.
    Cluster,
    /// One set of objects in each namespace.
    Namespaced,
}

/// A subresource: a path below an object that reads and changes a part of the object, or that shows
/// the object as another kind.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name in the path: `status`.
    pub name: String,
    /// Verbs, sorted.
    pub verbs: Vec<Verb>,
    /// The kind of its requests and responses, if it is not that of the object.
    pub kind: Option<Arc<ResourceDefinition>>,
    /// Whether its objects can be shown as Tables.
    pub has_tables: bool,
}

impl Subresource {
    /// Returns the kind of its requests and responses, as a subresource of this resource.
    pub fn kind<'d>(&'d self, resource: &'d ResourceDefinition) -> &'d ResourceDefinition {
        self.kind.as_deref().unwrap_or(resource)
    }
}

/// How far a resource is served (CRD-81, CRD-84, CRD-100).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It is served and shown by discovery.
    #[default]
    Announced,
    /// It is served, but not shown by discovery: a definition that is not established.
    Unannounced,
    /// Its definition is being deleted: no object can be created, and discovery shows fewer verbs.
    Terminating,
}

/// A version of a resource: its names, its place in discovery and storage, and the behaviour of its
/// kind.
#[derive(Clone)]
pub struct ResourceDefinition {
    /// API group; empty for the core group.
    pub group: String,
    /// The served version. Another version of the resource is another definition.
    pub version: String,
    /// `ConfigMap`.
    pub kind: String,
    /// `configmaps`.
    pub plural: String,
    /// `configmap`.
    pub singular: String,
    /// `cm`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// Cluster-scoped or namespaced.
    pub scope: ResourceScope,
    /// The verbs, sorted.
    pub verbs: Vec<Verb>,
    /// The subresources, sorted by name.
    pub subresources: Vec<Subresource>,
    /// The path below the store's prefix, `services/specs` for services (KV-1, KV-2).
    pub key_prefix: String,
    /// The deprecation of its version, if it is deprecated.
    pub deprecation: Option<Deprecation>,
    /// The kind of its lists, if it is not the kind with `List` after it (CRD-202).
    pub other_list_kind: Option<String>,
    /// How far it is served.
    pub phase: Phase,
    /// A number that no other definition of the same name had, 0 for built-in resources. A text
    /// that was rendered by one definition is not used for another.
    pub edition: u64,
    /// The behaviour of its kind.
    pub behaviour: Arc<dyn Behaviour>,
}

/// The deprecation of a version of a kind (API-141).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deprecation {
    /// By a release of Kubernetes.
    ByRelease {
        /// The version of Kubernetes that deprecated it: `v1.33`.
        since: String,
        /// The version and kind to use instead, may be empty: `discovery.k8s.io/v1 EndpointSlice`.
        replacement: String,
    },
    /// By a definition, with this warning (CRD-90).
    ByDefinition(String),
}

impl std::fmt::Debug for ResourceDefinition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {}", self.qualified(), self.version)
    }
}

impl ResourceDefinition {
    /// Returns a resource with these names and the properties of most kinds: all verbs, namespaced,
    /// stored below its plural.
    pub fn named(group: &str, version: &str, kind: &str, plural: &str) -> ResourceDefinition {
        ResourceDefinition {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: ResourceScope::Namespaced,
            verbs: Verb::ALL.to_vec(),
            subresources: Vec::new(),
            key_prefix: plural.to_owned(),
            deprecation: None,
            other_list_kind: None,
            phase: Phase::Announced,
            edition: 0,
            behaviour: Arc::new(Declared::default()),
        }
    }

    /// Returns the resource with another behaviour.
    #[must_use]
    pub fn with(self, behaviour: impl Behaviour + 'static) -> ResourceDefinition {
        ResourceDefinition {
            behaviour: Arc::new(behaviour),
            ..self
        }
    }

    /// Returns the declared rules of its kind.
    pub fn rules(&self) -> &Rules {
        self.behaviour.rules()
    }

    /// Returns the type of its objects.
    pub fn object_type(&self) -> &ObjectType {
        self.behaviour.object_type()
    }

    /// Returns the type by which fields of its objects have owners.
    pub fn value_type(&self) -> ValueType<'_> {
        self.behaviour.value_type()
    }

    /// Applies defaults to fields that the writer of an object left out (http.md 7). A second call
    /// changes nothing.
    pub fn fill_in(&self, object: &mut Object) {
        if !self.behaviour.has_defaults() {
            return;
        }
        if let Some((schema, id)) = self.object_type().found() {
            schema.add_structs(id, &mut object.0);
        }
        self.behaviour.set_defaults(object);
    }

    /// Applies defaults to an object that was read from storage (KV-30), and brings it into the
    /// canonical form.
    pub fn fill_in_stored(&self, object: &mut Object, now: Timestamp) {
        if let Some((schema, id)) = self.object_type().found() {
            schema.add_structs(id, &mut object.0);
        }
        self.behaviour.set_stored_defaults(object, now);
        self.canonicalize_with(object, Empty::Printed);
    }

    /// Brings an object of this version into the canonical form, the JSON that Go prints after
    /// decoding it. Objects in this form can be compared.
    pub fn canonicalize(&self, object: &mut Object) {
        self.behaviour.canonicalize(object, Empty::Forgotten);
    }

    /// Brings an object that is being written into the canonical form that keeps the empty lists
    /// and maps selected by `empty`. Returns whether it kept any.
    pub fn canonicalize_with(&self, object: &mut Object, empty: Empty) -> bool {
        self.behaviour.canonicalize(object, empty)
    }

    /// Removes empty lists and maps that are empty or absent in the stored object, too.
    pub fn forget_same_empties(&self, object: &mut Object, stored: &Object) {
        if let Some((schema, id)) = self.object_type().found() {
            schema.forget_same_empties(id, &mut object.0, &stored.0);
        }
    }

    /// Converts an object from the hub version into this version, except apiVersion and kind.
    pub fn convert_from_hub(&self, object: &mut Object) {
        if self.has_own_form() {
            self.behaviour.convert_from_hub(&self.version, object);
        }
    }

    /// Returns the indexed selectable fields, by their positions in the list.
    pub fn indexed_fields(&self) -> Vec<u32> {
        let fields = (0..).zip(self.behaviour.selectable_fields());
        fields
            .filter_map(|(place, field)| field.indexed.then_some(place))
            .collect()
    }

    /// Returns the warning for clients of a deprecated version (API-141).
    pub fn deprecation_warning(&self) -> Option<String> {
        let (since, replacement) = match self.deprecation.as_ref()? {
            Deprecation::ByRelease { since, replacement } => (since, replacement),
            Deprecation::ByDefinition(warning) => return Some(warning.clone()),
        };
        let (version, kind) = (self.api_version(), &self.kind);
        let instead = match replacement.as_str() {
            "" => String::new(),
            other => format!("; use {other}"),
        };
        Some(format!(
            "{version} {kind} is deprecated in {since}+{instead}"
        ))
    }

    /// Returns the kind with group and version.
    pub fn group_version_kind(&self) -> GroupVersionKind<'_> {
        GroupVersionKind {
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
        }
    }

    /// Returns the group of kube-apiserver's internal type, which error messages name: Events of
    /// both groups belong to the core group there.
    pub fn internal_group(&self) -> &str {
        let internal = self.rules().internal_group.as_deref();
        internal.unwrap_or(&self.group)
    }

    /// Returns the package of the internal type in Kubernetes' sources, as error messages name it.
    pub fn internal_package(&self) -> &str {
        let package = self.internal_group().split('.').next();
        package.filter(|name| !name.is_empty()).unwrap_or("core")
    }

    /// Returns the apiVersion: `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the plural with its group, as in messages and metrics: `configmaps` or
    /// `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Returns the kind of its lists.
    pub fn list_kind(&self) -> String {
        let other = self.other_list_kind.clone();
        other.unwrap_or_else(|| format!("{}List", self.kind))
    }

    /// Returns whether writes are carried out in the version of the request.
    pub fn is_written_as_sent(&self) -> bool {
        self.rules().write_version == WriteVersion::OfRequest
    }

    /// Returns whether this is the same version of the same resource.
    pub fn is_version_of(&self, other: &ResourceDefinition) -> bool {
        self.version == other.version && self.group == other.group && self.plural == other.plural
    }

    /// Returns whether the schema of its objects differs from that of the hub version.
    pub fn has_own_form(&self) -> bool {
        self.rules().conversion == ConversionStrategy::OwnForm
    }

    /// Returns whether its objects differ from those of other versions only in `apiVersion`.
    pub fn is_type_only(&self) -> bool {
        self.rules().conversion == ConversionStrategy::TypeOnly
    }

    /// Returns whether it is namespaced.
    pub fn is_namespaced(&self) -> bool {
        self.scope == ResourceScope::Namespaced
    }

    /// Returns whether the resource has this group and plural.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Returns a subresource by its name in the path.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|known| known.name == name)
    }
}
