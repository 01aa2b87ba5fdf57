//! Validation of APIServices.

use api::field::Field;
use api::names;
use api::object::Object;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::enums::must_be_one_of;
use super::report;
use super::required::require_text;
use super::text_formats::dns1035_label;
use api::error_list::ErrorList;

/// The highest priorities of groups and versions.
const MAX_GROUP_PRIORITY: i64 = 20_000;
const MAX_VERSION_PRIORITY: i64 = 1_000;

/// Validates an APIService.
pub fn validate_apiservice(object: &Object, errors: &mut ErrorList) {
    let spec = Field::of(object, "spec");
    let (group, version) = (spec.member("group"), spec.member("version"));
    let wanted = format!("{}.{}", version.text(), group.text());
    let metadata = Field::of(object, "metadata");
    for name in ["generateName", "name"] {
        let name = metadata.member(name);
        if !name.text().is_empty() && name.text() != wanted {
            let detail = format!("must be `spec.version+\".\"+spec.group`: \"{wanted}\"");
            errors.push(name.invalid(detail));
        }
    }
    if !group.text().is_empty() {
        report(&group, names::dns_subdomain(group.text()), errors);
    } else if version.text() != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(group.required(detail));
    }
    report(&version, dns1035_label(version.text()), errors);
    let priorities = [
        ("groupPriorityMinimum", MAX_GROUP_PRIORITY),
        ("versionPriority", MAX_VERSION_PRIORITY),
    ];
    for (name, most) in priorities {
        let priority = spec.member(name);
        let number = priority.int().unwrap_or(0);
        if !(1..=most).contains(&number) {
            let detail = format!("must be positive and less than {most}");
            errors.push(priority.invalid_value(number, detail));
        }
    }
    validate_trust(&spec, errors);
}

/// Validates the service of an APIService and the way its certificate is verified.
fn validate_trust(spec: &Field<'_>, errors: &mut ErrorList) {
    let service = spec.member("service");
    let bundle = spec.member("caBundle");
    let skips = spec.member("insecureSkipTLSVerify");
    let has_bundle = !bundle.text().is_empty();
    if !service.is_set() {
        if has_bundle {
            let bytes = STANDARD.decode(bundle.text()).unwrap_or_default().len();
            let detail = "local APIServices may not have a caBundle";
            errors.push(bundle.invalid_value(format!("{bytes} bytes"), detail));
        }
        if skips.is_true() {
            errors.push(skips.invalid("local APIServices may not have insecureSkipTLSVerify"));
        }
        return;
    }
    require_text(&service.member("namespace"), errors);
    require_text(&service.member("name"), errors);
    let port = service.member("port");
    if port.int().is_some_and(|port| !(1..=65535).contains(&port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(port.invalid(detail));
    }
    if skips.is_true() && has_bundle {
        errors.push(skips.invalid("may not be true if caBundle is present"));
    }
}

/// Validates an update of an APIService.
pub fn validate_apiservice_update(object: &Object, _stored: &Object, errors: &mut ErrorList) {
    validate_apiservice(object, errors);
}

/// Validates an update of the status of an APIService.
pub fn validate_apiservice_status_update(
    object: &Object,
    _stored: &Object,
    errors: &mut ErrorList,
) {
    let status = Field::of(object, "status");
    for condition in status.member("conditions").items() {
        let supported = ["True", "False", "Unknown"];
        must_be_one_of(&condition.member("status"), &supported, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::apiregistration::apiservice;
    use crate::recorded::{Functions, check};

    #[test]
    fn answers_are_those_of_kube_apiserver() {
        let cases = include_str!("../../recorded/apiregistration.json");
        check(cases, |_| Functions {
            defaults: Some(apiservice),
            create: validate_apiservice,
            update: Some(validate_apiservice_update),
        });
        let cases = include_str!("../../recorded/apiregistration_status.json");
        check(cases, |_| Functions {
            defaults: Some(apiservice),
            create: validate_apiservice,
            update: Some(validate_apiservice_status_update),
        });
    }
}
