//! The rows of built-in kinds.

use api::completeness::Expected;
use api::error_list::{ErrorList, Ratchet};
use api::object::Object;
use api::resource::{
    Column, DefaultPropagation, Deprecation, Effect, EndpointRules, GenerationRule, Lifetime,
    NameRule, ResourceScope, SelectableField, UnknownLabels, UpdateCheck, Verb,
};
use api::user_info::UserInfo;
use jiff::Timestamp;
use serde_json::Value;

/// Changes an object.
pub type Change = fn(&mut Object);

/// Changes an object that replaces a stored one.
pub type ChangeOfStored = fn(&mut Object, &Object);

/// Sets the defaults of an object that was read from storage at this time.
pub type Completion = fn(&mut Object, Timestamp);

/// Sets timestamps in an object that replaces a stored one.
pub type Stamp = fn(&mut Object, &Object, Timestamp);

/// Adds the validation errors of an object.
pub type Check = fn(&Object, &mut ErrorList);

/// Adds the validation errors of an update: the new object, then the old one.
pub type CheckOfChange = fn(&Object, &Object, &mut ErrorList);

/// Returns the warnings about an object and the stored one that it replaces.
pub type Warnings = fn(&Object, Option<&Object>) -> Vec<String>;

/// The conversion between a version and the hub version of its resource.
#[derive(Clone, Copy)]
pub struct Conversions {
    /// From the version to the hub version.
    pub to_hub: Change,
    /// From the hub version to the version.
    pub from_hub: Change,
}

/// All data and functions of a built-in kind.
///
/// Some fields repeat those of [`api::resource::Rules`], which follow from them. A row is one flat
/// literal of constants over the properties of most kinds. A `Rules` in it would be a second
/// literal with a base of its own in each row, and functions such as `with_status`, which change a
/// few fields of both, would have to merge two values.
#[derive(Clone)]
pub struct Row {
    /// Package, version and kind: `apps.v1.Deployment`.
    pub object_type: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// The plural: `deployments`.
    pub plural: &'static str,
    /// The singular, unless it is the lower-case kind.
    pub singular: Option<&'static str>,
    /// Short names: `deploy`.
    pub short_names: &'static [&'static str],
    /// Categories: `all`.
    pub categories: &'static [&'static str],
    /// Scope.
    pub scope: ResourceScope,
    /// Verbs, sorted.
    pub verbs: Vec<Verb>,
    /// Subresources, sorted by name.
    pub subresources: Vec<Part>,
    /// Path below the store's prefix, if it is not the plural (KV-2).
    pub key_prefix: Option<&'static str>,
    /// The release that deprecated the version, if any.
    pub deprecation: Option<Deprecation>,

    /// Other versions of its group that bodies may have. Their schema is the same.
    pub accepts: &'static [&'static str],
    /// Whether its stored objects are also served in other versions, with another `apiVersion`.
    pub is_convertible: bool,
    /// The conversion of a version that has its own schema.
    pub conversion: Option<Conversions>,
    /// The group of the internal type in kube-apiserver, if it is another one.
    pub internal_group: Option<&'static str>,
    /// The rule for names.
    pub name_rule: NameRule,
    /// The rule for `metadata.generation`.
    pub generation: GenerationRule,
    /// Whether adding an empty list or map increases the generation.
    pub empty_value_bumps_generation: bool,
    /// Whether PUT creates an object that does not exist.
    pub create_on_update: bool,
    /// Whether PUT without a resourceVersion overwrites.
    pub unconditional_update: bool,
    /// Whether DELETE returns the object instead of a Status.
    pub returns_deleted: bool,
    /// Whether finalizers must be standard or fully qualified.
    pub strict_finalizers: bool,
    /// The metadata checks that the kind's own validation repeats on update.
    pub update_checks: &'static [UpdateCheck],
    /// The fields that are dropped from new objects.
    pub drops: &'static [&'static str],
    /// The fields that an update of the object keeps as stored.
    pub keeps: &'static [&'static str],
    /// The reset fields: an update of the object does not make its manager their owner.
    pub resets: &'static [&'static str],
    /// The default propagation policy.
    pub propagation: DefaultPropagation,
    /// The warning for a deletion without a propagation policy.
    pub propagation_warning: Option<&'static str>,
    /// The lifetime of its objects.
    pub lifetime: Lifetime,
    /// An annotation that PartialObjectMetadata and Tables leave out.
    pub annotation_hidden_in_partial: Option<&'static str>,
    /// Fields for field selectors.
    pub selectable_fields: Vec<SelectableField>,
    /// The wording for unknown labels in field selectors.
    pub unknown_labels: UnknownLabels,
    /// Whether `metadata.namespace` is a separate field selector.
    pub selects_namespace: bool,
    /// Columns of its Tables.
    pub columns: Vec<Column>,
    /// Whether Taffrail acts on its objects.
    pub effect: Effect,

    /// Sets defaults.
    pub defaults: Option<Change>,
    /// Sets the defaults of an object read from storage, if they differ from `defaults`.
    pub stored: Option<Completion>,
    /// Describes stored objects to which no defaults need to be applied. Types without protobuf
    /// need no description.
    pub complete: Option<fn() -> Expected>,
    /// Completes the empty object of a bookmark.
    pub empty: Option<Change>,
    /// Returns the reason why an object with a valid schema cannot be decoded.
    pub unreadable: Option<fn(&Object) -> Option<String>>,
    /// Drops fields of disabled feature gates.
    pub disabled: Option<fn(&mut Object, Option<&Object>) -> bool>,
    /// Records the user who creates an object.
    pub requester: Option<fn(&mut Object, &UserInfo)>,
    /// Sets fields that the writer owns although they are computed later.
    pub fill_in_owned: Option<Change>,
    /// Prepares a new object: the strategy's PrepareForCreate.
    pub prepare: Option<Change>,
    /// Prepares an update: the strategy's PrepareForUpdate.
    pub prepare_update: Option<ChangeOfStored>,
    /// Sets the timestamps of an update.
    pub stamp: Option<Stamp>,
    /// Validates a new object.
    pub validate: Option<Check>,
    /// Validates an update.
    pub validate_update: Option<CheckOfChange>,
    /// Validates an update of the status.
    pub validate_status: Option<CheckOfChange>,
    /// Ratcheting: errors that stored objects may keep.
    pub ratchets: &'static [Ratchet],
    /// Returns warnings about creates and updates.
    pub warnings: Option<Warnings>,
    /// Returns warnings about updates of the status.
    pub status_warnings: Option<Warnings>,
    /// Returns warnings about new objects before they are prepared.
    pub warnings_before: Option<Warnings>,
    /// Returns the grace period of a deletion in seconds, from the requested one.
    pub grace: Option<fn(&Object, Option<i64>) -> i64>,
    /// The kind's own way to mark an object for deletion, and whether something holds the object
    /// then.
    pub marking: Option<Marking>,
    /// Returns the reason why an object of this name cannot be deleted.
    pub deletion_refusal: Option<fn(&str) -> Option<&'static str>>,
    /// Returns the conditions of an object's row in a Table.
    pub row_conditions: Option<fn(&Object) -> Option<Value>>,
    /// Returns the selector of an object's pods as text, for the subresource `scale`.
    pub scale_selector: Option<fn(&Object) -> String>,
}

