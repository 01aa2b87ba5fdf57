//! The rules that may be off for an update (CRD-41).

/// The rules that became stricter over time.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Each version must have a schema.
    pub require_schema: bool,
    /// Types must be known.
    pub require_known_types: bool,
    /// Schemas must be structural.
    pub require_structural: bool,
    /// Defaults must not have unknown members.
    pub require_pruned_defaults: bool,
    /// Items of sets must be atomic.
    pub require_atomic_sets: bool,
    /// Keys of list maps must be required or have a default.
    pub require_map_keys: bool,
    /// The number of selectable fields is limited.
    pub limit_selectable_fields: bool,
    /// The cost of each expression is limited (CRD-52).
    pub limit_expression_costs: bool,
    /// The depth of schemas is limited (D-96).
    pub limit_depth: bool,
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
    limit_expression_costs: true,
    limit_depth: true,
};
