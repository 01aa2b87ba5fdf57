//! Updates of the status of pods (http.md 6.2).

use serde_json::Value;

use api::keyed::Keyed;
use api::object::{Object, put, remove};

/// Keeps stored fields that a status update omits: the QoS class, and the observed generations of
/// the status and its conditions.
pub fn prepare_status(object: &mut Object, stored: &Object) {
    for path in [["status", "qosClass"], ["status", "observedGeneration"]] {
        if is_unset(object.at(&path))
            && let Some(known) = stored.at(&path)
        {
            put(object, &path, known.clone());
        }
    }
    drop_of_features(object, stored);
    let mut known = Keyed::by(conditions(stored), |known| {
        known.get("type").unwrap_or(&Value::Null)
    });
    let mut own = conditions(object).to_vec();
    for condition in own.iter_mut().filter_map(Value::as_object_mut) {
        // If several conditions have the same type, the n-th one is matched with the n-th stored
        // one.
        let known = known.take(condition.get("type").unwrap_or(&Value::Null));
        let generation = known.and_then(|known| known.get("observedGeneration"));
        if let (true, Some(generation)) =
            (is_unset(condition.get("observedGeneration")), generation)
        {
            condition.insert("observedGeneration".to_owned(), generation.clone());
        }
    }
    if !own.is_empty() {
        put(object, &["status", "conditions"], own.into());
    }
}

/// The lists of container statuses.
const CONTAINERS: [&str; 3] = [
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

/// Drops fields of disabled feature gates unless the stored status has them: image volume digests,
/// and devices that provide node allocatable resources.
fn drop_of_features(object: &mut Object, stored: &Object) {
    const DEVICES: [&str; 2] = ["status", "nodeAllocatableResourceClaimStatuses"];
    if stored.at(&DEVICES).is_none() {
        remove(object, &DEVICES);
    }
    let known = stored.at(&["status"]);
    let known = CONTAINERS
        .iter()
        .filter_map(|list| known?.get(list)?.as_array());
    let known = known
        .flatten()
        .filter_map(|one| one.get("volumeMounts")?.as_array());
    if known
        .flatten()
        .any(|mount| mount.get("volumeStatus").is_some())
    {
        return;
    }
    let Some(status) = object.0.get_mut("status") else {
        return;
    };
    for list in CONTAINERS {
        let containers = status.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container.get_mut("volumeMounts");
            let mounts = mounts.and_then(Value::as_array_mut);
            let mounts = mounts.into_iter().flatten();
            for mount in mounts.filter_map(Value::as_object_mut) {
                mount.remove("volumeStatus");
            }
        }
    }
}

fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(value) => value.as_i64() == Some(0),
    }
}

fn conditions(object: &Object) -> &[Value] {
    let conditions = object
        .at(&["status", "conditions"])
        .and_then(Value::as_array);
    conditions.map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use api::cost;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Object {
        Object::of(value.as_object().expect("an object").clone())
    }

    /// Answers of kube-apiserver 1.36 to new pods.
    #[test]
    fn new_pods_have_the_status_of_kubernetes() {
        let recorded = include_str!("../../../recorded/pod_created.json");
        let recorded: Vec<Value> = serde_json::from_str(recorded).expect("JSON");
        for case in recorded {
            let mut pod = object(&case["object"]);
            super::super::prepare_create(&mut pod);
            let mut expected = case["status"].clone();
            if let Some(condition) = expected.pointer_mut("/conditions/0") {
                // Our object gets it when it is encoded.
                condition
                    .as_object_mut()
                    .expect("an object")
                    .remove("lastProbeTime");
            }
            assert_eq!(pod.at(&["status"]), Some(&expected), "{}", case["object"]);
        }
    }

    #[test]
    fn a_status_keeps_fields_that_an_update_omits() {
        let of =
            |kind: &str, generation: i64| json!({"type": kind, "observedGeneration": generation});
        let stored = object(&json!({"status": {
            "qosClass": "Burstable", "observedGeneration": 4,
            "conditions": [of("A", 1), of("A", 2), {"type": "B"}],
        }}));
        let mut pod = object(&json!({"status": {"conditions": [
            {"type": "A"}, {"type": "C"}, {"type": "A"}, {"type": "A"}, of("B", 3),
        ]}}));
        prepare_status(&mut pod, &stored);
        let expected = json!({
            "qosClass": "Burstable", "observedGeneration": 4,
            "conditions": [of("A", 1), {"type": "C"}, of("A", 2), {"type": "A"}, of("B", 3)],
        });
        assert_eq!(pod.at(&["status"]), Some(&expected));
    }

    /// Returns the generations of conditions after an update, computed by searching all stored
    /// conditions for each.
    fn generations_by_searching(own: &[Value], stored: &[Value]) -> Vec<Value> {
        let mut known: Vec<&Value> = stored.iter().collect();
        let kept = own.iter().map(|own| {
            let place = known.iter().position(|known| known["type"] == own["type"]);
            let known = place.map(|place| known.remove(place));
            match own.get("observedGeneration") {
                Some(given) => given.clone(),
                None => known
                    .map(|known| known["observedGeneration"].clone())
                    .unwrap_or_default(),
            }
        });
        kept.collect()
    }

    fn generations(own: &[Value], stored: &[Value]) -> Vec<Value> {
        let of = |conditions: &[Value]| object(&json!({"status": {"conditions": conditions}}));
        let mut pod = of(own);
        prepare_status(&mut pod, &of(stored));
        let conditions = conditions(&pod).iter();
        conditions
            .map(|one| one["observedGeneration"].clone())
            .collect()
    }

    fn some_conditions() -> impl Strategy<Value = Vec<Value>> {
        let condition = (0..4, prop::option::of(1..9_i64)).prop_map(|(kind, generation)| {
            let mut condition = json!({"type": format!("t{kind}")});
            if let Some(generation) = generation {
                condition["observedGeneration"] = generation.into();
            }
            condition
        });
        prop::collection::vec(condition, 0..9)
    }

    proptest! {
        #[test]
        fn conditions_are_found_as_by_a_search(
            own in some_conditions(),
            stored in some_conditions(),
        ) {
            let expected = generations_by_searching(&own, &stored);
            prop_assert_eq!(generations(&own, &stored), expected);
        }
    }

    /// Comparing each condition with all others took half a minute.
    #[test]
    fn many_conditions_turned_round_are_looked_up_once_each() {
        let condition = |number: u32| json!({"type": format!("t{number}")});
        let stored: Vec<Value> = (0..36_000)
            .map(|number| json!({"type": format!("t{number}"), "observedGeneration": number + 1}))
            .collect();
        let own: Vec<Value> = (0..36_000).rev().map(condition).collect();
        let expected: Vec<Value> = (0..36_000)
            .rev()
            .map(|number| (number + 1).into())
            .collect();
        let before = cost::counts();
        assert_eq!(generations(&own, &stored), expected);
        assert_eq!(cost::counts().since(before).comparisons, 36_000);
    }
}
