//! The defaults of a LimitRange, and the errors that it finds. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::admission::pod_resources::{
    Quantities, Side, containers, of_container, of_pod, quantities,
};
use crate::api::keyed::distinct;
use crate::api::object::{Object, put};
use crate::api::quantity::Quantity;

const ANNOTATION: [&str; 3] = ["metadata", "annotations", "kubernetes.io/limit-ranger"];
const LISTS: [(&str, &str); 2] = [
    ("containers", "container"),
    ("initContainers", "init container"),
];

/// The size of the annotation that lists defaults, beyond which no more defaults are set. Such a
/// pod is refused anyway, because its annotations are too long.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// The limits of a range for this type.
fn limits_for<'r>(range: &'r Object, kind: &'r str) -> impl Iterator<Item = &'r Value> {
    let limits = range.items(&["spec", "limits"]).iter();
    limits.filter(move |limit| limit["type"] == kind)
}

/// Sets the resources that the containers of a pod do not mention, and lists them in the pod.
pub(super) fn fill_in(pod: &mut Object, range: &Object) {
    let mut requests = Map::new();
    let mut limits = Map::new();
    for limit in limits_for(range, "Container") {
        let of = |member: &str| limit.get(member).and_then(Value::as_object).cloned();
        requests.extend(of("defaultRequest").unwrap_or_default());
        limits.extend(of("default").unwrap_or_default());
    }
    let (mut defaults_set, mut bytes) = (Vec::new(), 0);
    let spec = pod.0.get_mut("spec").and_then(Value::as_object_mut);
    let Some(spec) = spec else {
        return;
    };
    for (list, what) in LISTS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if bytes > MAX_ANNOTATION_BYTES {
                break;
            }
            let limited = fill_in_side(container, Side::Limits, &limits);
            let requested = fill_in_side(container, Side::Requests, &requests);
            let name = container["name"].as_str().unwrap_or_default();
            for (names, side) in [(requested, "request"), (limited, "limit")] {
                if !names.is_empty() {
                    let text = format!("{} {side} for {what} {name}", names.join(", "));
                    bytes += text.len();
                    defaults_set.push(text);
                }
            }
        }
    }
    if !defaults_set.is_empty() {
        let text = format!("LimitRanger plugin set: {}", defaults_set.join("; "));
        put(pod, &ANNOTATION, text.into());
    }
}

/// Sets one side of a container's resources. Returns the names of the set resources.
fn fill_in_side(container: &mut Value, side: Side, defaults: &Map<String, Value>) -> Vec<String> {
    if defaults.is_empty() {
        return Vec::new();
    }
    let Some(container) = container.as_object_mut() else {
        return Vec::new();
    };
    let resources = container.entry("resources").or_insert(Value::Null);
    if !resources.is_object() {
        *resources = Value::Object(Map::new());
    }
    let given = resources.get(side.member()).and_then(Value::as_object);
    let mut all = given.cloned().unwrap_or_default();
    let mut filled = Vec::new();
    for (name, value) in defaults {
        if !all.contains_key(name) {
            all.insert(name.clone(), value.clone());
            filled.push(name.clone());
        }
    }
    filled.sort_unstable();
    if let (Some(resources), false) = (resources.as_object_mut(), filled.is_empty()) {
        resources.insert(side.member().to_owned(), Value::Object(all));
    }
    filled
}

/// Returns the reasons why a range refuses a pod.
pub(super) fn pod_faults(pod: &Object, range: &Object) -> Vec<String> {
    let mut faults = Vec::new();
    for limit in range.items(&["spec", "limits"]) {
        match limit["type"].as_str().unwrap_or_default() {
            "Container" => {
                let all = LISTS.iter().flat_map(|(list, _)| containers(pod, list));
                let mut bounds = Bound::all_of(limit);
                for container in all {
                    let of = |side| of_container(container, side);
                    let own = (of(Side::Requests), of(Side::Limits));
                    let found = bounds.iter_mut();
                    faults.extend(found.flat_map(|bound| bound.faults("Container", &own)));
                }
            }
            "Pod" => {
                let own = (of_pod(pod, Side::Requests), of_pod(pod, Side::Limits));
                let mut bounds = Bound::all_of(limit);
                let found = bounds.iter_mut();
                faults.extend(found.flat_map(|bound| bound.faults("Pod", &own)));
            }
            _ => {}
        }
    }
    faults
}

