//! Resource definitions as data.
//!
//! This folder owns the description of a kind: its names, verbs, rules, strategies and columns. A
//! definition is a value that is built at run time, and built-in and custom resources have the same
//! type. Parts of objects enter through the functions of a definition, changed objects and field
//! errors leave. This folder must not know I/O or storage.

mod columns;
mod conversion;
mod former;
mod path;
mod scaling;
mod strategy;
mod verb;

use crate::field_error::go_quote;
use crate::group_version_kind::GroupVersionKind;
use crate::object::Object;
use crate::schema::{self, Empty, ObjectType};

pub use columns::{Cell, Column, Description, OfField};
pub use conversion::{ConversionStrategy, UnservedVersion, convert, converted};
pub use former::FormerVersion;
pub use path::FieldPath;
pub(crate) use scaling::REPLICAS;
pub use scaling::Scaling;
pub use strategy::{
    CreateStrategy, DeleteStrategy, DropFunction, UpdateStrategy, WarningsFunction,
};
pub use verb::Verb;

/// Whether objects of a resource live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceScope {
    /// One set of objects for the whole server.
    Cluster,
    /// One set of objects in each namespace.
    Namespaced,
}

/// The rule for names (API-201).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain of at most 253 characters.
    DnsSubdomain,
    /// As before. What names are made from is not checked itself.
    DnsSubdomainWhole,
    /// What the kind's own validation says.
    OfKind,
    /// A DNS label of at most 63 characters.
    DnsLabel,
    /// Any valid segment of a path (API-200).
    PathSegment,
}

/// The rule for increasing `metadata.generation` (API-197).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// Never. A value in the body of a create is kept.
    None,
    /// It is 1 on create and increases when a value at one of these paths changes.
    OnChangeOf(Vec<FieldPath>),
    /// It is as in the body on create, normally absent, and increases when a value at one of these
    /// paths changes (CSIDrivers).
    FromAbsentOnChangeOf(Vec<FieldPath>),
}

/// Common metadata rules that a kind's own validation repeats on update, in its order. They only
/// affect the number and order of causes, because every repetition is a separate cause (API-148).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateCheck {
    /// The rules for every object.
    Object,
    /// The rules for changes.
    Changes,
}

/// The meaning of an unspecified propagation policy on delete (API-114).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPropagation {
    /// Dependents are collected in the background.
    Background,
    /// Dependents are kept.
    Orphan,
    /// No collection at all (events).
    Unsupported,
}

/// A subresource: a path below an object that reads the object and changes a part of it, or that
/// shows a part in a kind of its own.
#[derive(Clone)]
pub struct Subresource {
    /// Its name in the path: `status`.
    pub name: String,
    /// Verbs, sorted.
    pub verbs: Vec<Verb>,
    /// The rules for updates through it.
    pub update: UpdateStrategy,
    /// As [`ResourceDefinition::update_checks`], for updates through it.
    pub update_checks: &'static [UpdateCheck],
    /// How it shows the object as a Scale, if it does. Updates of the object follow the rules of
    /// the object itself then.
    pub scaling: Option<Scaling>,
    /// Whether what it changes counts as a change of the object's generation.
    pub raises_generation: bool,
    /// Whether its objects can be Tables.
    pub has_tables: bool,
}

impl Subresource {
    /// The kind of its requests and answers, as a subresource of this resource.
    pub fn kind<'d>(&'d self, resource: &'d ResourceDefinition) -> &'d ResourceDefinition {
        self.scaling
            .as_ref()
            .map_or(resource, |scaling| &scaling.kind)
    }
}

/// The words in which a kind with selectable fields refuses other labels (API-86).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownLabels {
    /// Those of most kinds.
    #[default]
    Plain,
    /// They name the kind.
    OfKind,
    /// They name the kind with its group and version.
    OfVersion,
}

impl UnknownLabels {
    /// The refusal of a label of this kind.
    pub fn refusal(self, label: &str, definition: &ResourceDefinition) -> String {
        let (version, kind) = (definition.api_version(), &definition.kind);
        match self {
            UnknownLabels::Plain => format!("field label not supported: {label}"),
            UnknownLabels::OfKind => {
                let label = go_quote(label);
                format!("field label {label} not supported for {kind}")
            }
            UnknownLabels::OfVersion => {
                format!("field label not supported for {version}, Kind={kind}: {label}")
            }
        }
    }
}

/// A field for field selectors (http.md 6.3), in addition to `metadata.name` and
/// `metadata.namespace`. The first path with a non-empty text gives its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The label in the selector: `spec.nodeName`.
    pub label: String,
    /// Paths into the object.
    pub paths: Vec<FieldPath>,
    /// The value when no path has one: `false` for booleans, which are never absent.
    pub absent: String,
    /// Whether watch caches keep an index, so that a list that demands a value reads only the
    /// objects that have it. Worth it where clients list few of many objects by this field.
    pub indexed: bool,
}

