//! Validation of the resources of containers and of pods.

use std::collections::BTreeSet;

use api::field::Field;
use api::field_error::FieldErrorKind;
use api::names;
use api::quantity::{Quantity, seems_whole};
use serde_json::{Value, json};

use crate::defaults::pods::resources::{Amounts, amounts, of_containers, read};
use crate::resource_names::{
    HUGE_PAGES, can_be_overcommitted, is_counted, is_cpu_or_memory, is_extended, is_huge_pages,
    is_native, is_of_containers, is_of_pod_level, is_standard,
};
use crate::validation::report;
use api::error_list::ErrorList;

/// Validates the resources of a container.
pub(super) fn validate_container_resources(
    resources: &Field<'_>,
    claims: &BTreeSet<&str>,
    errors: &mut ErrorList,
) {
    validate_requirements(resources, validate_container_resource_name, claims, errors);
}

/// Validates pod-level resources.
pub fn validate_pod_resources(spec: &Field<'_>, errors: &mut ErrorList) {
    let resources = spec.member("resources");
    if !resources.is_set() {
        return;
    }
    let os = spec.member("os");
    if os.member("name").text() == "windows" {
        errors.push(resources.forbidden("may not be set for a windows pod"));
        return;
    }
    let claims = resources.member("claims");
    if claims.is_set() {
        errors.push(claims.forbidden("claims may not be set for Resources at pod-level"));
    }
    let names = claims_of(spec);
    validate_requirements(&resources, validate_pod_resource_name, &names, errors);
    validate_sums(spec, &resources, errors);
}

/// Validates the overhead of a pod. Errors have the paths of limits below `overhead`.
pub fn validate_overhead(overhead: &Field<'_>, amounts: &Field<'_>, errors: &mut ErrorList) {
    if amounts.is_empty() {
        return;
    }
    let limits = json!({"limits": amounts.value()});
    let resources = overhead.with_value(&limits);
    let validate_name = validate_container_resource_name;
    validate_requirements(&resources, validate_name, &BTreeSet::new(), errors);
}

/// Returns the names of a pod's resource claims.
pub(super) fn claims_of<'p>(spec: &Field<'p>) -> BTreeSet<&'p str> {
    let claims = spec.value().and_then(|spec| spec.get("resourceClaims"));
    let claims = claims.and_then(Value::as_array).into_iter().flatten();
    claims
        .filter_map(|claim| claim.get("name")?.as_str())
        .collect()
}

/// Validates that pod-level resources suffice for the containers.
fn validate_sums(spec: &Field<'_>, resources: &Field<'_>, errors: &mut ErrorList) {
    let Some(members) = spec.value().and_then(Value::as_object) else {
        return;
    };
    validate_sum(
        resources,
        "requests",
        &of_containers(members, "requests"),
        errors,
    );
    let mut limits = of_containers(members, "limits");
    limits.retain(|name, _| is_huge_pages(name));
    validate_sum(resources, "limits", &limits, errors);
    let of_pod = resources.member("limits");
    // Kubernetes has this path for these errors.
    let containers = resources.member("containers");
    for (index, container) in spec.member("containers").list().iter().enumerate() {
        let place = containers.index(index);
        let Some(container) = container.as_object() else {
            continue;
        };
        for (name, limit) in amounts(container, "limits") {
            let Some(most) = of_pod.key(&name).value().and_then(read) else {
                continue;
            };
            if limit > most {
                let detail = format!("must be less than or equal to pod limits of {most}");
                let place = place.key(&name);
                let place = place.member("limits");
                errors.push(place.invalid_value(limit.to_string(), detail));
            }
        }
    }
}

fn validate_sum(resources: &Field<'_>, list: &str, sums: &Amounts, errors: &mut ErrorList) {
    let of_pod = resources.member(list);
    for (name, sum) in sums {
        let place = of_pod.key(name);
        let Some(given) = place.value().and_then(read) else {
            continue;
        };
        if *sum > given {
            let detail =
                format!("must be greater than or equal to aggregate container {list} of {sum}");
            errors.push(place.invalid_value(given.to_string(), detail));
        }
    }
}