/// Returns the reasons why a range refuses a claim.
pub(super) fn claim_faults(claim: &Object, range: &Object) -> Vec<String> {
    let kind = "PersistentVolumeClaim";
    let requests = quantities(claim.at(&["spec", "resources", "requests"]));
    let mut faults = Vec::new();
    for limit in limits_for(range, kind) {
        let own = (requests.clone(), Quantities::new());
        for (name, enforced) in quantities(limit.get("min")) {
            faults.extend(minimum_fault(kind, &name, &enforced, &own));
        }
        for (name, most) in quantities(limit.get("max")) {
            let text = format!("maximum {name} usage per {kind} is {most}");
            faults.extend(match requests.get(&name) {
                None => Some(format!("{text}.  No request is specified")),
                Some(request) if *request > most => {
                    Some(format!("{text}, but request is {request}"))
                }
                Some(_) => None,
            });
        }
    }
    faults
}

/// Joins several errors to one text.
pub(super) fn together(faults: &[String]) -> Option<String> {
    let unique: Vec<&str> = distinct(faults.iter().map(String::as_str)).collect();
    match unique.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        all => Some(format!("[{}]", all.join(", "))),
    }
}

/// Requests and limits.
type Amounts = (Quantities, Quantities);

/// The amounts that a limit enforces, and the state of its errors.
struct Bound {
    enforced: Quantities,
    /// The resources for which no container has got the error yet that it does not mention them.
    /// That error is the same for all such containers.
    unreported: BTreeSet<String>,
    fault: fn(&str, &str, &Quantity, &Amounts) -> Option<String>,
}

impl Bound {
    fn all_of(limit: &Value) -> [Bound; 3] {
        let of = |member: &str, fault| {
            let enforced = quantities(limit.get(member));
            Bound {
                unreported: enforced.keys().cloned().collect(),
                enforced,
                fault,
            }
        };
        [
            of("min", minimum_fault),
            of("max", maximum_fault),
            of("maxLimitRequestRatio", ratio_fault),
        ]
    }

    /// Returns the reasons why these amounts are refused, without texts that were reported before.
    fn faults(&mut self, kind: &str, own: &Amounts) -> Vec<String> {
        let (requests, limits) = own;
        let mentioned = requests.keys().chain(limits.keys());
        let names: BTreeSet<&String> = mentioned.chain(&self.unreported).collect();
        let faults = names.into_iter().filter_map(|name| {
            let enforced = self.enforced.get(name)?;
            (self.fault)(kind, name, enforced, own)
        });
        let faults = faults.collect();
        let is_mentioned = |name: &String| requests.contains_key(name) || limits.contains_key(name);
        self.unreported.retain(is_mentioned);
        faults
    }
}

fn minimum_fault(
    kind: &str,
    name: &str,
    least: &Quantity,
    (requests, limits): &Amounts,
) -> Option<String> {
    let text = format!("minimum {name} usage per {kind} is {least}");
    match (requests.get(name), limits.get(name)) {
        (None, _) => Some(format!("{text}.  No request is specified")),
        (Some(request), _) if request < least => Some(format!("{text}, but request is {request}")),
        (_, Some(limit)) if limit < least => Some(format!("{text}, but limit is {limit}")),
        _ => None,
    }
}

fn maximum_fault(
    kind: &str,
    name: &str,
    most: &Quantity,
    (requests, limits): &Amounts,
) -> Option<String> {
    let text = format!("maximum {name} usage per {kind} is {most}");
    match (requests.get(name), limits.get(name)) {
        (_, None) => Some(format!("{text}.  No limit is specified")),
        (_, Some(limit)) if limit > most => Some(format!("{text}, but limit is {limit}")),
        (Some(request), _) if request > most => Some(format!("{text}, but request is {request}")),
        _ => None,
    }
}

/// Checks that `limit / request` is at most this ratio.
fn ratio_fault(
    kind: &str,
    name: &str,
    most: &Quantity,
    (requests, limits): &Amounts,
) -> Option<String> {
    let text = format!("{name} max limit to request ratio per {kind} is {most}");
    let not_zero = |quantity: &&Quantity| quantity.sign() != 0;
    let Some(request) = requests.get(name).filter(not_zero) else {
        return Some(format!(
            "{text}, but no request is specified or request is 0"
        ));
    };
    let Some(limit) = limits.get(name).filter(not_zero) else {
        return Some(format!("{text}, but no limit is specified or limit is 0"));
    };
    let ratio = ratio(limit, request);
    let most = most.milli_value() as f64 / 1000.0;
    (ratio > most).then(|| format!("{text}, but provided ratio is {ratio:.6}"))
}