impl SelectableField {
    /// A field with text at one of these paths, written with dots.
    pub fn text(label: &str, paths: &[&str]) -> SelectableField {
        SelectableField {
            label: label.to_owned(),
            paths: FieldPath::list(paths),
            absent: String::new(),
            indexed: false,
        }
    }

    /// The same field with an index.
    pub fn indexed(self) -> SelectableField {
        SelectableField {
            indexed: true,
            ..self
        }
    }

    /// A field with a whole number at this path. It is 0 when absent.
    pub fn number(label: &str, path: &str) -> SelectableField {
        SelectableField {
            absent: "0".to_owned(),
            ..SelectableField::text(label, &[path])
        }
    }

    /// A boolean field at the path of its label. It is false when absent.
    pub fn flag(label: &str) -> SelectableField {
        SelectableField {
            absent: "false".to_owned(),
            ..SelectableField::text(label, &[label])
        }
    }
}

/// Everything the daemon knows of a resource.
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
    /// Scope.
    pub scope: ResourceScope,
    /// Verbs, sorted.
    pub verbs: Vec<Verb>,
    /// Subresources, sorted by name.
    pub subresources: Vec<Subresource>,
    /// Path below the store's prefix, `services/specs` for services (KV-1, KV-2).
    pub key_prefix: String,
    /// How objects are converted into the other versions that are stored below the same keys.
    pub conversion: ConversionStrategy,
    /// Versions that objects may be stored in and that are not served (SF-43).
    pub unserved: &'static [UnservedVersion],
    /// Other versions that objects may say, and that are read as this one (KV-27).
    pub former: Vec<FormerVersion>,
    /// Other versions of its group that bodies may say. Objects of them have the same form.
    pub accepts: &'static [&'static str],
    /// The rule for names.
    pub name_rule: NameRule,
    /// Generation.
    pub generation: GenerationRule,
    /// Whether an empty list or map, where none is stored, is a change for the generation.
    pub generation_tells_empty: bool,
    /// PUT creates what is absent (http.md 6.2, CoU).
    pub create_on_update: bool,
    /// PUT without a version overwrites (http.md 6.2, UU).
    pub unconditional_update: bool,
    /// DELETE answers with the object instead of a Status (API-109).
    pub returns_deleted: bool,
    /// Finalizers must be standard or fully qualified (API-205).
    pub strict_finalizers: bool,
    /// Which common metadata rules the kind's own validation repeats on update. It has its own
    /// rules for finalizers then (API-205).
    pub update_checks: &'static [UpdateCheck],
    /// Default propagation policy.
    pub propagation: DefaultPropagation,
    /// The lifetime of its objects.
    pub lifetime: Lifetime,
    /// Fills in what a writer left out, after decoding and after patches (http.md 7). Doing it
    /// twice changes nothing.
    pub defaults: Option<fn(&mut Object)>,
    /// Adds what an object shows of which nothing was given, beside what its type writes when it is
    /// empty: types that kube-apiserver has in memory lack fewer values (WA-41).
    pub empty: Option<fn(&mut Object)>,
    /// An annotation that is shown with whole objects only: it is none in memory (API-71).
    pub annotation_of_whole: Option<&'static str>,
    /// Drops the fields of features that are off, before the object is prepared. Whether there were
    /// any.
    pub disabled: Option<DropFunction>,
    /// The rules for creating an object.
    pub create: CreateStrategy,
    /// The rules for updating an object at its own endpoint.
    pub update: UpdateStrategy,
    /// The rules for deleting an object.
    pub delete: DeleteStrategy,
    /// Fields for field selectors.
    pub selectable_fields: Vec<SelectableField>,
    /// The words in which a kind with selectable fields refuses other labels.
    pub unknown_labels: UnknownLabels,
    /// Whether `metadata.namespace` is a separate field selector (API-215).
    pub selects_namespace: bool,
    /// Columns of its Tables.
    pub columns: Vec<Column>,
    /// The conditions of an object's row in a Table (API-76), if it has any.
    pub row_conditions: Option<fn(&Object) -> Option<serde_json::Value>>,
    /// Why an object that has the type can't be read after all, if it can't.
    pub unreadable: Option<fn(&Object) -> Option<String>>,
    /// The effect of its objects.
    pub effect: Effect,
    /// Since when its version is deprecated, if it is.
    pub deprecation: Option<Deprecation>,
    /// The type of its objects.
    pub object_type: ObjectType,
}

/// The effect of the objects of a kind (D-92).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// That of Kubernetes.
    Full,
    /// Nothing yet.
    NotYet,
    /// Nothing yet if they have this member.
    NotYetWith(&'static [&'static str]),
}

