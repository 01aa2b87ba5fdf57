//! Validation of references to fields of the pod and to resources of its containers.

use api::field::Field;
use api::names::qualified_name;
use api::quantity::Quantity;

use crate::resource_names::{in_quota, is_huge_pages};
use crate::validation::required::require_text;
use api::error_list::ErrorList;

/// All fields that references can name in `v1`.
const FIELDS: [&str; 15] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    // A former name of `spec.nodeName`.
    "spec.host",
];

/// The resources that references can name, in addition to huge pages.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const CPU_DIVISORS: [&str; 2] = ["1m", "1"];

const BYTE_DIVISORS: [&str; 13] = [
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Validates a reference to a field, which must be one of these.
pub fn validate_object_field_selector(
    selector: &Field<'_>,
    supported: &[&str],
    errors: &mut ErrorList,
) {
    let version = selector.member("apiVersion");
    let path = selector.member("fieldPath");
    if !require_text(&version, errors) || !require_text(&path, errors) {
        return;
    }
    let text = path.text();
    let subscripted = split_subscript(text);
    let problem = match subscripted {
        _ if version.text() != "v1" => {
            format!("unsupported pod version: {}", version.text())
        }
        Some(("metadata.annotations" | "metadata.labels", _)) => String::new(),
        Some(_) => format!("field label does not support subscript: {text}"),
        None if FIELDS.contains(&text) => String::new(),
        None => format!("field label not supported: {text}"),
    };
    if !problem.is_empty() {
        errors.push(path.invalid(format!("error converting fieldPath: {problem}")));
        return;
    }
    match subscripted {
        Some((of, subscript)) => {
            let subscript = match of {
                "metadata.annotations" => subscript.to_lowercase(),
                _ => subscript.to_owned(),
            };
            for wrong in qualified_name(&subscript) {
                errors.push(selector.invalid_value(subscript.as_str(), wrong));
            }
        }
        None if text == "spec.host" && supported.contains(&"spec.nodeName") => {}
        None if !supported.contains(&text) => errors.push(path.not_supported(supported)),
        None => {}
    }
}

/// Splits a path with a subscript: `metadata.labels['a']`.
fn split_subscript(path: &str) -> Option<(&str, &str)> {
    let (of, subscript) = path.strip_suffix("']")?.split_once("['")?;
    (!of.is_empty()).then_some((of, subscript))
}

/// Validates a reference to a resource. In volumes it must name a container.
pub fn validate_resource_field_selector(
    selector: &Field<'_>,
    is_in_volume: bool,
    errors: &mut ErrorList,
) {
    let container = selector.member("containerName");
    let resource = selector.member("resource");
    let name = resource.text();
    let of_containers = in_quota(name);
    let is_huge_pages = of_containers != name && is_huge_pages(of_containers);
    if is_in_volume && container.text().is_empty() {
        errors.push(container.required(""));
    } else if require_text(&resource, errors) && !is_huge_pages && !RESOURCES.contains(&name) {
        errors.push(resource.not_supported(&RESOURCES));
    }
    let divisor = selector.member("divisor");
    let Ok(quantity) = divisor.text().parse::<Quantity>() else {
        return;
    };
    let (divisors, kind): (&[&str], _) = match name {
        _ if quantity.sign() == 0 => return,
        "limits.cpu" | "requests.cpu" => (&CPU_DIVISORS, "cpu"),
        "limits.memory" | "requests.memory" => (&BYTE_DIVISORS, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (&BYTE_DIVISORS, "local ephemeral storage")
        }
        _ if is_huge_pages => (&BYTE_DIVISORS, "hugepages"),
        _ => return,
    };
    if !divisors.contains(&quantity.to_string().as_str()) {
        let joined = match divisors.len() {
            2 => divisors.join(" and "),
            _ => divisors.join(", "),
        };
        let detail =
            format!("only divisor's values {joined} are supported with the {kind} resource");
        errors.push(divisor.invalid_value(name, detail));
    }
}
