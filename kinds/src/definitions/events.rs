//! `events.k8s.io/v1`.

use super::{names, rules, typed};
use crate::columns::events as columns;
use crate::convert::events as convert;
use api::resource::{
    ConversionStrategy, DefaultPropagation, Lifetime, ResourceDefinition, SelectableField,
    UpdateCheck,
};

/// Events: the objects of `v1`, below the same keys, with stricter rules.
pub fn events() -> ResourceDefinition {
    // The paths are those of `v1`, in which events are cached.
    let own = |label: &str| SelectableField::text(label, &[label]);
    let regarding = |name: &str| {
        let (label, path) = (
            format!("regarding.{name}"),
            format!("involvedObject.{name}"),
        );
        SelectableField::text(&label, &[&path])
    };
    rules::applied(ResourceDefinition {
        short_names: names(&["ev"]),
        update_checks: &[UpdateCheck::Changes],
        create_on_update: true,
        propagation: DefaultPropagation::Unsupported,
        conversion: ConversionStrategy::Functions {
            to_hub: convert::events_to_core,
            from_hub: convert::core_to_events,
        },
        lifetime: Lifetime::OfEvents,
        selectable_fields: vec![
            regarding("kind"),
            regarding("namespace"),
            regarding("name"),
            regarding("uid").indexed(),
            regarding("apiVersion"),
            regarding("resourceVersion"),
            regarding("fieldPath"),
            own("reason"),
            SelectableField::text("reportingController", &["reportingComponent"]),
            own("type"),
        ],
        columns: columns::events(),
        ..typed("events.v1.Event", "events.k8s.io", "events")
    })
}
