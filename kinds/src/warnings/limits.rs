//! Warnings about ResourceQuotas.

use api::field::Field;
use api::object::Object;
use api::quantity::{Quantity, printed};

use super::Warnings;

/// Returns the warnings about a new ResourceQuota: requests above limits.
pub fn of_resourcequota(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    if stored.is_some() {
        return warnings.take();
    }
    let spec = Field::of(object, "spec");
    let hard = spec.member("hard");
    for (resource, has_short_form) in [
        ("cpu", true),
        ("memory", true),
        ("storage", false),
        ("ephemeral-storage", false),
    ] {
        let (long, limit) = (format!("requests.{resource}"), format!("limits.{resource}"));
        let request = match hard.key(&long).is_set() || !has_short_form {
            true => long.as_str(),
            false => resource,
        };
        let read = |name: &str| {
            let text = hard.key(name).text();
            Some((text.parse::<Quantity>().ok()?, printed(text).ok()?))
        };
        let (Some((asked, asked_text)), Some((limited, limit_text))) =
            (read(request), read(&limit))
        else {
            continue;
        };
        if asked > limited {
            warnings.add(format!(
                "ResourceQuota {request} ({asked_text}) should be less than {limit} ({limit_text})"
            ));
        }
    }
    warnings.take()
}
