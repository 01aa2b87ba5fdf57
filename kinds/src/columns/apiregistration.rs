//! The columns of `apiregistration.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::Column;

use super::{computed, condition, list, member};

/// Returns the columns of APIServices.
pub fn apiservices() -> Vec<Column> {
    let service = computed(|object, _| match object.at(&["spec", "service"]) {
        Some(service) => format!(
            "{}/{}",
            member(service, "namespace"),
            member(service, "name")
        )
        .into(),
        None => "Local".into(),
    });
    let available = computed(|object, _| available(object).into());
    vec![
        Column::name(),
        Column::text("Service", "Service that serves the version.", service),
        Column::text("Available", "Whether the service is available.", available),
        Column::age(),
    ]
}

fn available(object: &Object) -> String {
    match condition(list(object, &["status", "conditions"]), "Available") {
        None => "Unknown".to_owned(),
        Some(condition) => match member(condition, "status") {
            "True" => "True".to_owned(),
            status => format!("{status} ({})", member(condition, "reason")),
        },
    }
}
