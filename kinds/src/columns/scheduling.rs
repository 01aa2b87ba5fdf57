//! The columns of `scheduling.k8s.io/v1` (API-218).

use api::resource::Column;

use super::{boolean, computed, integer, text};

/// PriorityClasses.
pub fn priorityclasses() -> Vec<Column> {
    let value = computed(|class, _| integer(class, &["value"]));
    let is_default = computed(|class, _| boolean(class, &["globalDefault"], false));
    let policy = text("preemptionPolicy");
    vec![
        Column::name(),
        Column::integer("Value", "The priority of its pods.", value),
        Column::boolean(
            "Global-Default",
            "Whether pods without a class have it.",
            is_default,
        ),
        Column::age(),
        Column::text(
            "PreemptionPolicy",
            "Whether its pods drive out others.",
            policy,
        ),
    ]
}