/// The deprecation of a version of a kind (API-141).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// The version of Kubernetes since which it is deprecated: `v1.33`.
    pub since: &'static str,
    /// The version and kind to use instead, if there is one: `discovery.k8s.io/v1 EndpointSlice`.
    pub replacement: &'static str,
}

/// The lifetime of an object that nobody deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// For ever.
    Unlimited,
    /// The configured retention of events, counted from the last change (OP-4).
    OfEvents,
}

impl std::fmt::Debug for ResourceDefinition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {}", self.qualified(), self.version)
    }
}

impl ResourceDefinition {
    /// Whether nothing follows yet from an object.
    pub fn lacks_effect(&self, object: &Object) -> bool {
        match self.effect {
            Effect::Full => false,
            Effect::NotYet => true,
            Effect::NotYetWith(member) => object.at(member).is_some_and(|found| !found.is_null()),
        }
    }

    /// Why an object can't be read that has the type of this version, if it can't.
    pub(crate) fn why_unreadable(&self, object: &Object) -> Option<String> {
        self.unreadable.and_then(|why| why(object))
    }

    /// Brings an object of this version into its canonical form: what Go prints of a struct that it
    /// has read. Objects in this form can be compared.
    pub fn canonicalize(&self, object: &mut Object) {
        if let Some((schema, id)) = self.object_type.found() {
            schema.canonicalize(id, &mut object.0);
        }
    }

    /// Brings an object of this version that is written into its canonical form, in which these
    /// empty lists and maps stay. Whether some have.
    pub fn canonicalize_with(&self, object: &mut Object, empty: Empty) -> bool {
        let found = self.object_type.found();
        found.is_some_and(|(schema, id)| schema.canonicalize_with(id, &mut object.0, empty))
    }

    /// Makes empty lists and maps of an object none where the stored one has none either.
    pub fn forget_same_empties(&self, object: &mut Object, stored: &Object) {
        if let Some((schema, id)) = self.object_type.found() {
            schema.forget_same_empties(id, &mut object.0, &stored.0);
        }
    }

    /// The selectable fields that are indexed, by their place in the list.
    pub fn indexed_fields(&self) -> Vec<u32> {
        let fields = (0..).zip(&self.selectable_fields);
        fields
            .filter_map(|(place, field)| field.indexed.then_some(place))
            .collect()
    }

    /// A resource with names and the properties of most kinds: every verb, namespaced, stored below
    /// its plural.
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
            conversion: ConversionStrategy::default(),
            unserved: &[],
            former: Vec::new(),
            accepts: &[],
            name_rule: NameRule::DnsSubdomain,
            generation: GenerationRule::None,
            generation_tells_empty: false,
            create_on_update: false,
            unconditional_update: true,
            returns_deleted: false,
            strict_finalizers: true,
            update_checks: &[UpdateCheck::Changes, UpdateCheck::Object],
            propagation: DefaultPropagation::Background,
            lifetime: Lifetime::Unlimited,
            defaults: None,
            empty: None,
            annotation_of_whole: None,
            disabled: None,
            create: CreateStrategy::default(),
            update: UpdateStrategy::default(),
            delete: DeleteStrategy::default(),
            selectable_fields: Vec::new(),
            unknown_labels: UnknownLabels::Plain,
            selects_namespace: true,
            columns: vec![Column::name(), Column::age()],
            row_conditions: None,
            unreadable: None,
            effect: Effect::Full,
            deprecation: None,
            object_type: schema::untyped(),
        }
    }

    /// What a client is told that uses a deprecated version of a kind (API-141).
    pub fn deprecation_warning(&self) -> Option<String> {
        let Deprecation { since, replacement } = self.deprecation?;
        let (version, kind) = (self.api_version(), &self.kind);
        let instead = match replacement {
            "" => String::new(),
            other => format!("; use {other}"),
        };
        Some(format!(
            "{version} {kind} is deprecated in {since}+{instead}"
        ))
    }

    /// Its kind with group and version.
    pub fn group_version_kind(&self) -> GroupVersionKind<'_> {
        GroupVersionKind {
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
        }
    }

    /// The group of the form in which Kubernetes handles the objects, which refusals name: Events
    /// of both groups are those of the core group.
    pub fn internal_group(&self) -> &str {
        match &*self.group {
            "events.k8s.io" => "",
            group => group,
        }
    }

    /// The package of the internal type in Kubernetes' sources, as refusals name it.
    pub fn internal_package(&self) -> &str {
        let package = self.internal_group().split('.').next();
        package.filter(|name| !name.is_empty()).unwrap_or("core")
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `configmaps` or `deployments.apps`, as messages and metrics name it.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Whether its objects have another form than that into which versions are converted.
    pub fn has_own_form(&self) -> bool {
        matches!(self.conversion, ConversionStrategy::Functions { .. })
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.scope == ResourceScope::Namespaced
    }

    /// Whether this resource has this plural in this group.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// A subresource by its name in the path.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|known| known.name == name)
    }
}
