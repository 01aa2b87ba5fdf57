//! Validation of updates of a pod's status.

use std::collections::{HashMap, HashSet};

use api::field::Field;
use api::field_error::FieldErrorKind;
use api::keyed::Keyed;
use api::names;
use api::object::Object;
use serde_json::Value;

use super::fields::{validate_dns_label, validate_dns_subdomain};
use super::update::validate_annotations;
use crate::types::internal::internal_list_json;
use crate::validation::addresses::{is_v4, parse_address, validate_legacy_address};
use crate::validation::enums::must_be_one_of;
use crate::validation::numbers::user_id;
use crate::validation::report;
use crate::validation::required::require_text;
use api::error_list::ErrorList;

const MAX_HEALTH_MESSAGE: usize = 1024;
const NOT_NEGATIVE: &str = "must be a non-negative integer";

/// Conditions whose types are not validated.
const SYSTEM_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

/// Lists of container statuses, and the lists of their containers.
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// Validates an update of a pod's status.
pub fn validate_pod_status_update(object: &Object, stored: &Object, errors: &mut ErrorList) {
    validate_annotations(object, stored, errors);
    let status = Field::of(object, "status");
    let before = Field::of(stored, "status");
    let spec = Field::of(object, "spec");
    let old_spec = Field::of(stored, "spec");
    for condition in status.member("conditions").items() {
        validate_condition(&condition, errors);
    }
    if spec.member("nodeName").text() != old_spec.member("nodeName").text() {
        let node = status.member("nodeName");
        errors.push(node.forbidden("may not be changed directly"));
    }
    validate_nominated_node(&status, &before, &old_spec, errors);
    validate_generation(&status, errors);
    let class = status.member("qosClass");
    let old_class = before.member("qosClass");
    if class.is_set() && class.text() != old_class.text() {
        errors.push(class.invalid("field is immutable"));
    }
    validate_transitions(&status, &before, &old_spec, errors);
    validate_claims(&status, &spec, errors);
    let extended = status.member("extendedResourceClaimStatus");
    if extended.is_set() {
        validate_extended_claim(&extended, &spec, errors);
    }
    validate_addresses(&status, &before, errors);
    for (name, _) in STATUSES {
        for container in status.member(name).items() {
            validate_user(&container, &spec, errors);
        }
    }
    validate_allocated(&status, &spec, errors);
}

fn validate_generation(of: &Field<'_>, errors: &mut ErrorList) {
    let generation = of.member("observedGeneration");
    if generation.int().is_some_and(|number| number < 0) {
        errors.push(generation.invalid(NOT_NEGATIVE));
    }
}

fn validate_condition(condition: &Field<'_>, errors: &mut ErrorList) {
    validate_generation(condition, errors);
    let of = condition.member("type");
    if !SYSTEM_CONDITIONS.contains(&of.text()) {
        let shown = condition.member("Type");
        for wrong in names::qualified_name(of.text()) {
            errors.push(shown.invalid_value(of.text(), wrong));
        }
    }
}

/// Validates the nominated node.
fn validate_nominated_node(
    status: &Field<'_>,
    before: &Field<'_>,
    old_spec: &Field<'_>,
    errors: &mut ErrorList,
) {
    let node = status.member("nominatedNodeName");
    if node.text().is_empty() || node.text() == before.member("nominatedNodeName").text() {
        return;
    }
    report(&node, names::dns_subdomain(node.text()), errors);
    if !old_spec.member("nodeName").text().is_empty() {
        errors.push(node.forbidden("may not be set on pods that are already bound to a node"));
    }
}

/// Validates that terminated containers stay terminated unless they are restarted.
fn validate_transitions(
    status: &Field<'_>,
    before: &Field<'_>,
    spec: &Field<'_>,
    errors: &mut ErrorList,
) {
    let restarts_all = restarts_all_containers(spec);
    for (name, list) in STATUSES {
        let is_ephemeral = list == "ephemeralContainers";
        if restarts_all && !is_ephemeral {
            continue;
        }
        let statuses = status.member(name);
        let statuses_by_name = Keyed::by(statuses.items(), |of| of.text_of("name"));
        let containers = spec.member(list);
        let containers = Keyed::by(containers.items(), |of| of.text_of("name"));
        for (index, old) in before.member(name).items().enumerate() {
            let state = old.member("state");
            let ended = state.member("terminated");
            if !ended.is_set() {
                continue;
            }
            let of = old.member("name").text();
            let runs = statuses_by_name
                .first(of)
                .is_some_and(|new| !new.member("state").member("terminated").is_set());
            let code = ended.member("exitCode").int().unwrap_or_default();
            let may_restart = !is_ephemeral
                && containers
                    .first(of)
                    .is_some_and(|container| restarts(container, spec, code));
            if runs && !may_restart {
                let place = statuses.index(index);
                let detail = "may not be transitioned to non-terminated state";
                errors.push(place.member("state").forbidden(detail));
            }
        }
    }
}

