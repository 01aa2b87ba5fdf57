//! The columns of `node.k8s.io/v1` (API-218).

use api::resource::Column;

use super::text;

/// Returns the columns of RuntimeClasses.
pub fn runtimeclasses() -> Vec<Column> {
    vec![
        Column::name(),
        Column::text(
            "Handler",
            "CRI handler that runs pods of the class.",
            text("handler"),
        ),
        Column::age(),
    ]
}
