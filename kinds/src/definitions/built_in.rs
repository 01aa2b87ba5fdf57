//! The traits of a built-in kind, taken from its row.

use std::sync::{Arc, OnceLock};

use api::completeness::Completeness;
use api::error_list::{ErrorList, Ratchet};
use api::object::Object;
use api::resource::{
    Behaviour, ConversionStrategy, Declared, DeletionRule, EndpointRules, FieldPath, FormerVersion,
    ResourceDefinition, Rules, Scaling, Subresource, UnservedVersion,
};
use api::user_info::UserInfo;
use jiff::Timestamp;
use serde_json::Value;

use super::row::{ChangeOfStored, CheckOfChange, Conversions, Part, Row, SCALE, Warnings};
use super::{autoscaling, unserved};
use crate::convert::former::{self, Former};
use crate::defaults::complete::pods::APART;
use crate::types::object_type;

impl Row {
    /// Returns the definition of the resource, including versions that are not served.
    pub fn definition(self) -> ResourceDefinition {
        let names = ResourceDefinition::named(self.group, self.version(), self.kind(), self.plural);
        ResourceDefinition {
            singular: self.singular.map_or(names.singular, str::to_owned),
            short_names: owned(self.short_names),
            categories: owned(self.categories),
            scope: self.scope,
            verbs: self.verbs.clone(),
            subresources: self.subresources.iter().map(Part::subresource).collect(),
            key_prefix: self.key_prefix.map_or(names.key_prefix, str::to_owned),
            deprecation: self.deprecation.clone(),
            behaviour: Arc::new(BuiltIn::of(self)),
            ..names
        }
    }

    fn rules(&self, unserved: Vec<UnservedVersion>) -> Rules {
        let conversion = match self.conversion {
            Some(_) => ConversionStrategy::OwnForm,
            None if self.is_convertible || !unserved.is_empty() => ConversionStrategy::TypeOnly,
            None => ConversionStrategy::Unsupported,
        };
        let deletion = match (self.marking, self.grace) {
            (Some(_), _) => DeletionRule::OwnMark,
            (None, Some(_)) => DeletionRule::Graceful,
            (None, None) => DeletionRule::Plain,
        };
        let parts = self.subresources.iter();
        Rules {
            conversion,
            unserved,
            accepts: owned(self.accepts),
            internal_group: self.internal_group.map(str::to_owned),
            name_rule: self.name_rule,
            generation: self.generation.clone(),
            empty_value_bumps_generation: self.empty_value_bumps_generation,
            create_on_update: self.create_on_update,
            unconditional_update: self.unconditional_update,
            returns_deleted: self.returns_deleted,
            strict_finalizers: self.strict_finalizers,
            drops: FieldPath::list(self.drops),
            update: EndpointRules {
                keeps: FieldPath::list(self.keeps),
                resets: FieldPath::list(self.resets),
                checks: self.update_checks.to_vec(),
                raises_generation: true,
                records: None,
            },
            subresources: parts
                .map(|part| (part.name.to_owned(), part.rules.clone()))
                .collect(),
            deletion,
            propagation: self.propagation,
            propagation_warning: self.propagation_warning.map(str::to_owned),
            lifetime: self.lifetime,
            annotation_hidden_in_partial: self.annotation_hidden_in_partial.map(str::to_owned),
            unknown_labels: self.unknown_labels,
            selects_namespace: self.selects_namespace,
            effect: self.effect.clone(),
            ..Rules::default()
        }
    }
}

const STATUS: &str = "status";

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Part {
    fn subresource(&self) -> Subresource {
        Subresource {
            name: self.name.to_owned(),
            verbs: self.verbs.to_vec(),
            kind: (self.name == SCALE).then(|| Arc::new(autoscaling::scales())),
            has_tables: self.has_tables,
        }
    }
}

/// A built-in kind: its row and what follows from it.
struct BuiltIn {
    declared: Declared,
    row: Row,
    former: Former,
    unserved: Option<Conversions>,
    scaling: Option<Scaling>,
    completeness: OnceLock<Option<Completeness>>,
}

impl BuiltIn {
    fn of(row: Row) -> BuiltIn {
        let unserved = unserved::versions_of(row.group, row.plural);
        let scaling = row.scale_selector.map(|_| Scaling {
            kind: Arc::new(autoscaling::scales()),
            replicas: "spec.replicas".into(),
            current_replicas: "status.replicas".into(),
        });
        let object_type = object_type(row.object_type);
        BuiltIn {
            declared: Declared {
                rules: row.rules(unserved.versions),
                columns: row.columns.clone(),
                selectable_fields: row.selectable_fields.clone(),
                object_type: object_type.clone(),
            },
            former: former::versions_of(row.group, row.version(), row.plural, &object_type),
            unserved: unserved.conversions,
            scaling,
            completeness: OnceLock::new(),
            row,
        }
    }

    fn part(&self, subresource: &str) -> Option<&Part> {
        let mut parts = self.row.subresources.iter();
        parts.find(|part| part.name == subresource)
    }

    fn conversions(&self, version: &str) -> Option<Conversions> {
        match version == self.row.version() {
            true => self.row.conversion,
            false => self.unserved,
        }
    }

    fn prepare_at(&self, subresource: &str) -> Option<ChangeOfStored> {
        match self.part(subresource) {
            Some(part) => part.prepare,
            None => self.row.prepare_update,
        }
    }

    fn validate_at(&self, subresource: &str) -> Option<CheckOfChange> {
        match self.part(subresource) {
            Some(part) if part.name == STATUS => part.validate.or(self.row.validate_status),
            Some(part) => part.validate,
            None => self.row.validate_update,
        }
    }
}

