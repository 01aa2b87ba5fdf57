//! DefaultTolerationSeconds (API-266): pods stay for five minutes on failed nodes.

use futures_util::future::FutureExt;
use serde_json::{Value, json};

use super::{Admitted, Attributes, MutatingPlugin, Plugin};
use crate::api::object::{Object, push};

/// The taints of failed nodes.
const FAILURES: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];
const SECONDS: u32 = 300;
const TOLERATIONS: [&str; 2] = ["spec", "tolerations"];

/// The plugin.
pub(super) struct DefaultTolerationSeconds;

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "pods") || attributes.updates("", "pods")
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for DefaultTolerationSeconds {
    fn admit<'p>(&'p self, _: &'p Attributes<'_>, pod: Option<&'p mut Object>) -> Admitted<'p> {
        if let Some(pod) = pod {
            tolerate(pod);
        }
        std::future::ready(Ok(())).boxed()
    }
}

/// Adds a toleration for each failure that the pod does not mention.
fn tolerate(pod: &mut Object) {
    let text = |toleration: &Value, member: &str| {
        let found = toleration.get(member).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let lacks = |taint: &&&str| {
        // linear: two taints are looked for.
        !pod.items(&TOLERATIONS).iter().any(|toleration| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key.is_empty() || key == **taint) && (effect.is_empty() || effect == "NoExecute")
        })
    };
    let missing: Vec<Value> = FAILURES.iter().filter(lacks).map(toleration).collect();
    for toleration in missing {
        push(pod, &TOLERATIONS, toleration);
    }
}

fn toleration(taint: &&str) -> Value {
    json!({
        "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::object::put;

    fn keys(tolerations: Value) -> Vec<String> {
        let mut pod = Object::default();
        put(&mut pod, &TOLERATIONS, tolerations);
        tolerate(&mut pod);
        let key = |one: &Value| one["key"].as_str().unwrap_or("*").to_owned();
        pod.items(&TOLERATIONS).iter().map(key).collect()
    }

    #[test]
    fn what_a_pod_tolerates_itself_is_not_added_api_266() {
        assert_eq!(keys(Value::Null), FAILURES);
        assert_eq!(
            keys(json!([{"key": FAILURES[1], "operator": "Exists"}])),
            [FAILURES[1], FAILURES[0]]
        );
        assert_eq!(keys(json!([{"operator": "Exists"}])), ["*"]);
        assert_eq!(
            keys(json!([{"operator": "Exists", "effect": "NoSchedule"}])),
            ["*", FAILURES[0], FAILURES[1]]
        );
    }
}
