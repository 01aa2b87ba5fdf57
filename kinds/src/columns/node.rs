//! The columns of `node.k8s.io/v1` (API-218).

use api::resource::Column;

use super::text;

/// RuntimeClasses.
pub fn runtimeclasses() -> Vec<Column> {
    vec![
        Column::name(),
        Column::text(
            "Handler",
            "The configuration that runs its pods.",
            text("handler"),
        ),
        Column::age(),
    ]
}