/// Reports whether the exit of a container may restart all of them.
fn restarts_all_containers(spec: &Field<'_>) -> bool {
    ["containers", "initContainers"].iter().any(|list| {
        spec.member(list).items().any(|container| {
            container
                .member("restartPolicyRules")
                .items()
                .any(|rule| rule.member("action").text() == "RestartAllContainers")
        })
    })
}

/// Reports whether a container that exited with this code is restarted.
fn restarts(container: &Field<'_>, spec: &Field<'_>, code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    };
    let own = container.member("restartPolicy");
    if !own.is_set() {
        return by_policy(spec.member("restartPolicy").text());
    }
    let rules = container.member("restartPolicyRules");
    let matching = rules.items().find_map(|rule| {
        let codes = rule.member("exitCodes");
        let values = codes.member("values");
        let is_one = values
            .list()
            .iter()
            // linear: the codes of one rule. A container has at most 20 rules.
            .any(|value| value.as_i64() == Some(code));
        let is_match = match codes.member("operator").text() {
            "In" => is_one,
            "NotIn" => !is_one,
            _ => false,
        };
        is_match.then(|| rule.member("action").text() == "Restart")
    });
    match matching {
        Some(true) => true,
        _ => by_policy(own.text()),
    }
}

/// Validates the resource claims that were created for the pod.
fn validate_claims(status: &Field<'_>, spec: &Field<'_>, errors: &mut ErrorList) {
    let claims = spec.member("resourceClaims");
    let names: HashSet<&str> = claims.items().map(|of| of.text_of("name")).collect();
    let mut seen = HashSet::new();
    for claim in status.member("resourceClaimStatuses").items() {
        let name = claim.member("name");
        if !names.contains(name.text()) {
            errors.push(name.invalid_value(
                name.text(),
                "must match the name of an entry in `spec.resourceClaims`",
            ));
        }
        if !seen.insert(name.text().to_owned()) {
            errors.push(name.duplicate());
        }
        let made = claim.member("resourceClaimName");
        if made.is_set() {
            validate_dns_subdomain(&made, errors);
        }
    }
}

/// Validates the claim that was created for extended resources.
fn validate_extended_claim(status: &Field<'_>, spec: &Field<'_>, errors: &mut ErrorList) {
    let mappings = status.member("requestMappings");
    if mappings.is_empty() {
        errors.push(mappings.required("at least one request mapping is required"));
    }
    let lists = [spec.member("containers"), spec.member("initContainers")];
    let containers = Keyed::by(lists.iter().flat_map(Field::items), |of| of.text_of("name"));
    let mut seen: HashSet<[&str; 3]> = HashSet::new();
    for (index, value) in mappings.list().iter().enumerate() {
        let mapping = mappings.index(index);
        let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let (container, resource) = (text("containerName"), text("resourceName"));
        let found = containers.first(container);
        let requests = |of: &Field<'_>| {
            let resources = of.member("resources");
            resources.member("requests").key(resource).is_set()
        };
        match found.map(requests) {
            None => errors.push(mapping.member("containerName").invalid_value(
                container,
                "must match the name of an entry in spec.initContainers.name or \
                 spec.containers.name",
            )),
            Some(false) => errors.push(mapping.member("resourceName").invalid_value(
                resource,
                "must match the extended resource name of an entry in \
                 spec.initContainers.resources.requests or spec.containers.resources.requests",
            )),
            Some(true) => {}
        }
        let request = Value::from(text("requestName"));
        validate_dns_label(&status.member("requestName").with_value(&request), errors);
        if !seen.insert([container, resource, text("requestName")]) {
            for name in ["containerName", "resourceName", "requestName"] {
                errors.push(mapping.member(name).duplicate());
            }
        }
    }
    let name = status.member("resourceClaimName");
    if require_text(&name, errors) {
        validate_dns_subdomain(&name, errors);
    }
}

