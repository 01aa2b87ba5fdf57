//! The rules for `metadata` on create and update (http.md 5).
//!
//! Contains the validation of names, labels, annotations, finalizers and owner references. Input is
//! a decoded object with its definition, and on update the stored object; the result is a list of
//! field errors. Nothing here knows requests or storage.

mod owners;

use std::cell::OnceCell;
use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::field_error::bounded;
use crate::managed_fields;
use crate::names;
use crate::object::{MAX_ANNOTATION_BYTES, Object};
use crate::resource::{NameRule, ResourceDefinition, UpdateCheck};
use crate::text::quoting::go_quote;

pub use crate::field_error::{FieldError, FieldErrorKind};
pub use owners::{OwnersStage, deduplicate_owners};

/// Finalizers that need no domain prefix (API-205).
const STANDARD_FINALIZERS: [&str; 3] = [ORPHAN, FOREGROUND, "kubernetes"];

/// The finalizer of a deletion that keeps dependents (API-114).
pub const ORPHAN: &str = "orphan";

/// The finalizer of a deletion that waits for dependents (API-114).
pub const FOREGROUND: &str = "foregroundDeletion";

/// Validates the metadata of a new object, in the order of Kubernetes' checks (API-94, API-199 to
/// API-208).
pub fn validate_create(object: &Object, definition: &ResourceDefinition) -> Vec<FieldError> {
    let meta = Meta::of(object);
    let errors = meta.kind_errors(definition);
    match definition.rules().name_rule {
        NameRule::PathSegment => bounded(errors.into_iter().chain(meta.control_characters())),
        _ => bounded(errors),
    }
}

/// Validates metadata that replaces that of `old` (API-103, http.md 5.1), through an endpoint with
/// these checks. Fields that an update can't change must already be copied from `old`. An error
/// that several checks find is listed once for each, because each is a separate cause.
pub fn validate_update(
    new: &Object,
    old: &Object,
    definition: &ResourceDefinition,
    checks: &[UpdateCheck],
) -> Vec<FieldError> {
    let (meta, old) = (Meta::of(new), Meta::of(old));
    let changes = meta.change_errors(&old);
    let mut errors = meta.object_errors(definition, NameRule::PathSegment);
    errors.extend_from_slice(&changes);
    for check in checks {
        match check {
            UpdateCheck::Object => errors.extend(meta.kind_errors(definition)),
            UpdateCheck::Changes => {
                errors.extend_from_slice(&changes);
                errors.extend(meta.strict_finalizer_errors(definition));
            }
        }
    }
    bounded(errors)
}

/// Validates the metadata of an object inside another one, whose kind is unknown (CRD-130). It
/// needs no name.
pub fn validate_embedded(object: &Object) -> Vec<FieldError> {
    let meta = Meta::of(object);
    let mut errors = meta.name_errors(NameRule::PathSegment);
    if object.name().is_empty() {
        errors.retain(|error| error.path != "metadata.name");
    }
    let namespace = object.namespace();
    if !namespace.is_empty() {
        let path = "metadata.namespace";
        errors.extend(each(names::dns_label(namespace), path, namespace));
    }
    errors.extend_from_slice(meta.description_errors());
    errors.extend(meta.finalizer_errors());
    bounded(errors)
}

/// The metadata of an object, with types checked by decoding. Parts that several checks use are
/// looked up once.
struct Meta<'o> {
    object: &'o Object,
    members: Option<&'o Map<String, Value>>,
    described: OnceCell<Vec<FieldError>>,
    finalizers: OnceCell<Vec<FieldError>>,
    managed_fields: OnceCell<Vec<FieldError>>,
}

impl<'o> Meta<'o> {
    fn of(object: &'o Object) -> Meta<'o> {
        Meta {
            object,
            members: object.metadata(),
            described: OnceCell::new(),
            finalizers: OnceCell::new(),
            managed_fields: OnceCell::new(),
        }
    }

    fn get(&self, name: &str) -> Option<&'o Value> {
        self.members?.get(name)
    }

