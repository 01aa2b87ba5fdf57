//! Declared rules of a kind, which need no code (http.md 6.2).

use super::{ConversionStrategy, FieldPath, UnknownLabels, UnservedVersion};

/// The rule for names (API-201).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain of at most 253 characters.
    DnsSubdomain,
    /// A DNS subdomain, but the prefix of generated names is not checked.
    DnsSubdomainWhole,
    /// None here: the kind's own validation checks names.
    OfKind,
    /// A DNS label of at most 63 characters.
    DnsLabel,
    /// Any valid segment of a path (API-200).
    PathSegment,
}

/// The rule for increasing `metadata.generation` (API-197).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// It never changes. A value in the body of a create is kept.
    None,
    /// It is 1 on create, and increases when a value at one of these paths changes.
    OnChangeOf(Vec<FieldPath>),
    /// It is 1 on create, and increases when anything changes except metadata and these members
    /// (CRD-121).
    OnChangeBeside(Vec<String>),
    /// It is taken from the body on create, where it is normally absent, and increases when a value
    /// at one of these paths changes (CSIDrivers).
    FromAbsentOnChangeOf(Vec<FieldPath>),
}

/// Common metadata checks that a kind's own validation repeats on update, in its order. They only
/// affect the number and order of causes, because every repetition is a separate cause (API-148).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateCheck {
    /// The checks of every object.
    Object,
    /// The checks of changes.
    Changes,
}

/// The propagation policy of a delete that names none (API-114).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPropagation {
    /// Dependents are collected in the background.
    Background,
    /// Dependents are kept.
    Orphan,
    /// Never garbage-collected, as events.
    Unsupported,
}

/// Whether the objects of a kind have an effect in this server (D-92).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The same as in Kubernetes.
    Full,
    /// The same as in Kubernetes. The daemon that takes a write of such an object obeys it from its
    /// acknowledgement on.
    FullAtOnce,
    /// None yet.
    NotYet,
}

/// The lifetime of an object that nobody deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is deleted.
    Unlimited,
    /// The configured retention of events, since the last change (OP-4).
    OfEvents,
}

/// How objects of the kind are deleted (API-112, http.md 3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionRule {
    /// Only finalizers keep an object that is marked for deletion.
    #[default]
    Plain,
    /// Objects have a grace period ([`Behaviour::grace`](super::Behaviour::grace)).
    Graceful,
    /// The kind marks objects and keeps them in its own way
    /// ([`Behaviour::mark`](super::Behaviour::mark) and
    /// [`Behaviour::is_held`](super::Behaviour::is_held)).
    OwnMark,
}

/// The rules for updates at one endpoint: that of the object or of a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointRules {
    /// The parts that keep their stored values, even if the body changes them.
    pub keeps: Vec<FieldPath>,
    /// The parts that are not recorded in managedFields at this endpoint, because it does not write
    /// them (API-179).
    pub resets: Vec<FieldPath>,
    /// The only part that is recorded in managedFields at this endpoint, if there is only one.
    pub records: Option<FieldPath>,
    /// The common metadata checks that the kind's own validation repeats. Such a kind has stricter
    /// rules for finalizers (API-205).
    pub checks: Vec<UpdateCheck>,
    /// Whether changes at this endpoint increase the generation.
    pub raises_generation: bool,
}

/// The version in which writes of an object are carried out: in which it passes admission, is
/// prepared and validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteVersion {
    /// The hub version, as for built-in kinds.
    Hub,
    /// The version of the request, as for custom resources (CRD-138, CRD-140).
    OfRequest,
}

