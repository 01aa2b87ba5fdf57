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
    /// The certificates of a conversion webhook must be readable (CRD-30).
    pub require_certificates: bool,
    /// A conversion webhook must take a review of a version that servers know (CRD-29).
    pub require_known_reviews: bool,
}

/// The options that enforce everything.
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
    require_certificates: true,
    require_known_reviews: true,
};

/// The options of a new definition. One whose certificates can't be read is not established
/// (CRD-66).
pub const NEW: Options = Options {
    require_certificates: false,
    ..ALL
};
