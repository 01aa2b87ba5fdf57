//! Descriptions of defaulted LimitRanges.

use api::completeness::{Expected, Relation};

use super::of;

/// Describes a defaulted LimitRange, where limits of containers default to other limits.
pub fn limitrange() -> Expected {
    let item = Expected::default()
        .pair("max", "default", Relation::Keys)
        .pair("default", "defaultRequest", Relation::Keys)
        .pair("min", "defaultRequest", Relation::Keys);
    of(Expected::default().below("limits", item))
}
