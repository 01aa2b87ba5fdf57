//! The QoS class of pods, which decides the order of eviction under node pressure.

use serde_json::Value;

use api::object::Object;
use api::quantity::Quantity;

use crate::defaults::Members;
use crate::defaults::pods::resources::{Amounts, add, amounts};
use crate::resource_names::is_cpu_or_memory;

/// Returns the QoS class of a pod from its pod-level resources, or else from those of its
/// containers.
pub fn quality_of_service(object: &Object) -> &'static str {
    let Some(spec) = object.at(&["spec"]).and_then(Value::as_object) else {
        return "BestEffort";
    };
    let has_own = spec.get("resources").is_some_and(|own| !own.is_null());
    let consumers: Vec<&Members> = match has_own {
        true => vec![spec],
        false => ["containers", "initContainers"]
            .iter()
            .filter_map(|list| spec.get(*list)?.as_array())
            .flatten()
            .filter_map(Value::as_object)
            .collect(),
    };
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut are_all_limited = true;
    for consumer in consumers {
        add(&mut requests, &counted(consumer, "requests"));
        let own = counted(consumer, "limits");
        are_all_limited &= own.len() == 2;
        add(&mut limits, &own);
    }
    match () {
        () if requests.is_empty() && limits.is_empty() => "BestEffort",
        () if are_all_limited && requests == limits => "Guaranteed",
        () => "Burstable",
    }
}

/// Returns the quantities that decide the class: positive ones of cpu and memory.
fn counted(consumer: &Members, list: &str) -> Amounts {
    let mut amounts = amounts(consumer, list);
    amounts.retain(|name, amount: &mut Quantity| is_cpu_or_memory(name) && amount.sign() > 0);
    amounts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Answers of kube-apiserver 1.36.
    #[test]
    fn resources_decide_on_the_quality_of_service() {
        let equal = |amounts: Value| json!({"limits": amounts.clone(), "requests": amounts});
        let both = || equal(json!({"cpu": "1", "memory": "1Gi"}));
        let cases = [
            (json!({"containers": [{"resources": both()}]}), "Guaranteed"),
            (
                json!({"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1"},
                    "requests": {"cpu": "500m", "memory": "1"}}}]}),
                "Burstable",
            ),
            (
                json!({"containers": [{"resources": both()}, {}]}),
                "Burstable",
            ),
            (
                json!({"containers": [{"resources": both()}], "initContainers": [{}]}),
                "Burstable",
            ),
            (
                json!({"containers": [{"resources": equal(json!({"cpu": "0"}))}]}),
                "BestEffort",
            ),
            (
                json!({"containers": [{"resources": equal(json!({"ephemeral-storage": "1"}))}]}),
                "BestEffort",
            ),
            (
                json!({"containers": [{}], "resources": both()}),
                "Guaranteed",
            ),
            (
                json!({"containers": [{}], "resources": equal(json!({"cpu": "1"}))}),
                "Burstable",
            ),
            (
                json!({"containers": [{"resources": both()}], "resources": {}}),
                "BestEffort",
            ),
            (
                json!({"containers": [{}], "resources": {"requests": {"cpu": "1"}}}),
                "Burstable",
            ),
        ];
        for (spec, class) in cases {
            let mut object = Object::default();
            object.0.insert("spec".to_owned(), spec.clone());
            assert_eq!(quality_of_service(&object), class, "{spec}");
        }
    }
}
