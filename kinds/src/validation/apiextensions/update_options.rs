//! The options of an update: it does not enforce a rule that the stored definition violates
//! (CRD-41).

use api::error_list::ErrorList;
use api::field::Field;
use api::object::Object;
use serde_json::Value;

use super::certificates::bundle_fault;
use super::options::Options;
use super::{paths, schemas};
use crate::validation::admissionregistration::knows_review;

/// Options that enforce nothing.
const NONE: Options = Options {
    require_schema: false,
    require_known_types: false,
    require_structural: false,
    require_pruned_defaults: false,
    require_atomic_sets: false,
    require_map_keys: false,
    limit_selectable_fields: false,
    limit_expression_costs: false,
    limit_depth: false,
    require_certificates: false,
    require_known_reviews: false,
};

/// Returns the options for an update of this definition. One budget covers the check of all
/// rules. When it is spent, it is unknown whether the definition violates a rule, so the rule
/// is enforced.
pub fn options_after(stored: &Object) -> Options {
    let spec = Field::of(stored, "spec");
    let versions = spec.member("versions");
    let budget = super::budget(&spec);
    let keeps = |options: Options| {
        let mut errors = ErrorList::new();
        for version in versions.items() {
            let schema = version.member("schema");
            let root = schema.member("openAPIV3Schema");
            schemas::validate_parts(&root, options, &budget, &mut errors);
        }
        errors.is_empty() || budget.is_spent()
    };
    // Other faults, such as rules that cost too much, excuse no schema that is not structural.
    let is_structural = |version: Field<'_>| {
        let schema = version.member("schema");
        schemas::is_structural(&schema.member("openAPIV3Schema"), &budget)
    };
    let has_schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").is_some();
    let is_few = |version: &Value| {
        let fields = version.get("selectableFields").and_then(Value::as_array);
        fields.is_none_or(|fields| fields.len() <= paths::MAX_SELECTABLE)
    };
    let is_shallow = |version: &Value| {
        let root = version.pointer("/schema/openAPIV3Schema");
        !root.is_some_and(schemas::is_too_deep)
    };
    let conversion = spec.member("conversion");
    let webhook = conversion.member("webhook");
    let client = webhook.member("clientConfig");
    let bundle = client.member("caBundle");
    Options {
        require_schema: versions.list().iter().all(has_schema),
        require_known_types: keeps(Options {
            require_known_types: true,
            ..NONE
        }),
        require_structural: versions.items().all(is_structural) || budget.is_spent(),
        require_pruned_defaults: keeps(Options {
            require_pruned_defaults: true,
            ..NONE
        }),
        require_atomic_sets: keeps(Options {
            require_atomic_sets: true,
            ..NONE
        }),
        require_map_keys: keeps(Options {
            require_map_keys: true,
            ..NONE
        }),
        limit_selectable_fields: versions.list().iter().all(is_few),
        limit_expression_costs: true,
        limit_depth: versions.list().iter().all(is_shallow),
        require_certificates: super::is_established(stored)
            && bundle_fault(bundle.text()).is_none(),
        require_known_reviews: knows_review(&webhook.member("conversionReviewVersions")),
    }
}