/// Validates the IP addresses of the pod and of its host: at most one of each family.
fn validate_addresses(status: &Field<'_>, before: &Field<'_>, errors: &mut ErrorList) {
    let list = status.member("podIPs");
    let first = status.member("podIP");
    // If `podIP` differs from the first of `podIPs`, it replaces that one.
    let is_right = list.index(0).member("ip").text() == first.text();
    if first.text().is_empty() || is_right {
        validate_list(&list, before, "core.v1.PodIP", errors);
    } else if let Some(value) = first.value() {
        validate_legacy_address(&list.index(0).with_value(value), &HashSet::new(), errors);
    }
    let list = status.member("hostIPs");
    if list.is_empty() {
        return;
    }
    let first = list.index(0);
    let address = first.member("ip");
    if status.member("hostIP").text() != address.text() {
        errors.push(address.invalid_value(address.text(), "must be equal to `hostIP`"));
    }
    validate_list(&list, before, "core.v1.HostIP", errors);
}

fn validate_list(list: &Field<'_>, before: &Field<'_>, of: &str, errors: &mut ErrorList) {
    let name = if of.ends_with("PodIP") {
        "podIPs"
    } else {
        "hostIPs"
    };
    let old = before.member(name);
    let ips = old.list().iter().filter_map(|address| address.get("ip"));
    let stored: HashSet<&str> = ips.filter_map(Value::as_str).collect();
    let mut families = HashSet::new();
    let mut unknown = None;
    let nothing = Value::from("");
    for (index, item) in list.items().enumerate() {
        let value = item.member("ip").value().unwrap_or(&nothing);
        validate_legacy_address(&item.with_value(value), &stored, errors);
        match parse_address(value.as_str().unwrap_or_default()) {
            Some(address) => {
                families.insert(is_v4(address));
            }
            None => {
                let text = value.as_str().unwrap_or_default();
                unknown.get_or_insert_with(|| format!("invalid IP[{index}]: {text}"));
            }
        }
    }
    if list.len() < 2 {
        return;
    }
    if let Some(problem) = &unknown {
        let detail = format!("failed to check for dual stack with error:{problem}");
        errors.push(list.fault(FieldErrorKind::Internal, detail));
    }
    let is_dual = unknown.is_none() && families.len() == 2;
    if !is_dual || list.len() > 2 {
        let detail = "may specify no more than one IP for each IP family";
        let error = list.invalid(detail);
        errors.push(error.showing_json(|| internal_list_json(of, list.list())));
    }
}

/// Validates the user that a container runs as.
fn validate_user(container: &Field<'_>, spec: &Field<'_>, errors: &mut ErrorList) {
    let user = container.member("user");
    let linux = user.member("linux");
    if !linux.is_set() {
        return;
    }
    match spec.member("os").member("name").text() {
        "windows" => errors.push(linux.forbidden("cannot be set for a windows pod")),
        "linux" | "" => {
            let groups = linux.member("supplementalGroups");
            let ids = [linux.member("uid"), linux.member("gid")];
            for id in ids.into_iter().chain(groups.items()) {
                let wrong = user_id(id.int().unwrap_or_default());
                errors.extend(wrong.map(|wrong| id.invalid(wrong)));
            }
        }
        _ => {}
    }
}

/// Validates the health of resources that were allocated to containers.
fn validate_allocated(status: &Field<'_>, spec: &Field<'_>, errors: &mut ErrorList) {
    for (name, list) in STATUSES {
        let containers = spec.member(list);
        let containers = Keyed::by(containers.items(), |of| of.text_of("name"));
        let mut claims = HashMap::new();
        for of in status.member(name).items() {
            let allocated = of.member("allocatedResourcesStatus");
            if list == "ephemeralContainers" {
                if !allocated.is_empty() {
                    let detail = "must not be specified in container status";
                    errors.push(allocated.forbidden(detail));
                }
                continue;
            }
            let container = containers.first(of.member("name").text());
            for resource in allocated.items() {
                if let Some(container) = container {
                    let claims = claims.entry(container.text_of("name"));
                    let claims = claims.or_insert_with(|| claims_of(container));
                    validate_allocated_name(&resource, container, claims, errors);
                }
                validate_health(&resource, errors);
            }
        }
    }
}

/// Returns the claims of a container, as resource health names them.
fn claims_of(container: &Field<'_>) -> HashSet<String> {
    let resources = container.member("resources");
    let claims = resources.member("claims");
    let name = |claim: Field<'_>| match claim.text_of("request") {
        "" => claim.text_of("name").to_owned(),
        request => format!("{}/{request}", claim.text_of("name")),
    };
    claims.items().map(name).collect()
}

