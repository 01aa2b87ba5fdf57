//! The resources of `events.k8s.io/v1`.

use super::row::{Conversions, Row};
use super::typed;
use crate::columns::events as columns;
use crate::convert::events as convert;
use crate::validation;
use api::resource::{
    DefaultPropagation, Lifetime, ResourceDefinition, SelectableField, UpdateCheck,
};

/// Returns the definition of Events: the objects of `v1` under the same keys, with stricter
/// validation.
pub fn events() -> ResourceDefinition {
    // Paths are those of `v1`, the version that caches hold.
    let own = |label: &str| SelectableField::text(label, &[label]);
    let regarding = |name: &str| {
        let (label, path) = (
            format!("regarding.{name}"),
            format!("involvedObject.{name}"),
        );
        SelectableField::text(&label, &[&path])
    };
    Row {
        internal_group: Some(""),
        short_names: &["ev"],
        update_checks: &[UpdateCheck::Changes],
        create_on_update: true,
        propagation: DefaultPropagation::Unsupported,
        conversion: Some(Conversions {
            to_hub: convert::events_to_core,
            from_hub: convert::core_to_events,
        }),
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
        validate: Some(validation::events::validate_events_event),
        validate_update: Some(validation::events::validate_events_event_update),
        ..typed("events.v1.Event", "events.k8s.io", "events")
    }
    .definition()
}
