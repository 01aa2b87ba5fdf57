//! The requests and limits of a pod. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::keyed::Keyed;
use crate::api::object::Object;
use crate::api::quantity::Quantity;
use crate::kinds::resource_names::is_of_pod_level;

/// Amounts by the names of resources.
pub(super) type Quantities = BTreeMap<String, Quantity>;

/// The kind of amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The requested amounts.
    Requests,
    /// The limits.
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
    own.retain(|name, _| is_of_pod_level(name));
    own
}

/// The amounts of a pod: the sum over its containers, or the amounts for its start if they are
/// more, or the pod-level ones. The overhead is not included.
pub(super) fn of_pod(pod: &Object, side: Side) -> Quantities {
    summed(pod, side, of_container)
}

/// The same, with these amounts of containers.
fn summed(pod: &Object, side: Side, of: impl Fn(&Value, Side) -> Quantities) -> Quantities {
    let mut sum = Quantities::new();
    for container in containers(pod, "containers") {
        add(&mut sum, &of(container, side));
    }
    // Sidecars keep running while later containers start.
    let mut beside = Quantities::new();
    let mut start = Quantities::new();
    for container in containers(pod, "initContainers") {
        let own = of(container, side);
        let is_sidecar = container.get("restartPolicy").and_then(Value::as_str) == Some("Always");
        if is_sidecar {
            add(&mut sum, &own);
            add(&mut beside, &own);
        }
        // For resources that a container does not mention, its start needs only those of the
        // sidecars.
        let needed = own.into_iter().map(|(name, own)| {
            let needed = match (beside.get(&name), is_sidecar) {
                (Some(beside), true) => beside.clone(),
                (Some(beside), false) => own.plus(beside),
                (None, _) => own,
            };
            (name, needed)
        });
        raise(&mut start, &needed.collect());
    }
    raise(&mut sum, &start);
    sum.extend(of_pod_level(pod, side));
    sum
}

/// The amounts of a pod with its overhead. The overhead is added only to existing limits.
pub(super) fn with_overhead(pod: &Object, side: Side) -> Quantities {
    grown(pod, side, of_pod(pod, side))
}

/// The amounts of a pod with its overhead. A container that is being resized counts with its
/// current or its desired amount, whichever is more.
pub(super) fn of_running_pod(pod: &Object, side: Side) -> Quantities {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let statuses = lists.iter().flat_map(|list| pod.items(&["status", list]));
    let statuses = Keyed::by(statuses, |status| status.get("name"));
    let is_refusal = |condition: &Value| {
        condition["type"] == "PodResizePending" && condition["reason"] == "Infeasible"
    };
    let conditions = pod.items(&["status", "conditions"]);
    let is_refused = conditions.iter().any(is_refusal);
    let sum = summed(pod, side, |container, side| {
        let status = statuses.first(&container.get("name"));
        let status = status.filter(|status| status["resources"].is_object());
        let own = of_container(container, side);
        match status {
            Some(status) => of_resized_container(own, status, is_refused, side),
            None => own,
        }
    });
    grown(pod, side, sum)
}

/// The amounts of a container with this status, unless its resize was refused.
fn of_resized_container(
    own: Quantities,
    status: &Value,
    is_refused: bool,
    side: Side,
) -> Quantities {
    let mut most = match is_refused {
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
        let before = sum.get(name);
        let after = before.map_or_else(|| quantity.clone(), |before| before.plus(quantity));
        sum.insert(name.clone(), after);
    }
}

fn raise(most: &mut Quantities, others: &Quantities) {
    for (name, quantity) in others {
        if most.get(name).is_none_or(|before| before < quantity) {
            most.insert(name.clone(), quantity.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn cpu(value: Value, side: Side) -> String {
        let pod = Object::of(json!({"spec": value}).as_object().unwrap().clone());
        with_overhead(&pod, side)["cpu"].to_string()
    }

    /// Returns the sum over containers, each with all that runs at the same time.
    fn summed_in_full(containers: &[Quantities], start: &[(bool, Quantities)]) -> Quantities {
        let (mut sum, mut beside, mut most) = Default::default();
        containers.iter().for_each(|own| add(&mut sum, own));
        for (goes_on, own) in start {
            let mut own = own.clone();
            match goes_on {
                true => {
                    add(&mut sum, &own);
                    add(&mut beside, &own);
                    own.clone_from(&beside);
                }
                false => add(&mut own, &beside),
            }
            raise(&mut most, &own);
        }
        raise(&mut sum, &most);
        sum
    }

    fn amounts() -> impl Strategy<Value = Quantities> {
        let amount = (0..4, -1..5_i64);
        let amounts = prop::collection::vec(amount, 0..4);
        amounts.prop_map(|all| {
            let all = all.into_iter();
            all.map(|(name, amount)| (format!("r{name}"), Quantity::whole(amount)))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn what_goes_on_beside_a_start_is_counted(
            containers in prop::collection::vec(amounts(), 0..4),
            start in prop::collection::vec((any::<bool>(), amounts()), 0..6),
        ) {
            let container = |own: &Quantities| {
                let own = own.iter().map(|(name, own)| (name.clone(), own.to_string()));
                json!({"resources": {"requests": own.collect::<BTreeMap<_, _>>()}})
            };
            let starting = start.iter().map(|(goes_on, own)| {
                let mut one = container(own);
                if *goes_on {
                    one["restartPolicy"] = json!("Always");
                }
                one
            });
            let spec = json!({
                "initContainers": starting.collect::<Vec<Value>>(),
                "containers": containers.iter().map(container).collect::<Vec<Value>>(),
            });
            let pod = Object::of(json!({"spec": spec}).as_object().unwrap().clone());
            let expected = summed_in_full(&containers, &start);
            prop_assert_eq!(of_pod(&pod, Side::Requests), expected);
        }
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
