//! Kinds with a rule or two.

use api::field::Field;
use api::object::Object;
use api::quantity::{Quantity, printed};

use super::{Warnings, quoted, warn, warn_of_annotation};

/// The end of names of policies and webhooks that files define.
const RESERVED: &str = ".static.k8s.io";

/// What writers of policies, their bindings and webhooks are warned of.
pub fn of_reserved_name(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    if !object.name().ends_with(RESERVED) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with \"{RESERVED}\" are reserved for static manifest-based \
         configurations and cannot be managed via the API"
    )]
}

/// What writers of ServiceAccounts are warned of: an annotation that is new.
pub fn of_serviceaccount(object: &Object, stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let key = "kubernetes.io/enforce-mountable-secrets";
    let had = stored.is_some_and(|stored| stored.at(&["metadata", "annotations", key]).is_some());
    if !had {
        let text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted \
                    secrets";
        warn_of_annotation(&Field::of(object, "metadata"), key, text, &warnings);
    }
    warnings.take()
}

/// What writers of new ResourceQuotas are warned of: requests above limits.
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

/// What writers of ResourceSlices are warned of.
pub fn of_resourceslice(object: &Object, _stored: Option<&Object>) -> Vec<String> {
    let warnings = Warnings::default();
    let spec = Field::of(object, "spec");
    let driver = spec.member("driver");
    if driver.text().to_lowercase() != driver.text() {
        let shown = quoted(driver.text());
        let text =
            format!("driver names should be lowercase; {shown} contains uppercase characters");
        warn(&driver, text, &warnings);
    }
    warnings.take()
}