/// Validates limits, requests and claims.
fn validate_requirements(
    resources: &Field<'_>,
    validate_name: fn(&str, &Field<'_>, &mut ErrorList),
    claims: &BTreeSet<&str>,
    errors: &mut ErrorList,
) {
    let (limits, requests) = (resources.member("limits"), resources.member("requests"));
    for (name, place) in limits.entries() {
        validate_name(name, &place, errors);
        validate_quantity(name, &place, errors);
        validate_huge_pages(name, &place, errors);
    }
    for (name, place) in requests.entries() {
        validate_name(name, &place, errors);
        validate_quantity(name, &place, errors);
        validate_limit(name, &place, &limits, &requests, errors);
        validate_huge_pages(name, &place, errors);
    }
    let has = |is_wanted: fn(&str) -> bool| {
        let mut all = limits.entries().chain(requests.entries());
        // linear: two sorts of names are looked for.
        all.any(|(name, _)| is_wanted(name))
    };
    if has(is_huge_pages) && !has(is_cpu_or_memory) {
        errors.push(resources.forbidden("HugePages require cpu or memory"));
    }
    validate_claims(&resources.member("claims"), claims, errors);
}

/// Validates that a request does not exceed its limit, and that it equals the limit of a resource
/// that cannot be overcommitted.
fn validate_limit(
    name: &str,
    request: &Field<'_>,
    limits: &Field<'_>,
    requests: &Field<'_>,
    errors: &mut ErrorList,
) {
    let may_differ = can_be_overcommitted(name);
    let limit = limits.key(name);
    let (Some(asked), Some(limit)) = (request.value().and_then(read), limit.value().and_then(read))
    else {
        if !may_differ {
            errors.push(limits.required("Limit must be set for non overcommitable resources"));
        }
        return;
    };
    let phrase = match asked.cmp(&limit) {
        std::cmp::Ordering::Equal => return,
        _ if !may_differ => "equal to",
        std::cmp::Ordering::Greater => "less than or equal to",
        std::cmp::Ordering::Less => return,
    };
    let detail = format!("must be {phrase} {name} limit of {limit}");
    errors.push(requests.invalid_value(asked.to_string(), detail));
}

/// Validates a quantity: it must not be negative, nor a fraction of a countable resource.
pub fn validate_quantity(name: &str, place: &Field<'_>, errors: &mut ErrorList) {
    let Some(quantity) = place.value().and_then(read) else {
        return;
    };
    if quantity.sign() < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(place.invalid_value(quantity.to_string(), detail));
    }
    let seems_whole = match place.value() {
        Some(Value::String(text)) => seems_whole(text).unwrap_or(true),
        _ => quantity.is_whole(),
    };
    if is_counted(name) && !seems_whole {
        errors.push(place.invalid_value(quantity.to_string(), "must be an integer"));
    }
}

/// Validates that a quantity of huge pages is a multiple of the page size.
fn validate_huge_pages(name: &str, place: &Field<'_>, errors: &mut ErrorList) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else {
        return;
    };
    let Some(quantity) = place.value().and_then(read) else {
        return;
    };
    let size = size.parse::<Quantity>().ok();
    let size = size.filter(|size| size.sign() > 0 && size.is_whole());
    let is_divisible = size.is_some_and(|size| quantity.value() % size.value() == 0);
    if !is_divisible {
        let detail = format!("{quantity} is not positive integer multiple of {name}");
        errors.push(place.invalid_value(quantity.to_string(), detail));
    }
}

/// Validates the name of any resource. Errors show the name as their value. Returns whether it is
/// valid.
pub fn validate_resource_name(name: &str, place: &Field<'_>, errors: &mut ErrorList) -> bool {
    let wrong = names::qualified_name(name);
    let is_valid = wrong.is_empty() && (name.contains('/') || is_standard(name));
    if wrong.is_empty() && !is_valid {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(place.invalid_value(name, detail));
    }
    errors.extend(
        wrong
            .into_iter()
            .map(|message| place.invalid_value(name, message)),
    );
    is_valid
}

/// Validates the name of a resource of containers.
pub fn validate_container_resource_name(name: &str, place: &Field<'_>, errors: &mut ErrorList) {
    validate_resource_name(name, place, errors);
    if !name.contains('/') {
        if !is_of_containers(name) {
            errors.push(place.invalid_value(name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(place.invalid_value(name, detail));
    }
}

fn validate_pod_resource_name(name: &str, place: &Field<'_>, errors: &mut ErrorList) {
    let is_valid = validate_resource_name(name, place, errors);
    if is_valid && !is_of_pod_level(name) {
        let shown = Value::from(name);
        let supported = ["cpu", HUGE_PAGES, "memory"];
        errors.push(place.with_value(&shown).not_supported(&supported));
    }
}

/// Validates a container's references to claims of the pod.
fn validate_claims(claims: &Field<'_>, of_pod: &BTreeSet<&str>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    let names: Vec<&str> = of_pod.iter().copied().collect();
    let one_of = "must be one of the names in pod.spec.resourceClaims";
    let detail = match names.is_empty() {
        true => format!("{one_of} which is empty"),
        false => format!("{one_of}: {}", names.join(", ")),
    };
    for claim in claims.items() {
        let shown = claim.member("name").text();
        if shown.is_empty() {
            errors.push(claim.required(""));
            continue;
        }
        let value = Value::from(shown);
        let place = claim.with_value(&value);
        note_claim(&claim, &place, &mut seen, errors);
        if !of_pod.contains(shown) {
            errors.push(place.fault(FieldErrorKind::NotFound, detail.as_str()));
        }
    }
}

/// Validates that a claim, or a request in it, is referred to once. The whole claim includes its
/// requests.
fn note_claim(
    claim: &Field<'_>,
    place: &Field<'_>,
    seen: &mut BTreeSet<String>,
    errors: &mut ErrorList,
) {
    let name = place.text();
    let request = claim.member("request");
    if seen.contains(name) {
        errors.push(place.duplicate());
        return;
    }
    let mut key = name.to_owned();
    if request.text().is_empty() {
        key.push('/');
        let of_name = seen.range(key.clone()..);
        let requests = of_name.take_while(|other| other.starts_with(&key)).count();
        errors.extend((0..requests).map(|_| place.duplicate()));
        key.pop();
    } else {
        report(&request, names::dns_label(request.text()), errors);
        key.push('/');
        key.push_str(request.text());
        if seen.contains(&key) {
            let shown = Value::from(key.as_str());
            errors.push(place.with_value(&shown).duplicate());
        }
    }
    seen.insert(key);
}