    fn map(&self, name: &str) -> impl Iterator<Item = (&'o String, &'o str)> {
        let members = self.get(name).and_then(Value::as_object);
        members
            .into_iter()
            .flat_map(Map::iter)
            .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
    }

    fn generation(&self) -> i64 {
        self.get("generation")
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// Runs the checks of a kind's own validation: all common rules, its name rule, and stricter
    /// rules for finalizers.
    fn kind_errors(&self, definition: &ResourceDefinition) -> Vec<FieldError> {
        let mut errors = self.object_errors(definition, definition.rules().name_rule);
        errors.extend(self.strict_finalizer_errors(definition));
        errors
    }

    /// Refuses finalizers that are neither standard nor qualified, for kinds with strict finalizers
    /// (API-205).
    fn strict_finalizer_errors(&self, definition: &ResourceDefinition) -> Vec<FieldError> {
        if !definition.rules().strict_finalizers {
            return Vec::new();
        }
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        let finalizers = self.object.finalizers().into_iter().enumerate();
        let plain = finalizers.filter(|(_, finalizer)| {
            !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer)
        });
        bounded(plain.map(|(index, finalizer)| {
            let path = format!("metadata.finalizers[{index}]");
            FieldError::invalid(path, finalizer, detail)
        }))
    }

    /// Runs the checks that apply to every object.
    fn object_errors(&self, definition: &ResourceDefinition, rule: NameRule) -> Vec<FieldError> {
        let mut errors = self.name_errors(rule);
        errors.extend(self.namespace_errors(definition));
        if self.generation() < 0 {
            errors.push(FieldError::invalid(
                "metadata.generation",
                self.generation(),
                "must be greater than or equal to 0",
            ));
        }
        errors.extend_from_slice(self.description_errors());
        let finalizers = self.finalizers.get_or_init(|| self.finalizer_errors());
        errors.extend_from_slice(finalizers);
        errors.extend_from_slice(self.managed_fields_errors());
        errors
    }

    /// Validates labels, annotations and owner references.
    fn description_errors(&self) -> &[FieldError] {
        self.described.get_or_init(|| {
            let mut errors = self.label_errors();
            errors.extend(self.annotation_errors());
            errors.extend(owners::errors(self.get("ownerReferences")));
            errors
        })
    }

    fn managed_fields_errors(&self) -> &[FieldError] {
        let found = || managed_fields::errors(self.object);
        self.managed_fields.get_or_init(found)
    }

    fn name_errors(&self, rule: NameRule) -> Vec<FieldError> {
        let (name, base) = (self.object.name(), self.object.meta("generateName"));
        let mut errors = Vec::new();
        if !base.is_empty() {
            let masked = names::mask_trailing_dash(base);
            let wrong = match rule {
                NameRule::DnsSubdomain => names::dns_subdomain(&masked),
                NameRule::DnsSubdomainWhole | NameRule::OfKind => Vec::new(),
                NameRule::DnsLabel => names::dns_label(&masked),
                NameRule::PathSegment => names::path_segment_prefix(base),
            };
            errors.extend(each(wrong, "metadata.generateName", base));
        }
        if name.is_empty() {
            let detail = "name or generateName is required";
            errors.push(FieldError::required("metadata.name", detail));
        } else {
            let wrong = match rule {
                NameRule::DnsSubdomain | NameRule::DnsSubdomainWhole => names::dns_subdomain(name),
                NameRule::OfKind => Vec::new(),
                NameRule::DnsLabel => names::dns_label(name),
                NameRule::PathSegment => names::path_segment(name),
            };
            errors.extend(each(wrong, "metadata.name", name));
        }
        errors
    }

