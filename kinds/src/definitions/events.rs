//! `events.k8s.io/v1`.

use super::{names, typed};
use crate::columns::events as columns;
use api::resource::{
    DefaultPropagation, Lifetime, ResourceDefinition, SelectableField, UpdateChecks,
};

/// Events: the objects of `v1`, below the same keys, with stricter rules.
pub fn events() -> ResourceDefinition {
    let own = |label: &str| SelectableField::text(label, &[label]);
    ResourceDefinition {
        short_names: names(&["ev"]),
        update_checks: UpdateChecks::Changes,
        create_on_update: true,
        propagation: DefaultPropagation::Unsupported,
        lifetime: Lifetime::OfEvents,
        selectable_fields: vec![
            own("regarding.kind"),
            own("regarding.namespace"),
            own("regarding.name"),
            own("regarding.uid").indexed(),
            own("regarding.apiVersion"),
            own("regarding.resourceVersion"),
            own("regarding.fieldPath"),
            own("reason"),
            own("reportingController"),
            own("type"),
        ],
        columns: columns::events(),
        ..typed("events.v1.Event", "events.k8s.io", "events")
    }
}
