//! Resources as data: what the daemon knows of a kind is a row, not code (docs/design.md 1).

/// Whether objects of a resource live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceScope {
    /// One set for the whole server.
    Cluster,
    /// A set in each namespace.
    Namespaced,
}

/// What a name may be (API-201).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain of at most 253 characters.
    DnsSubdomain,
    /// A DNS label of at most 63 characters.
    DnsLabel,
    /// Anything that can stand in a path (API-200).
    PathSegment,
}

/// When `metadata.generation` is counted up (API-197).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// Never; a value in a body is kept as sent on create.
    None,
    /// 1 on create, counted up when one of these top-level members (or `metadata.annotations`,
    /// written `metadata.annotations`) changes.
    OnChangeOf(&'static [&'static str]),
}

/// Which of the common metadata rules a kind's own validation repeats on update. It shows in the
/// number and order of causes alone, as every repetition is a cause of its own (API-148).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateChecks {
    /// None (events).
    None,
    /// The rules for changes (leases, deployments).
    Changes,
    /// The rules for changes, then those for every object (most kinds).
    ChangesThenObject,
    /// The rules for every object, then those for changes (namespaces, nodes).
    ObjectThenChanges,
}

/// What an unspecified propagation policy means on delete (API-114).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPropagation {
    /// Dependents are collected in the background.
    Background,
    /// Dependents are kept.
    Orphan,
    /// No collection at all (events).
    Unsupported,
}

/// A column of a Table (API-68).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// `string`, `integer`, `boolean`, …
    pub kind: &'static str,
    /// `name` for the first column of most, `""` otherwise.
    pub format: &'static str,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: u8,
    /// What it shows.
    pub description: &'static str,
    /// How a cell is computed.
    pub cell: Cell,
}

/// How a cell of a Table is computed from an object (API-76, API-77, API-218).
#[derive(Clone, Copy)]
pub enum Cell {
    /// `metadata.name`.
    Name,
    /// Time since creation in short human form.
    Age,
    /// Creation time as RFC 3339 text.
    CreatedAt,
    /// The text at a path, or this text when it is absent.
    Text(&'static [&'static str], &'static str),
    /// Number of members of the maps or lists at these paths, added up.
    Count(&'static [&'static [&'static str]]),
    /// Anything else.
    Computed(fn(&crate::api::object::Object, jiff::Timestamp) -> serde_json::Value),
}

impl PartialEq for Cell {
    fn eq(&self, other: &Cell) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Eq for Cell {}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Name => f.write_str("Name"),
            Cell::Age => f.write_str("Age"),
            Cell::CreatedAt => f.write_str("CreatedAt"),
            Cell::Text(path, absent) => write!(f, "Text({path:?}, {absent:?})"),
            Cell::Count(paths) => write!(f, "Count({paths:?})"),
            Cell::Computed(_) => f.write_str("Computed"),
        }
    }
}

/// A subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Its name in the path: `status`.
    pub name: &'static str,
    /// Verbs, sorted.
    pub verbs: &'static [&'static str],
}

/// A field that field selectors may name beside `metadata.name` and `metadata.namespace`
/// (http.md 6.3), with the paths to its value; the first one that leads to more than an empty text
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The label in the selector: `spec.nodeName`.
    pub label: &'static str,
    /// Paths into the object.
    pub paths: &'static [&'static [&'static str]],
    /// Its value when no path leads anywhere: `false` for booleans, which are never absent.
    pub absent: &'static str,
}

/// Everything the daemon knows of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDefinition {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Served version; there is one so far, which is also the stored one.
    pub version: &'static str,
    /// `ConfigMap`.
    pub kind: &'static str,
    /// `configmaps`.
    pub plural: &'static str,
    /// `configmap`.
    pub singular: &'static str,
    /// `cm`.
    pub short_names: &'static [&'static str],
    /// `all`.
    pub categories: &'static [&'static str],
    /// Scope.
    pub scope: ResourceScope,
    /// Verbs, sorted.
    pub verbs: &'static [&'static str],
    /// Subresources, sorted by name.
    pub subresources: &'static [Subresource],
    /// Place below the store's prefix, `services/specs` for services (KV-1, KV-2).
    pub key_prefix: &'static str,
    /// What names may be.
    pub name_rule: NameRule,
    /// Generation.
    pub generation: GenerationRule,
    /// PUT creates what is absent (http.md 6.2, CoU).
    pub create_on_update: bool,
    /// PUT without a version overwrites (http.md 6.2, UU).
    pub unconditional_update: bool,
    /// DELETE answers the object and not a Status (API-109).
    pub returns_deleted: bool,
    /// Finalizers must be standard or fully qualified (API-205).
    pub strict_finalizers: bool,
    /// Which common metadata rules the kind's own validation repeats on update.
    pub update_checks: UpdateChecks,
    /// Default propagation policy.
    pub propagation: DefaultPropagation,
    /// How long its objects live.
    pub lifetime: Lifetime,
    /// Fields for field selectors.
    pub selectable_fields: &'static [SelectableField],
    /// Whether `metadata.namespace` is a field selector of its own (API-215).
    pub selects_namespace: bool,
    /// Columns of its Tables.
    pub columns: &'static [Column],
    /// What an object of the kind shows beside kind, apiVersion and metadata when nothing of it is
    /// set, each member with a comma before it: bookmarks are such objects (WA-41).
    pub empty_members: &'static str,
    /// Members besides kind, apiVersion and metadata with the JSON type each must have, for the
    /// few types that are checked before schemas exist: `data` of ConfigMaps and so on. A dotted
    /// path names a member deeper down, `spec.renewTime`; what lies above it is listed first.
    pub member_types: &'static [(&'static str, MemberType)],
}

/// How long an object lives when nobody deletes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// For ever.
    Unlimited,
    /// For as long as the configuration wants events to be kept, from its last change on (OP-4).
    OfEvents,
}

/// The type that a member must have when it is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberType {
    /// An object.
    Object,
    /// An object whose values are strings.
    StringMap,
    /// An object whose values are base64 strings.
    Base64Map,
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// A list.
    List,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A time in RFC 3339 form.
    Time,
    /// A time in RFC 3339 form with exactly six decimals (leases).
    MicroTime,
}

impl ResourceDefinition {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `configmaps` or `deployments.apps`, as messages and metrics name it.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.scope == ResourceScope::Namespaced
    }
}