    /// Refuses control characters in names whose rule allows them. Kubernetes allows them too, but
    /// they break terminals and logs. Only new objects are checked, so that older objects can still
    /// be changed.
    fn control_characters(&self) -> impl Iterator<Item = FieldError> {
        let detail = "may not contain control characters";
        let names = [
            ("metadata.generateName", self.object.meta("generateName")),
            ("metadata.name", self.object.name()),
        ];
        names
            .into_iter()
            .filter(|(_, name)| name.contains(char::is_control))
            .map(move |(path, name)| FieldError::invalid(path, name, detail))
    }

    fn namespace_errors(&self, definition: &ResourceDefinition) -> Vec<FieldError> {
        let path = "metadata.namespace";
        match (definition.is_namespaced(), self.object.namespace()) {
            (true, "") => vec![FieldError::required(path, "")],
            (true, namespace) => each(names::dns_label(namespace), path, namespace).collect(),
            (false, "") => Vec::new(),
            (false, _) => vec![FieldError::forbidden(path, "not allowed on this type")],
        }
    }

    fn label_errors(&self) -> Vec<FieldError> {
        let path = "metadata.labels";
        bounded(self.map("labels").flat_map(|(key, value)| {
            let wrong_key = each(names::qualified_name(key), path, key);
            wrong_key.chain(each(names::label_value(value), path, value))
        }))
    }

    fn annotation_errors(&self) -> Vec<FieldError> {
        let path = "metadata.annotations";
        let mut errors = bounded(
            self.map("annotations")
                .flat_map(|(key, _)| each(names::qualified_name(&key.to_lowercase()), path, key)),
        );
        let bytes = self
            .map("annotations")
            .map(|(key, value)| key.len() + value.len());
        let total: usize = bytes.sum();
        if total > MAX_ANNOTATION_BYTES {
            errors.push(FieldError::too_long(path, MAX_ANNOTATION_BYTES));
        }
        errors
    }

    fn finalizer_errors(&self) -> Vec<FieldError> {
        let path = "metadata.finalizers";
        let finalizers = self.object.finalizers();
        let mut errors = bounded(
            finalizers
                .iter()
                .flat_map(|finalizer| each(names::qualified_name(finalizer), path, finalizer)),
        );
        if finalizers.contains(&ORPHAN) && finalizers.contains(&FOREGROUND) {
            let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
            errors.push(FieldError::invalid(path, finalizers, detail));
        }
        errors
    }

    /// Runs the checks of a change (http.md 5.1).
    fn change_errors(&self, old: &Meta<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if old.object.is_being_deleted() {
            errors.extend(self.added_finalizers(old));
        }
        if self.generation() < old.generation() {
            let detail = "must not be decremented";
            errors.push(FieldError::invalid(
                "metadata.generation",
                self.generation(),
                detail,
            ));
        }
        for name in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            if self.get(name) != old.get(name) {
                let value = self.get(name).cloned().unwrap_or_default();
                let path = format!("metadata.{name}");
                errors.push(FieldError::invalid(path, value, "field is immutable"));
            }
        }
        errors.extend_from_slice(self.description_errors());
        errors.extend_from_slice(self.managed_fields_errors());
        errors
    }

    /// Refuses finalizers that are added to an object under deletion (API-205).
    fn added_finalizers(&self, old: &Meta<'_>) -> Option<FieldError> {
        let known = old.object.finalizers();
        let mut added = self.object.finalizers();
        let known: HashSet<&str> = known.into_iter().collect();
        added.retain(|finalizer| !known.contains(finalizer));
        added.sort_unstable();
        added.dedup();
        if added.is_empty() {
            return None;
        }
        let quoted: Vec<String> = added.into_iter().map(go_quote).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            quoted.join(", ")
        );
        Some(FieldError::forbidden("metadata.finalizers", detail))
    }
}

/// Returns one error for each message about a value.
fn each<'v>(
    wrong: Vec<String>,
    path: &'v str,
    value: &'v str,
) -> impl Iterator<Item = FieldError> + 'v {
    wrong
        .into_iter()
        .map(move |detail| FieldError::invalid(path, value, detail))
}

#[cfg(test)]
mod tests;