fn validate_allocated_name(
    resource: &Field<'_>,
    container: &Field<'_>,
    claims: &HashSet<String>,
    errors: &mut ErrorList,
) {
    let name = resource.member("name");
    let resources = container.member("resources");
    let (is_found, detail) = match name.text().strip_prefix("claim:") {
        Some(claim) => (
            claims.contains(claim),
            "must match one of the container's resource claims in a format \
             'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
        ),
        None => (
            resources.member("requests").key(name.text()).is_set(),
            "must match one of the container's resource requests",
        ),
    };
    if !is_found {
        errors.push(name.invalid_value(name.text(), detail));
    }
}

fn validate_health(resource: &Field<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for item in resource.member("resources").items() {
        let health = item.member("health");
        must_be_one_of(&health, &["Healthy", "Unhealthy", "Unknown"], errors);
        let message = item.member("message");
        if message.is_set() && message.text().is_empty() {
            errors.push(message.required("must be non-empty if specified"));
        } else if message.text().len() > MAX_HEALTH_MESSAGE {
            errors.push(message.too_long(MAX_HEALTH_MESSAGE));
        }
        let id = item.member("resourceID");
        if !seen.insert(id.text().to_owned()) {
            errors.push(id.duplicate());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::update::tests::check;
    use super::*;

    #[test]
    fn changes_of_statuses_are_refused_as_recorded() {
        let cases = include_str!("../../../recorded/pod_status.json");
        check(cases, validate_pod_status_update);
    }

    /// Returns the errors of restarting a container that exited with this code.
    fn started_again(spec: Value, list: &str, name: &str, code: i64) -> Vec<String> {
        let pod = |state: Value| {
            let mut spec = spec.clone();
            let members = spec.as_object_mut().expect("an object");
            let containers = json!([{"name": "a", "image": "i"}]);
            members.entry("containers").or_insert(containers);
            let status = json!({list: [{"name": name, "state": state}]});
            let pod = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
            let mut pod = Object::of(pod.as_object().expect("an object").clone());
            crate::defaults::pods::pod(&mut pod);
            pod
        };
        let old = pod(json!({"terminated": {"exitCode": code}}));
        let new = pod(json!({"running": {}}));
        let errors = ErrorList::of(|errors| validate_pod_status_update(&new, &old, errors));
        errors.iter().map(ToString::to_string).collect()
    }

    /// Answers of kube-apiserver 1.36. They are not in the recordings, because creating such pods
    /// takes several requests.
    #[test]
    fn ended_containers_run_again_only_if_they_are_restarted() {
        const LIST: &str = "containerStatuses";
        let of = |policy: &str| json!({"restartPolicy": policy});
        let with = |container: Value| {
            let mut container = container;
            container["name"] = "a".into();
            json!({"restartPolicy": "Never", "containers": [container]})
        };
        let rule = |action: &str| {
            let codes = json!({"operator": "In", "values": [3]});
            let rules = json!([{"action": action, "exitCodes": codes}]);
            with(json!({"restartPolicy": "Never", "restartPolicyRules": rules}))
        };
        for (spec, code) in [
            (of("OnFailure"), 1),
            (of("Always"), 0),
            (rule("Restart"), 3),
            (rule("RestartAllContainers"), 4),
            (with(json!({"restartPolicy": "Always"})), 4),
        ] {
            let errors = started_again(spec.clone(), LIST, "a", code);
            assert!(errors.is_empty(), "{spec} {errors:?}");
        }
        let detail = "Forbidden: may not be transitioned to non-terminated state";
        let refused = [format!("status.{LIST}[0].state: {detail}")];
        for (spec, code) in [
            (of("Never"), 1),
            (of("OnFailure"), 0),
            (rule("Restart"), 4),
            (with(json!({"restartPolicy": "OnFailure"})), 0),
        ] {
            assert_eq!(
                started_again(spec.clone(), LIST, "a", code),
                refused,
                "{spec}"
            );
        }
        assert_eq!(started_again(of("Always"), LIST, "unknown", 0), refused);
        let list = "ephemeralContainerStatuses";
        let refused = [format!("status.{list}[0].state: {detail}")];
        assert_eq!(started_again(of("Always"), list, "e", 1), refused);
        assert_eq!(
            started_again(rule("RestartAllContainers"), list, "e", 1),
            refused
        );
        let list = "initContainerStatuses";
        let init = |policy: Value| {
            let container = json!({"name": "b", "image": "i", "restartPolicy": policy});
            json!({"restartPolicy": "Never", "initContainers": [container]})
        };
        assert!(started_again(init("Always".into()), list, "b", 1).is_empty());
        let refused = [format!("status.{list}[0].state: {detail}")];
        assert_eq!(started_again(init(Value::Null), list, "b", 1), refused);
    }
}
