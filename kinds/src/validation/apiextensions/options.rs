//! Which rules hold for a change: one that the definition broke before is not held against it
//! (CRD-41).

use api::field::Field;
use api::object::Object;
use serde_json::Value;

use super::schemas;
use api::error_list::ErrorList;

/// The rules that became stricter over time.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Each version has a schema.
    pub require_schema: bool,
    /// Types are those that there are.
    pub require_known_types: bool,
    /// Schemas are structural.
    pub require_structural: bool,
    /// Defaults have no unknown members.
    pub require_pruned_defaults: bool,
    /// Items of sets are atomic.
    pub require_atomic_sets: bool,
    /// Keys of lists are always there.
    pub require_map_keys: bool,
    /// No more fields are selectable than may be.
    pub limit_selectable_fields: bool,
}

/// The options of a new definition.
pub const ALL: Options = Options {
    require_schema: true,
    require_known_types: true,
    require_structural: true,
    require_pruned_defaults: true,
    require_atomic_sets: true,
    require_map_keys: true,
    limit_selectable_fields: true,
};

const NONE: Options = Options {
    require_schema: false,
    require_known_types: false,
    require_structural: false,
    require_pruned_defaults: false,
    require_atomic_sets: false,
    require_map_keys: false,
    limit_selectable_fields: false,
};

impl Options {
    /// The options of a change to this definition. All rules are looked at with one budget. If it
    /// is spent, it is unknown whether the definition broke a rule, and the rule holds.
    pub fn after(stored: &Object) -> Options {
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
        let has_schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").is_some();
        let is_few = |version: &Value| {
            let fields = version.get("selectableFields").and_then(Value::as_array);
            fields.is_none_or(|fields| fields.len() <= super::paths::MAX_SELECTABLE)
        };
        Options {
            require_schema: versions.list().iter().all(has_schema),
            require_known_types: keeps(Options {
                require_known_types: true,
                ..NONE
            }),
            require_structural: keeps(Options {
                require_structural: true,
                ..NONE
            }),
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
        }
    }
}