impl Behaviour for BuiltIn {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn former_versions(&self) -> &[FormerVersion] {
        self.former.versions()
    }

    fn scaling(&self) -> Option<&Scaling> {
        self.scaling.as_ref()
    }

    fn scale_selector(&self, object: &Object) -> String {
        let selector = self.row.scale_selector;
        selector.map_or_else(String::new, |selector| selector(object))
    }

    fn why_unreadable(&self, object: &Object) -> Option<String> {
        self.row.unreadable.and_then(|why| why(object))
    }

    fn has_defaults(&self) -> bool {
        self.row.defaults.is_some()
    }

    fn set_defaults(&self, object: &mut Object) {
        if let Some(defaults) = self.row.defaults {
            defaults(object);
        }
    }

    fn set_stored_defaults(&self, object: &mut Object, now: Timestamp) {
        match self.row.stored {
            Some(complete) => complete(object, now),
            None => self.set_defaults(object),
        }
    }

    fn completeness(&self) -> Option<&Completeness> {
        let made = self.completeness.get_or_init(|| {
            let part = self.row.complete?();
            let (schema, id) = self.object_type().found()?;
            let made = Completeness::of(schema, id, &part, APART);
            // Without the check, objects are defaulted that need no defaults.
            made.inspect_err(|error| {
                tracing::warn!(
                    error,
                    kind = self.row.kind(),
                    "no check of stored objects, setting the defaults of all"
                )
            })
            .ok()
        });
        made.as_ref()
    }

    fn complete_empty(&self, object: &mut Object) {
        if let Some(complete) = self.row.empty {
            complete(object);
        }
    }

    fn convert_to_hub(&self, version: &str, object: &mut Object) {
        if let Some(conversions) = self.conversions(version) {
            (conversions.to_hub)(object);
        }
    }

    fn convert_from_hub(&self, version: &str, object: &mut Object) {
        if let Some(conversions) = self.conversions(version) {
            (conversions.from_hub)(object);
        }
    }

    fn convert_former(&self, former: &FormerVersion, object: &mut Object) {
        self.former.convert(&former.api_version, object);
    }

    fn set_requester(&self, object: &mut Object, user: &UserInfo) -> bool {
        let Some(record) = self.row.requester else {
            return false;
        };
        record(object, user);
        true
    }

    fn completes_owned(&self) -> bool {
        self.row.fill_in_owned.is_some()
    }

    fn complete_owned(&self, object: &mut Object) {
        if let Some(complete) = self.row.fill_in_owned {
            complete(object);
        }
    }

    fn warnings_before_create(&self, object: &Object) -> Vec<String> {
        warnings(self.row.warnings_before, object, None)
    }

    fn drop_disabled(&self, object: &mut Object, stored: Option<&Object>) -> bool {
        self.row.disabled.is_some_and(|drop| drop(object, stored))
    }

    fn prepare_for_create(&self, object: &mut Object) -> bool {
        let Some(prepare) = self.row.prepare else {
            return false;
        };
        prepare(object);
        true
    }

    fn prepares_for_update(&self, subresource: &str) -> bool {
        self.prepare_at(subresource).is_some()
    }

    fn prepare_for_update(&self, subresource: &str, object: &mut Object, stored: &Object) {
        if let Some(prepare) = self.prepare_at(subresource) {
            prepare(object, stored);
        }
    }

    fn stamp_update(
        &self,
        subresource: &str,
        object: &mut Object,
        stored: &Object,
        now: Timestamp,
    ) -> bool {
        let stamp = match self.part(subresource) {
            Some(part) => part.stamp,
            None => self.row.stamp,
        };
        let Some(stamp) = stamp else {
            return false;
        };
        stamp(object, stored, now);
        true
    }

    fn validate(&self, object: &Object, errors: &mut ErrorList) {
        if let Some(validate) = self.row.validate {
            validate(object, errors);
        }
    }

    fn validate_update(
        &self,
        subresource: &str,
        object: &Object,
        stored: &Object,
        errors: &mut ErrorList,
    ) {
        if let Some(validate) = self.validate_at(subresource) {
            validate(object, stored, errors);
        }
    }

    fn ratchets(&self) -> &[Ratchet] {
        self.row.ratchets
    }

    fn warnings_on_create(&self, object: &Object) -> Vec<String> {
        warnings(self.row.warnings, object, None)
    }

    fn warnings_on_update(
        &self,
        subresource: &str,
        object: &Object,
        stored: &Object,
    ) -> Vec<String> {
        let of = match subresource {
            "" => self.row.warnings,
            STATUS => self.row.status_warnings,
            _ => None,
        };
        warnings(of, object, Some(stored))
    }

    fn deletion_refusal(&self, name: &str) -> Option<String> {
        let refusal = self.row.deletion_refusal;
        refusal.and_then(|why| why(name)).map(str::to_owned)
    }

    fn grace(&self, object: &Object, asked: Option<i64>) -> Option<i64> {
        self.row.grace.map(|grace| grace(object, asked))
    }

    fn is_held(&self, object: &Object) -> bool {
        let marking = self.row.marking;
        marking.is_some_and(|marking| (marking.is_held)(object))
    }

    fn mark(&self, object: &mut Object, now: Timestamp) {
        if let Some(marking) = self.row.marking {
            (marking.mark)(object, now);
        }
    }

    fn row_conditions(&self, object: &Object) -> Option<Value> {
        self.row
            .row_conditions
            .and_then(|conditions| conditions(object))
    }
}

fn warnings(of: Option<Warnings>, object: &Object, stored: Option<&Object>) -> Vec<String> {
    of.map_or_else(Vec::new, |warnings| warnings(object, stored))
}
