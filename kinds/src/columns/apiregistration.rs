//! The columns of `apiregistration.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::Column;

use super::{computed, condition, list, member};

/// APIServices.
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
        Column::text("Service", "The service that answers for it.", service),
        Column::text("Available", "Whether it answers.", available),
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