/// Divides the amounts in thousandths if these fit, as Kubernetes does.
fn ratio(limit: &Quantity, request: &Quantity) -> f64 {
    let fits = |quantity: &Quantity| quantity.value() <= i64::MAX / 1000;
    match fits(limit) && fits(request) {
        true => limit.milli_value() as f64 / request.milli_value() as f64,
        false => limit.value() as f64 / request.value() as f64,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    fn range(limits: Value) -> Object {
        object(json!({"spec": {"limits": limits}}))
    }

    fn pod(resources: Value) -> Object {
        object(json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}))
    }

    /// API-264.
    #[test]
    fn containers_get_what_they_do_not_mention_and_the_pod_says_so() {
        let range = range(
            json!([{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "500m"}}]),
        );
        let mut pod = pod(json!({"limits": {"cpu": "2"}}));
        fill_in(&mut pod, &range);
        let resources = json!({"limits": {"cpu": "2", "memory": "1Gi"},
            "requests": {"cpu": "500m"}});
        assert_eq!(pod.0["spec"]["containers"][0]["resources"], resources);
        assert_eq!(
            pod.text(&ANNOTATION),
            "LimitRanger plugin set: cpu request for container c; memory limit for container c"
        );
    }

    /// API-264.
    #[test]
    fn what_is_too_little_too_much_or_out_of_proportion_is_refused() {
        let refused = |limit: Value, resources: Value| {
            let faults = pod_faults(&pod(resources), &range(json!([limit])));
            together(&faults).unwrap_or_default()
        };
        let bounds = json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}});
        assert_eq!(
            refused(bounds.clone(), json!({})),
            "[minimum cpu usage per Container is 100m.  No request is specified, maximum cpu \
             usage per Container is 1.  No limit is specified]"
        );
        let own = json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "1"}});
        assert_eq!(
            refused(bounds.clone(), own),
            "minimum cpu usage per Container is 100m, but request is 50m"
        );
        let own = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
        assert_eq!(
            refused(bounds, own),
            "maximum cpu usage per Container is 1, but limit is 2"
        );
        let proportion = json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}});
        let own = json!({"requests": {"cpu": "300m"}, "limits": {"cpu": "1"}});
        assert_eq!(
            refused(proportion, own),
            "cpu max limit to request ratio per Pod is 2, but provided ratio is 3.333333"
        );
    }

    proptest! {
        /// API-264. A container gets the errors that no earlier one had.
        #[test]
        fn faults_are_those_of_each_container(
            containers in prop::collection::vec((amounts(), amounts()), 0..6),
            limit in (amounts(), amounts(), amounts()),
        ) {
            let limit = json!({"type": "Container", "min": limit.0, "max": limit.1,
                "maxLimitRequestRatio": limit.2});
            let all: Vec<Value> = containers
                .iter()
                .map(|own| json!({"resources": {"requests": own.0, "limits": own.1}}))
                .collect();
            let pod = object(json!({"spec": {"containers": all}}));
            let found = pod_faults(&pod, &range(json!([limit])));
            let of_each = all.iter().flat_map(|container| {
                let of = |side| of_container(container, side);
                let own = (of(Side::Requests), of(Side::Limits));
                Bound::all_of(&limit).map(|mut bound| bound.faults("Container", &own)).concat()
            });
            let expected: Vec<String> = of_each.collect();
            prop_assert_eq!(together(&found), together(&expected));
        }
    }

    fn amounts() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map("r[0-3]", "[0-3]", 0..4)
    }

    /// Defaults for thousands of resources in thousands of containers would fill the memory.
    #[test]
    fn what_a_pod_can_be_told_limits_what_is_filled_in() {
        let defaults: BTreeMap<String, &str> = (0..300)
            .map(|number| (format!("example.com/{number}"), "1"))
            .collect();
        let range = range(json!([{"type": "Container", "default": defaults}]));
        let containers = vec![json!({"name": "c"}); 1000];
        let mut pod = object(json!({"spec": {"containers": containers}}));
        fill_in(&mut pod, &range);
        assert!(pod.text(&ANNOTATION).len() > MAX_ANNOTATION_BYTES);
        let containers = containers_of(&pod);
        let filled = containers
            .iter()
            .filter(|one| one.get("resources").is_some());
        assert!((10..100).contains(&filled.count()));
    }

    fn containers_of(pod: &Object) -> &[Value] {
        pod.items(&["spec", "containers"])
    }

    /// API-264.
    #[test]
    fn claims_are_kept_within_bounds() {
        let range = range(json!([{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]));
        let claim = object(json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}));
        assert_eq!(
            together(&claim_faults(&claim, &range)).as_deref(),
            Some("maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi")
        );
    }
}
