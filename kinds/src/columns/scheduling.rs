//! The columns of `scheduling.k8s.io/v1` (API-218).

use api::resource::{Column, OfField};

use super::{boolean, computed, integer, text};

/// Returns the columns of PriorityClasses.
pub fn priorityclasses() -> Vec<Column> {
    let value = computed(|class, _| integer(class, &["value"]));
    let is_default = computed(|class, _| boolean(class, &["globalDefault"], false));
    let policy = text("preemptionPolicy");
    vec![
        Column::name(),
        Column::integer("Value", OfField("scheduling.v1.PriorityClass.value"), value),
        Column::boolean(
            "Global-Default",
            OfField("scheduling.v1.PriorityClass.globalDefault"),
            is_default,
        ),
        Column::age(),
        Column::text(
            "PreemptionPolicy",
            OfField("scheduling.v1.PriorityClass.preemptionPolicy"),
            policy,
        ),
    ]
}
