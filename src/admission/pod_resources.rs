//! What a pod requests, and how it is limited. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::object::Object;
use crate::api::quantity::Quantity;

/// Amounts by the names of resources.
pub(super) type Quantities = BTreeMap<String, Quantity>;

/// Which amounts are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// What is requested.
    Requests,
    /// What is allowed at most.
    Limits,
}

impl Side {
    /// The member of `resources`.
    pub(super) fn member(self) -> &'static str {
        match self {
            Side::Requests => "requests",
            Side::Limits => "limits",
        }
    }
}

/// The amounts in a map of a checked object.
pub(super) fn quantities(map: Option<&Value>) -> Quantities {
    let members = map.and_then(Value::as_object).into_iter().flatten();
    let read = |(name, value): (&String, &Value)| {
        let quantity = value.as_str()?.parse().ok()?;
        Some((name.clone(), quantity))
    };
    members.filter_map(read).collect()
}

/// The amounts of a container.
pub(super) fn of_container(container: &Value, side: Side) -> Quantities {
    let resources = container.get("resources");
    quantities(resources.and_then(|resources| resources.get(side.member())))
}

/// A list of containers of a pod: `containers` or `initContainers`.
pub(super) fn containers<'p>(pod: &'p Object, list: &str) -> &'p [Value] {
    pod.items(&["spec", list])
}

/// The amounts that are set for the pod as a whole.
pub(super) fn of_pod_level(pod: &Object, side: Side) -> Quantities {
    let mut own = quantities(pod.at(&["spec", "resources", side.member()]));
    own.retain(|name, _| {
        matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-")
    });
    own
}

/// The amounts of a pod: the sum over its containers, or what its start needs if that is more, or
/// what is set for the pod as a whole. The overhead is not in it.
pub(super) fn of_pod(pod: &Object, side: Side) -> Quantities {
    summed(pod, side, of_container)
}

/// The same, with these amounts of containers.
fn summed(pod: &Object, side: Side, of: impl Fn(&Value, Side) -> Quantities) -> Quantities {
    let mut sum = Quantities::new();
    for container in containers(pod, "containers") {
        add(&mut sum, &of(container, side));
    }
    // Containers that go on beside those that are started later.
    let mut beside = Quantities::new();
    let mut start = Quantities::new();
    for container in containers(pod, "initContainers") {
        let mut own = of(container, side);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            add(&mut sum, &own);
            add(&mut beside, &own);
            own.clone_from(&beside);
        } else {
            add(&mut own, &beside);
        }
        raise(&mut start, &own);
    }
    raise(&mut sum, &start);
    sum.extend(of_pod_level(pod, side));
    sum
}

/// The amounts of a pod with its overhead. Limits grow only where there are some.
pub(super) fn with_overhead(pod: &Object, side: Side) -> Quantities {
    grown(pod, side, of_pod(pod, side))
}

/// The amounts of a pod with its overhead, where containers that are being resized take what they
/// have or what they are to have, whichever is more.
pub(super) fn of_running_pod(pod: &Object, side: Side) -> Quantities {
    let sum = summed(pod, side, |container, side| {
        of_running_container(pod, container, side)
    });
    grown(pod, side, sum)
}

fn of_running_container(pod: &Object, container: &Value, side: Side) -> Quantities {
    let own = of_container(container, side);
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut statuses = lists.iter().flat_map(|list| pod.items(&["status", list]));
    let status = statuses.find(|status| status.get("name") == container.get("name"));
    let Some(status) = status.filter(|status| status["resources"].is_object()) else {
        return own;
    };
    let is_refused = |condition: &Value| {
        condition["type"] == "PodResizePending" && condition["reason"] == "Infeasible"
    };
    let conditions = pod.items(&["status", "conditions"]);
    let mut most = match conditions.iter().any(is_refused) {
        true => Quantities::new(),
        false => own,
    };
    raise(&mut most, &of_container(status, side));
    if side == Side::Requests {
        raise(&mut most, &quantities(status.get("allocatedResources")));
    }
    most
}

/// Amounts of a pod and its overhead.
fn grown(pod: &Object, side: Side, mut sum: Quantities) -> Quantities {
    let mut overhead = quantities(pod.at(&["spec", "overhead"]));
    if side == Side::Limits {
        overhead.retain(|name, _| sum.get(name).is_some_and(|limit| limit.sign() != 0));
    }
    add(&mut sum, &overhead);
    sum
}

/// Adds amounts to others.
pub(super) fn add(sum: &mut Quantities, more: &Quantities) {
    for (name, quantity) in more {
        let before = sum.get(name).copied();
        let after = before.map_or(*quantity, |before| before.plus(*quantity));
        sum.insert(name.clone(), after);
    }
}

fn raise(most: &mut Quantities, others: &Quantities) {
    for (name, quantity) in others {
        if most.get(name).is_none_or(|before| before < quantity) {
            most.insert(name.clone(), *quantity);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cpu(value: Value, side: Side) -> String {
        let pod = Object::of(json!({"spec": value}).as_object().unwrap().clone());
        with_overhead(&pod, side)["cpu"].to_string()
    }

    #[test]
    fn a_pod_needs_the_sum_of_its_containers_or_what_its_start_needs() {
        let of = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut beside = of("100m");
        beside["restartPolicy"] = json!("Always");
        let two = json!({"containers": [of("1"), of("500m")]});
        assert_eq!(cpu(two, Side::Requests), "1500m");
        let start = json!({"containers": [of("1")], "initContainers": [of("3"), of("2")]});
        assert_eq!(cpu(start, Side::Requests), "3");
        let sidecar = json!({"containers": [of("1")], "initContainers": [beside, of("2")]});
        assert_eq!(cpu(sidecar, Side::Requests), "2100m");
        let whole = json!({"containers": [of("1")], "resources": {"requests": {"cpu": "4"}},
            "overhead": {"cpu": "1"}});
        assert_eq!(cpu(whole, Side::Requests), "5");
    }

    #[test]
    fn a_container_that_is_being_resized_takes_what_is_more() {
        let mut pod = json!({
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"},
                "resources": {"requests": {"cpu": "2"}}}]},
        });
        let cpu = |pod: &Value| {
            let pod = Object::of(pod.as_object().unwrap().clone());
            of_running_pod(&pod, Side::Requests)["cpu"].to_string()
        };
        assert_eq!(cpu(&pod), "3");
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4");
        assert_eq!(cpu(&pod), "4");
        let condition = json!({"type": "PodResizePending", "reason": "Infeasible"});
        pod["status"]["conditions"] = json!([condition]);
        assert_eq!(cpu(&pod), "3");
        pod["status"]["containerStatuses"][0]["resources"] = json!(null);
        assert_eq!(cpu(&pod), "4");
    }
}