/// The declared rules of a kind.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The version in which writes are carried out.
    pub write_version: WriteVersion,
    /// Whether kube-apiserver decodes bodies without a type of Go: kind and apiVersion are required
    /// and another kind is invalid (CRD-153).
    pub is_unstructured: bool,
    /// The reason why objects can't be shown in this version, nor written in it, if any (CRD-209).
    pub unconvertible: Option<String>,
    /// The conversion of objects into other versions that are stored under the same keys.
    pub conversion: ConversionStrategy,
    /// Versions that objects may be stored in and that are not served (SF-43).
    pub unserved: Vec<UnservedVersion>,
    /// Other versions of its group that bodies may have, with the same schema.
    pub accepts: Vec<String>,
    /// The group of kube-apiserver's internal type, if it differs from that of the resource. Error
    /// messages name it.
    pub internal_group: Option<String>,
    /// The rule for names.
    pub name_rule: NameRule,
    /// The rule for increasing `metadata.generation`.
    pub generation: GenerationRule,
    /// Whether an empty list or map increases the generation if the stored object lacks it.
    pub empty_value_bumps_generation: bool,
    /// Whether PUT creates an object that does not exist (http.md 6.2, CoU).
    pub create_on_update: bool,
    /// Whether PUT without a resourceVersion overwrites (http.md 6.2, UU).
    pub unconditional_update: bool,
    /// Whether DELETE responds with the object instead of a Status (API-109).
    pub returns_deleted: bool,
    /// Whether finalizers must be standard or fully qualified (API-205).
    pub strict_finalizers: bool,
    /// The parts of a new object that are dropped.
    pub drops: Vec<FieldPath>,
    /// The rules for updates at the object's own endpoint.
    pub update: EndpointRules,
    /// The rules for updates at subresources that have their own, by name.
    pub subresources: Vec<(String, EndpointRules)>,
    /// How objects are deleted.
    pub deletion: DeletionRule,
    /// The default propagation policy.
    pub propagation: DefaultPropagation,
    /// The warning about a deletion that names no propagation policy.
    pub propagation_warning: Option<String>,
    /// The lifetime of its objects.
    pub lifetime: Lifetime,
    /// An annotation that PartialObjectMetadata and Tables leave out, because kube-apiserver's
    /// internal type does not have it (API-71).
    pub annotation_hidden_in_partial: Option<String>,
    /// The error for unknown labels in field selectors.
    pub unknown_labels: UnknownLabels,
    /// Whether `metadata.namespace` is a field label (API-215).
    pub selects_namespace: bool,
    /// Whether its objects have an effect.
    pub effect: Effect,
}

impl Default for Rules {
    /// Returns the rules of most kinds.
    fn default() -> Rules {
        Rules {
            write_version: WriteVersion::Hub,
            is_unstructured: false,
            unconvertible: None,
            conversion: ConversionStrategy::Unsupported,
            unserved: Vec::new(),
            accepts: Vec::new(),
            internal_group: None,
            name_rule: NameRule::DnsSubdomain,
            generation: GenerationRule::None,
            empty_value_bumps_generation: false,
            create_on_update: false,
            unconditional_update: true,
            returns_deleted: false,
            strict_finalizers: true,
            drops: Vec::new(),
            update: EndpointRules {
                checks: vec![UpdateCheck::Changes, UpdateCheck::Object],
                raises_generation: true,
                ..EndpointRules::default()
            },
            subresources: Vec::new(),
            deletion: DeletionRule::Plain,
            propagation: DefaultPropagation::Background,
            propagation_warning: None,
            lifetime: Lifetime::Unlimited,
            annotation_hidden_in_partial: None,
            unknown_labels: UnknownLabels::Plain,
            selects_namespace: true,
            effect: Effect::Full,
        }
    }
}

impl Rules {
    /// Returns the rules for updates at an endpoint. Subresources without rules of their own follow
    /// those of the object.
    pub fn endpoint(&self, subresource: &str) -> &EndpointRules {
        let mut parts = self.subresources.iter();
        let own = parts.find(|(name, _)| name == subresource);
        own.map_or(&self.update, |(_, rules)| rules)
    }

    /// Returns whether objects have no effect yet (D-92).
    pub fn lacks_effect(&self) -> bool {
        self.effect == Effect::NotYet
    }
}