/// A kind's own way to mark objects for deletion.
#[derive(Clone, Copy)]
pub struct Marking {
    /// Marks an object for deletion for the first time.
    pub mark: fn(&mut Object, Timestamp),
    /// Reports whether something other than finalizers holds a marked object.
    pub is_held: fn(&Object) -> bool,
}

/// A subresource of a built-in kind.
#[derive(Clone)]
pub struct Part {
    /// The name in the path: `status`.
    pub name: &'static str,
    /// Verbs, sorted.
    pub verbs: &'static [Verb],
    /// Whether its objects can be Tables.
    pub has_tables: bool,
    /// The rules for updates through it.
    pub rules: EndpointRules,
    /// Prepares an update.
    pub prepare: Option<ChangeOfStored>,
    /// Sets the timestamps of an update.
    pub stamp: Option<Stamp>,
    /// Validates an update.
    pub validate: Option<CheckOfChange>,
}

impl Row {
    /// Returns a row with the properties of most kinds: every verb, namespaced, stored under its
    /// plural.
    pub fn of(object_type: &'static str, group: &'static str, plural: &'static str) -> Row {
        Row {
            object_type,
            group,
            plural,
            singular: None,
            short_names: &[],
            categories: &[],
            scope: ResourceScope::Namespaced,
            verbs: Verb::ALL.to_vec(),
            subresources: Vec::new(),
            key_prefix: None,
            deprecation: None,
            accepts: &[],
            is_convertible: false,
            conversion: None,
            internal_group: None,
            name_rule: NameRule::DnsSubdomain,
            generation: GenerationRule::None,
            empty_value_bumps_generation: false,
            create_on_update: false,
            unconditional_update: true,
            returns_deleted: false,
            strict_finalizers: true,
            update_checks: &[UpdateCheck::Changes, UpdateCheck::Object],
            drops: &[],
            keeps: &[],
            resets: &[],
            propagation: DefaultPropagation::Background,
            propagation_warning: None,
            lifetime: Lifetime::Unlimited,
            annotation_hidden_in_partial: None,
            selectable_fields: Vec::new(),
            unknown_labels: UnknownLabels::Plain,
            selects_namespace: true,
            columns: vec![Column::name(), Column::age()],
            effect: Effect::Full,
            defaults: None,
            stored: None,
            complete: None,
            empty: None,
            unreadable: None,
            disabled: None,
            requester: None,
            fill_in_owned: None,
            prepare: None,
            prepare_update: None,
            stamp: None,
            validate: None,
            validate_update: None,
            validate_status: None,
            ratchets: &[],
            warnings: None,
            status_warnings: None,
            warnings_before: None,
            grace: None,
            marking: None,
            deletion_refusal: None,
            row_conditions: None,
            scale_selector: None,
        }
    }

    /// Returns its version: `v1`.
    pub(super) fn version(&self) -> &'static str {
        self.object_type.split('.').nth(1).unwrap_or_default()
    }

    /// Returns its kind: `Deployment`.
    pub(super) fn kind(&self) -> &'static str {
        self.object_type.split('.').nth(2).unwrap_or_default()
    }
}

/// The name of the subresource that converts objects to Scales (API-223).
pub(super) const SCALE: &str = "scale";
